"""Write what a finished run guarantees, and what it does not, for a data protection officer.

Every run leaves its statement at its end. This command writes that of an older run, or writes it again after an audit
in the folder above.
"""

from __future__ import annotations

import argparse
from pathlib import Path

EXAMPLES = """\
dpforest statement runs/2026-01-31_12-00-00-one_shot-watch"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The run."""
    parser.add_argument("folder", type=Path, metavar="RUN", help="folder of a finished run")


def execute(options: argparse.Namespace) -> int:
    """Write statement.html into the folder; exit code 1 if it cannot be made."""
    from dpforest.errors import printable
    from fl_app.report.statement import write_statement

    path = write_statement(options.folder)
    print(f"statement: {printable(str(path))}")
    return 0
