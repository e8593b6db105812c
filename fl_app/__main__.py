"""``python -m fl_app``: the same as ``dpforest run``."""

from __future__ import annotations

import sys

from fl_app.commands.cli import run_module

if __name__ == "__main__":
    sys.exit(run_module("run", "fl_app"))
