"""``python -m fl_app.export``: the same as ``dpforest export``."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    from fl_app.commands.cli import run_module

    sys.exit(run_module("export", "fl_app.export"))
