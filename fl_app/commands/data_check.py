"""Print what is wrong with recordings, or with tables under a schema, by file and line; it stays on this machine."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

EXAMPLES = """\
dpforest data check recordings
dpforest data check recordings/watch.csv --gap 5
dpforest data check table.csv --schema schema.yaml --client-column client"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which files, and what is expected of them."""
    parser.add_argument("paths", type=Path, nargs="+", metavar="PATH", help="CSV or Parquet files, or folders of them")
    parser.add_argument("--schema", type=Path, help="schema of the tables; without it, the files are recordings")
    parser.add_argument("--client-column", help="column of a table that names each row's client")
    parser.add_argument("--min-rows", type=int, default=100, help="fewest rows of a recording (default: 100)")
    parser.add_argument("--gap", type=float, default=60.0, help="seconds of a pause that starts a new recording")


def execute(options: argparse.Namespace) -> int:
    """Print the report; exit code 1 if a file cannot be used."""
    from dpforest.errors import DPForestError

    failed = False
    check = _of_tables(options) if options.schema else _of_recordings(options)
    files = list(_files(options.paths))
    for file in files:
        try:
            lines, wrong = check(file)
        except DPForestError as error:
            print(f"error: {error}")
            failed = True
            continue
        print("\n".join(lines))
        failed |= wrong
    return int(failed)


_Check = Callable[[Path], tuple[list[str], bool]]


def _files(paths: list[Path]) -> Iterator[Path]:
    from fl_app.data.reading.files import files_by_name
    from fl_app.data.reading.table_file import SUFFIXES

    for path in paths:
        yield from files_by_name(path, SUFFIXES, "device").values()


def _of_tables(options: argparse.Namespace) -> _Check:
    from dpforest.schema import Schema
    from fl_app.data.reading.table_check import check_table

    schema = Schema.from_yaml(options.schema)

    def check(file: Path) -> tuple[list[str], bool]:
        report = check_table(file, schema, options.client_column)
        return list(report.lines), report.failed

    return check


def _of_recordings(options: argparse.Namespace) -> _Check:
    from fl_app.data.reading.quality import check_file, report_lines

    def check(file: Path) -> tuple[list[str], bool]:
        checked = check_file(file, options.min_rows, options.gap)
        return report_lines(checked, file.name), bool(checked.errors)

    return check
