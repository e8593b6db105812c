"""Write one self-contained page of many runs, and its figures as SVG and PNG."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

EXAMPLES = """\
dpforest report runs/sweep-2026-01-31_12-00-00
dpforest report runs/first runs/second --out both"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which runs, and where the page goes."""
    parser.add_argument("folders", nargs="+", type=Path, help="run folders, sweep folders, or folders of them")
    parser.add_argument("--out", type=Path, help="folder for report.html and figures (default: the first folder)")


def execute(options: argparse.Namespace) -> int:
    """Write the report and print its answer; exit code 1 if there is nothing to report."""
    from fl_app.report.answer import in_words
    from fl_app.report.gather import gather
    from fl_app.report.page import REPORT, write_page

    target: Path = options.out or options.folders[0]
    gathered = gather(options.folders)
    for left_out in gathered.left_out:
        print(left_out, file=sys.stderr)
    answers = write_page(gathered, target)
    print(in_words(answers))
    print(f"\nreport: {target / REPORT}")
    return 0
