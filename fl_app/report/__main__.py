"""``python -m fl_app.report``: the same as ``dpforest report``."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    from fl_app.commands.cli import run_module

    sys.exit(run_module("report", "fl_app.report"))
