"""``python -m fl_app.data.check FILE_OR_FOLDER``: the quality report of recordings; it stays on this machine."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from dpforest.errors import DPForestError
from fl_app.data.files import files_by_name
from fl_app.data.quality import check_file, report_lines
from fl_app.data.table_file import SUFFIXES
from fl_app.screen import run_command


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the report; exit code 1 if a file cannot be used."""
    parser = argparse.ArgumentParser(prog="python -m fl_app.data.check", description=__doc__)
    parser.add_argument("path", type=Path, help="a CSV or Parquet file, or a folder with one a device")
    parser.add_argument("--min-rows", type=int, default=100)
    parser.add_argument("--gap", type=float, default=60.0, help="seconds of a pause that starts a new recording")
    options = parser.parse_args(arguments)
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


if __name__ == "__main__":
    run_command(main)
