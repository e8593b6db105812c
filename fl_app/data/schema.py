"""``python -m fl_app.data.schema``: the same as ``dpforest data schema``."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    from fl_app.commands.cli import run_module

    sys.exit(run_module("data schema", "fl_app.data.schema"))
