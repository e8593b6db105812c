"""``python -m fl_app.data.check``: the same as ``dpforest data check``."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    from fl_app.commands.cli import run_module

    sys.exit(run_module("data check", "fl_app.data.check"))
