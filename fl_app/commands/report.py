"""Write one self-contained page of many runs, and its figures as SVG and PNG."""

from __future__ import annotations

import argparse
from pathlib import Path

from fl_app.commands.compare import add_folders, named_runs, print_answers

EXAMPLES = """\
dpforest report runs/sweep-2026-01-31_12-00-00
dpforest report runs/first runs/second --out both
dpforest report runs report.target=0.9"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which runs, and where the page goes."""
    add_folders(parser)
    parser.add_argument("--out", type=Path, help="folder for report.html and figures (default: the first folder)")


def execute(options: argparse.Namespace) -> int:
    """Write the report and print its answer; exit code 1 if there is nothing to report."""
    from fl_app.report.page import REPORT, write_page

    folders, wanted, gathered = named_runs(options)
    target: Path = options.out or folders[0]
    print_answers(write_page(gathered, target, wanted))
    print(f"\nreport: {target / REPORT}")
    return 0
