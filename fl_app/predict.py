"""``python -m fl_app.predict``: the same as ``dpforest predict``."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    from fl_app.commands.cli import run_module

    sys.exit(run_module("predict", "fl_app.predict"))
