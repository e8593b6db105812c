"""A first schema of a table, from the names and types of its columns; bounds and categories are for people to give.

Whether a column holds numbers or text is seen from its cells. Nothing else is read off the data, unless it is asked
for: then whatever is trained with that schema has no guarantee.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from dpforest.cells import NA_VALUES, Column, NaValues
from dpforest.errors import SchemaError
from dpforest.schema import MOST_CATEGORIES, apart
from fl_app.data.reading.cells import ArrowColumn
from fl_app.data.reading.table_file import TableFile, read_table
from fl_app.data.source import DataError

FILL_IN = "FILL IN"
"""Stands where a person has to give a public fact; no schema is read before that."""
Ask = Callable[[str], str]
_MOST_VALUES = MOST_CATEGORIES - 1  # missing: branch adds one
_HEAD = """\
# Draft of a schema. Write down what is known without looking at the data: the smallest and largest possible value of
# each number, all values of each text column, the order of magnitude of one client's rows (rows: 1000).
# Take out columns that only name a row. missing: branch keeps rows with missing cells; drop leaves them out.
"""
_FROM_DATA = """\
# BOUNDS, CATEGORIES AND CLASSES WERE READ OFF THE DATA: no guarantee holds for what is trained with this schema. Write
# public ones in their place, and take each column that you have done so for out of from_data.
"""


def draft_schema(
    path: Path, target: str, leave_out: tuple[str, ...] = (), from_data: bool = False, ask: Ask | None = None
) -> tuple[str, list[str]]:
    """The text of a schema file, and notes for people.

    Parameters
    ----------
    path : Path
        CSV or Parquet file.
    target : str
        Column to be predicted: classes if it holds text, else a number.
    leave_out : tuple of str
        Columns that are no features, such as the client's name.
    from_data : bool
        Read bounds, categories and classes off the data.
    ask : callable, optional
        Called with a question, answers with text; empty to leave it open.

    Raises
    ------
    DataError
        The file is no table, or lacks a column.
    """
    others = read_table(path, [target, *leave_out]).others
    file = read_table(path, [target, *others])
    facts = _Facts(file, from_data, ask)
    plain: dict[str, Any] = {"target": target}
    if facts.is_number(target):
        plain["target_range"] = list(facts.bounds(target))
        facts.notes.append(
            f"note: target {target!r} holds numbers, so it is a regression; if they are names, write classes: [...] "
            "in the place of target_range"
        )
    else:
        plain["classes"] = facts.values(target)
    plain["missing"] = "branch"
    plain["features"] = [item for name in others if (item := facts.feature(name)) is not None]
    if from_data:
        kept = [target, *(item["name"] for item in plain["features"])]
        plain["from_data"] = [name for name in kept if name in facts.read]
    text = yaml.safe_dump(plain, sort_keys=False, default_flow_style=None, allow_unicode=True, width=120)
    if from_data:
        facts.notes.append(
            "warning: bounds, categories and classes were read off the data and say something about the people in it: "
            "no guarantee holds for what is trained with this schema, until you write public ones in their place and "
            "take the columns out of from_data"
        )
    return _HEAD + (_FROM_DATA if from_data else "") + text, facts.notes


class _Facts:
    """What is said of columns: by people, by their types, or, on request, by their cells."""

    def __init__(self, file: TableFile, from_data: bool, ask: Ask | None) -> None:
        self._file = file
        self._from_data = from_data
        self._ask = ask
        self.notes: list[str] = []
        self.read: set[str] = set()
        """Columns of which bounds or values were read off the data."""

    def feature(self, name: str) -> dict[str, Any] | None:
        """A column as an item of a schema file; None where it cannot be one."""
        column = self._file.columns[name]
        if not column.holds_numbers:
            self.notes.append(f"note: column {name!r} holds dates, times or lists and is left out")
            return None
        if self.is_number(name):
            low, high = (0, 1) if _is_truth(column) else self.bounds(name)
            return {"name": name, "low": low, "high": high}
        values = self.values(name)
        if len(values) > _MOST_VALUES and isinstance(values, list):
            self.notes.append(
                f"note: column {name!r} has {len(values)} different values and is left out: join rare ones"
            )
            return None
        return {"name": name, "categories": values}

    def is_number(self, name: str) -> bool:
        """Whether all cells that are not missing are numbers."""
        column = self._file.columns[name]
        if not column.holds_numbers:
            return False
        numbers = column.numbers()[self._file.readable]
        missing = NaValues(NA_VALUES).among_numbers(column.take(np.flatnonzero(self._file.readable)), numbers)
        return not np.isnan(numbers[~missing]).any()

    def bounds(self, name: str) -> tuple[Any, Any]:
        """Smallest and largest value."""
        if self._from_data:
            self.read.add(name)
            numbers = self._file.numbers(name)
            numbers = numbers[np.isfinite(numbers)]
            if not len(numbers):
                raise DataError(f"{self._file.path.name}: column {name!r} has no value at all: leave it out")
            return apart(float(numbers.min()), float(numbers.max()))
        return self._number(f"{name}: smallest possible value"), self._number(f"{name}: largest possible value")

    def values(self, name: str) -> list[str] | str:
        """All values of a column."""
        if self._from_data:
            self.read.add(name)
            text = self._file.text(name)
            missing = NaValues(NA_VALUES).among_text(text)
            return sorted({cell for cell, gap in zip(text, missing, strict=True) if not gap})
        given = self._ask(f"{name}: all possible values, separated by commas") if self._ask else ""
        return [value.strip() for value in given.split(",") if value.strip()] or FILL_IN

    def _number(self, question: str) -> float | str:
        while self._ask and (given := self._ask(question).strip()):
            try:
                return float(given)
            except ValueError:
                self.notes.append(f"note: {given!r} is no number")
        return FILL_IN


def _is_truth(column: Column) -> bool:
    return isinstance(column, ArrowColumn) and str(column.cells.type) == "bool"


def refuse_to_overwrite(path: Path) -> None:
    """Leave a schema alone that somebody may have filled in.

    Raises
    ------
    SchemaError
        There is such a file.
    """
    if path.exists():
        raise SchemaError(f"{path} is there already: name another file with --out, or remove it first")
