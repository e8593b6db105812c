"""Count the ledgers of a finished run again, by independent means.

Each client's releases are composed by plain sums, exact optimal composition, the analytic Gaussian mechanism,
dp-accounting and OpenDP, where these apply. Every number is an upper bound of epsilon, rounded up, and the smallest
counts. The exit code is 1 if it exceeds what the run claims, 2 if there is no ledger to count.
"""

from __future__ import annotations

import argparse
from pathlib import Path

EXAMPLES = """\
dpforest ledger runs/2026-01-31_12-00-00-one_shot-watch"""
FAILED = 2  # exit code where no answer can be given


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The run."""
    parser.add_argument("folder", type=Path, metavar="RUN", help="folder of a finished run")


def execute(options: argparse.Namespace) -> int:
    """Print the table of all claims; exit code 1 if one does not hold, 2 if there are none."""
    from fl_app.results.ledger_check import check_ledgers

    check = check_ledgers(options.folder)
    table = check.table()
    print(table)
    for remark in check.remarks:
        print(f"note: {remark}")
    return 0 if check.holds else 1
