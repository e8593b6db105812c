"""``python -m fl_app.report FOLDER...``: one self-contained page of many runs, and its figures as SVG and PNG."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from dpforest.errors import DPForestError
from fl_app.report.answer import in_words
from fl_app.report.gather import gather
from fl_app.report.page import REPORT, write_page
from fl_app.screen import run_command


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the report and print its answer; exit code 1 if there is nothing to report."""
    parser = argparse.ArgumentParser(prog="python -m fl_app.report", description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path, help="run folders, sweep folders, or folders of them")
    parser.add_argument("--out", type=Path, help=f"folder for {REPORT} and figures (default: the first folder)")
    options = parser.parse_args(arguments)
    target: Path = options.out or options.folders[0]
    try:
        gathered = gather(options.folders)
        for trouble in gathered.troubles:
            print(trouble, file=sys.stderr)
        answers = write_page(gathered, target)
    except (DPForestError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(in_words(answers))
    print(f"\nreport: {target / REPORT}")
    return 0


if __name__ == "__main__":
    run_command(main)
