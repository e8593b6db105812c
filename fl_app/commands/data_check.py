"""Print the quality report of recordings, which stays on this machine: what is wrong, by file and line."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

EXAMPLES = """\
dpforest data check recordings
dpforest data check recordings/watch.csv --gap 5"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which recordings, and what is expected of them."""
    parser.add_argument("path", type=Path, help="a CSV or Parquet file, or a folder with one a device")
    parser.add_argument("--min-rows", type=int, default=100, help="fewest rows of a recording (default: 100)")
    parser.add_argument("--gap", type=float, default=60.0, help="seconds of a pause that starts a new recording")


def execute(options: argparse.Namespace) -> int:
    """Print the report; exit code 1 if a file cannot be used."""
    from dpforest.errors import DPForestError
    from fl_app.data.files import files_by_name
    from fl_app.data.quality import check_file, report_lines
    from fl_app.data.table_file import SUFFIXES

    failed = False
    try:
        files = files_by_name(options.path, SUFFIXES, "device")
    except DPForestError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for file in files.values():
        try:
            checked = check_file(file, options.min_rows, options.gap)
        except DPForestError as error:
            print(f"error: {error}")
            failed = True
            continue
        print("\n".join(report_lines(checked, file.name)))
        failed |= bool(checked.errors)
    return int(failed)
