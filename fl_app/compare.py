"""``python -m fl_app.compare``: the same as ``dpforest compare``."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    from fl_app.commands.cli import run_module

    sys.exit(run_module("compare", "fl_app.compare"))
