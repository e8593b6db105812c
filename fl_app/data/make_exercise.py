"""``python -m fl_app.data.make_exercise``: the same as ``dpforest data make``."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    from fl_app.commands.cli import run_module

    sys.exit(run_module("data make", "fl_app.data.make_exercise"))
