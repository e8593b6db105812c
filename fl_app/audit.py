"""``python -m fl_app.audit``: the same as ``dpforest audit``."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    from fl_app.commands.cli import run_module

    sys.exit(run_module("audit", "fl_app.audit"))
