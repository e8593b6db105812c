"""What a table's cells are under a schema, before anything learns from them.

The report is made where the file is and stays there. ``dpforest data check FILE --schema schema.yaml`` prints it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dpforest.cells import NaValues, Reading, Table
from dpforest.schema import MOST_CATEGORIES, Schema
from fl_app.data.reading.table_file import TableFile, read_table
from fl_app.data.source import LARGE_SHARE

_NAMED = 5  # values of a column that a message lists
_MISSING = {
    "refuse": "the row is an error in a simulation and left out on a node: fill it, or set {}",
    "drop": "the row is left out ({})",
    "branch": "the row is kept, and the cell counts as missing ({})",
}


@dataclass(frozen=True)
class TableReport:
    """A file under a schema.

    Parameters
    ----------
    lines : tuple of str
        For people: what was found, by file and line, with a remedy.
    failed : bool
        Whether something keeps rows from being used that the schema does not leave out.
    """

    lines: tuple[str, ...]
    failed: bool


def check_table(path: Path, schema: Schema, client_column: str | None = None) -> TableReport:
    """Read a table by a schema and say what does not fit.

    Parameters
    ----------
    path : Path
    schema : Schema
    client_column : str, optional
        Names each row's client, where the file is of several.

    Raises
    ------
    DataError
        The file is no table, or lacks a column.
    """
    names = [*schema.columns, schema.target, *([] if client_column is None else [client_column])]
    file = read_table(path, names)
    table = file.read(schema, file.columns[schema.target])
    found = [f"warning: no guarantee holds: {schema.leak}"] if schema.leak else []
    found += _of_schema(schema)
    found += _unreadable(file)
    for reading in table.readings:
        found += _of_column(file, reading)
    found += _out_of_bounds(file, table, schema)
    used = file.readable & table.fits
    head = f"{path.name}: {len(file)} rows, of which {int(used.sum())} are used"
    counts = _amounts(file, table, schema, used, client_column)
    return TableReport((head, *found, *counts), any(line.startswith("error") for line in found) or not used.any())


def _of_schema(schema: Schema) -> Iterator[str]:
    """What is allowed in a schema and yet may be a slip."""
    words = NaValues(schema.na_values)
    for column, values in [*schema.categories.items(), (schema.target, schema.classes)]:
        if twofold := [value for value, gap in zip(values, words.among_text(values), strict=True) if gap]:
            yield (
                f"note: schema: {twofold[0]!r} is a value of {column!r} and a word for a missing cell too: a cell that "
                "is written so is the value, and in other letters it is missing; take the word out of na_values if not"
            )
    for column, values in schema.categories.items():
        if len(values) > MOST_CATEGORIES:
            yield (
                f"note: schema: column {column!r} has {len(values)} categories; boosting takes at most "
                f"{MOST_CATEGORIES}, other forests make a feature of each: join rare ones, or list the frequent ones "
                "and set other: true"
            )


def _unreadable(file: TableFile) -> Iterator[str]:
    for problem, rows in Counter(file.unreadable.values()).items():
        first = min(row for row, own in file.unreadable.items() if own == problem)
        yield f"error: {file.place(first)}: {problem.what} ({rows} rows); {problem.remedy}"


def _of_column(file: TableFile, reading: Reading) -> Iterator[str]:
    readable = file.readable
    unknown, missing = np.flatnonzero(reading.unknown & readable), np.flatnonzero(reading.missing & readable)
    if len(unknown):
        cells = Counter(file.columns[reading.name].take(unknown).text())
        listed = ", ".join(f"{cell!r} {times} times" for cell, times in cells.most_common(_NAMED))
        more = f" and {len(cells) - _NAMED} more" if len(cells) > _NAMED else ""
        problem = reading.problem(int(unknown[0]), file.text(reading.name)[unknown[0]])
        yield f"error: {file.place(int(unknown[0]))}: {problem} (in all {listed}{more})"
    if len(missing):
        severity = "error" if reading.rule == "refuse" else "note"
        share = f"{len(missing)} rows, {len(missing) / len(file):.2%}"
        empty = "; the column has no value at all" if len(missing) == readable.sum() else ""
        yield (
            f"{severity}: {file.place(int(missing[0]))}: column {reading.name!r} is missing ({share}{empty}): "
            + _MISSING[reading.rule].format(reading.other_rules if severity == "error" else reading.set_rule)
        )
    values = np.unique(reading.values[reading.fits & ~reading.missing & readable])
    if len(values) == 1:
        yield f"note: {file.path.name}: column {reading.name!r} has the same value in all rows, which tells nothing"


def _out_of_bounds(file: TableFile, table: Table, schema: Schema) -> Iterator[str]:
    bounds = [(schema.features[f].low, schema.features[f].high) for f in schema.numeric_features]
    readings = [*table.numbers]
    if schema.target_range is not None and table.target is not None:
        readings, bounds = [*readings, table.target], [*bounds, schema.target_range]
    for reading, (low, high) in zip(readings, bounds, strict=True):
        known = reading.fits & ~reading.missing & file.readable
        outside = np.flatnonzero(known & ((reading.values < low) | (reading.values > high)))
        if len(outside):
            share = len(outside) / known.sum()
            severity = "warning" if share > LARGE_SHARE else "note"
            cell = file.columns[reading.name].take(outside[:1]).text()[0]
            yield (
                f"{severity}: {file.place(int(outside[0]))}: column {reading.name!r} is {cell}, outside "
                f"[{low:g}, {high:g}]; {len(outside)} cells, {share:.2%}, are clipped: is a unit or a bound wrong?"
            )


def _amounts(
    file: TableFile, table: Table, schema: Schema, used: np.ndarray, client_column: str | None
) -> Iterator[str]:
    """Used rows and classes of each client."""
    clients = np.array(file.text(client_column) if client_column else ["all"] * len(file), dtype=object)
    assert table.target is not None
    for client in sorted(set(clients.tolist())):
        mine = used & (clients == client)
        said = f"{file.path.name}: {f'client {client!r}: ' if client_column else ''}{int(mine.sum())} rows"
        if schema.is_classification:
            counts = np.bincount(table.target.values[mine], minlength=schema.n_outputs).tolist()
            said += ": " + ", ".join(f"{name} {count}" for name, count in zip(schema.classes, counts, strict=True))
        yield said
