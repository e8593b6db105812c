"""Draft a schema from the names and types of a table's columns, and ask for bounds and categories.

These are public facts, so they are never read off the data unless --from-data is given; then no guarantee holds. Where
nobody can be asked, they are left open, and the schema is refused until they are filled in.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

EXAMPLES = """\
dpforest data schema table.csv --target income
dpforest data schema tables --target income
dpforest data schema table.parquet --target income --leave-out client id --out schemas/income.yaml"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The table, its target and the file to write."""
    parser.add_argument("path", type=Path, help="a CSV or Parquet file, or a folder of them")
    parser.add_argument("--target", required=True, help="column to be predicted")
    parser.add_argument("--leave-out", nargs="+", default=[], metavar="COLUMN", help="columns that are no features")
    parser.add_argument("--out", type=Path, default=Path("schema.yaml"), help="file to write (default: schema.yaml)")
    parser.add_argument("--from-data", action="store_true", help="read public facts off the data: no guarantee holds")


def execute(options: argparse.Namespace) -> int:
    """Write the draft; exit code 1 if there is none."""
    from dpforest.errors import DPForestError
    from fl_app.data.reading.files import files_by_name
    from fl_app.data.reading.schema_draft import FILL_IN, draft_schema, refuse_to_overwrite
    from fl_app.data.reading.table_file import SUFFIXES

    ask = _ask if sys.stdin.isatty() and sys.stdout.isatty() else None
    refuse_to_overwrite(options.out)
    files = list(files_by_name(options.path, SUFFIXES, "client").values())
    if options.from_data and len(files) > 1:
        raise DPForestError(f"--from-data reads one file, and {options.path} has {len(files)}: name one")
    text, notes = draft_schema(files[0], options.target, tuple(options.leave_out), options.from_data, ask)
    options.out.write_text(text, encoding="utf-8")
    notes += [f"columns of {files[0].name}, the first of {len(files)} files"] if len(files) > 1 else []
    print("\n".join([*notes, f"draft in {options.out}"]))
    if left := text.count(FILL_IN):
        then = f"dpforest data check {shlex.quote(str(options.path))} --schema {shlex.quote(str(options.out))}"
        print(f"{left} public facts are left to fill in ({FILL_IN}); then: {then}")
    return 0


def _ask(question: str) -> str:
    return input(f"{question} (public; Enter to leave it open): ")
