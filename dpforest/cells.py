"""How the cells of a table are read by a schema: by a rule that sees this cell and no other.

So one record more, whatever it holds, leaves every other record as it was. A rule that looks at a column (its type, its
decimal mark) cannot guarantee that, and a guarantee about single records would not hold for the table. Training on a
node and in a simulation, prediction, checks and estimators all read by the functions here, so that they agree.

* A number is what Python's ``float`` reads, without ``_``; a single decimal comma is a point (``1,5`` is 1.5, and
  ``1,234.5`` is no number); ``true`` and ``false`` in any case are 1 and 0. All else is NaN, ``yes`` and ``no`` too.
* Text is the cell without the blanks around it. A typed cell becomes the text that a CSV would hold: whole numbers
  without a point, whatever the type of their column (``1`` and not ``1.0``), ``True`` and ``False``, and nothing where
  there is no value.
* A cell is missing if it has no value, or is one of the schema's ``na_values``, in any case of letters; but a category
  that the schema lists is that category.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import numpy as np

from dpforest.errors import SchemaError

if TYPE_CHECKING:
    from dpforest.schema import Schema

Missing = Literal["refuse", "drop", "branch"]
MISSING, OTHER = "missing", "other"
"""Values of a categorical column for cells without a value, and for those that the schema does not list."""
NA_VALUES = ("", "?", "NA", "N/A", "NaN", "null", "None")
_TRUTH = {"true": 1.0, "false": 0.0}
_WHOLE = 2.0**53  # up to here float64 holds every whole number
_NAMED = 10  # values of a list that a message repeats


def number(cell: str) -> float:
    """What a cell says as a number; NaN where it is none."""
    try:
        return math.nan if "_" in cell else float(cell)
    except ValueError:
        plain = cell.strip().casefold()
        if plain.count(",") == 1 and "." not in plain:
            return number(plain.replace(",", "."))
        return _TRUTH.get(plain, math.nan)


def float_text(values: np.ndarray) -> list[str]:
    """Floating-point numbers as text; nothing for NaN.

    The shortest text that names the value in its own precision: single precision says 0.1, not 0.10000000149.
    """
    finite = np.where(np.isfinite(values), values, 0.5).astype(np.float64)
    whole = (finite == np.floor(finite)) & (np.abs(finite) < _WHOLE)
    integers = np.where(whole, finite, 0.0).astype(np.int64).astype(str)
    return np.where(np.isnan(values), "", np.where(whole, integers, values.astype(str))).tolist()


class Column(Protocol):
    """The cells of a column, in the order of the table."""

    @property
    def holds_numbers(self) -> bool:
        """Whether a cell may be a number at all; dates, times and lists may not."""

    def numbers(self) -> np.ndarray:
        """As float64, shape (n_rows,); NaN where a cell is empty or no number."""

    def text(self) -> list[str]:
        """As text without the blanks around it; empty where there is no value."""

    def take(self, rows: np.ndarray) -> Column:
        """The cells of some rows."""


@dataclass(frozen=True)
class TextColumn:
    """Cells that are text, as in a CSV file."""

    cells: Sequence[str]
    holds_numbers: ClassVar[bool] = True

    def numbers(self) -> np.ndarray:
        """See `number`."""
        if "_" not in "".join(self.cells):
            try:  # the same, in half the time
                return np.fromiter(map(float, self.cells), np.float64, len(self.cells))
            except ValueError:
                pass
        return np.array([number(cell) for cell in self.cells], dtype=np.float64)

    def text(self) -> list[str]:
        """Without the blanks around each."""
        return [cell.strip() for cell in self.cells]

    def take(self, rows: np.ndarray) -> TextColumn:
        """The cells of some rows."""
        return TextColumn([self.cells[row] for row in rows])


@dataclass(frozen=True)
class ArrayColumn:
    """Cells of a NumPy array without objects: numbers, truth values, dates."""

    cells: np.ndarray

    @property
    def holds_numbers(self) -> bool:
        """By the type of the array."""
        return self.cells.dtype.kind in "biuf"

    def numbers(self) -> np.ndarray:
        """As they are."""
        return self.cells.astype(np.float64)

    def text(self) -> list[str]:
        """As a CSV would hold them."""
        return float_text(self.cells) if self.cells.dtype.kind == "f" else self.cells.astype(str).tolist()

    def take(self, rows: np.ndarray) -> ArrayColumn:
        """The cells of some rows."""
        return ArrayColumn(self.cells[rows])


def column_of(cells: Any) -> Column:
    """A column of a data frame (nullable and categorical types too), an array or a list.

    Raises
    ------
    SchemaError
        It is no list of single cells.
    """
    numpy_type = getattr(getattr(cells, "dtype", None), "numpy_dtype", None)  # of pandas' nullable types
    if numpy_type is not None and np.dtype(numpy_type).kind in "biuf" and not cells.isna().any():
        cells = cells.to_numpy(numpy_type)
    array = np.asarray(cells) if not isinstance(cells, list | tuple) else _objects(cells)
    if array.ndim != 1:
        raise SchemaError(f"a column has shape {array.shape}, expected one cell a row")
    if array.dtype.kind in "OUS":
        return TextColumn([_cell_text(cell) for cell in array.tolist()])
    return ArrayColumn(array)


def _objects(cells: Sequence[Any]) -> np.ndarray:
    array = np.empty(len(cells), dtype=object)
    array[:] = cells
    return array


def _cell_text(cell: Any) -> str:
    if isinstance(cell, str):
        return cell.strip()
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "backslashreplace").strip()
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return ""
    if isinstance(cell, float | np.floating):
        value = float(cell)
        whole = abs(value) < _WHOLE and value.is_integer()
        return str(int(value)) if whole else float_text(np.array([cell]))[0]
    return str(cell)


class NaValues:
    """Words for "there is no value", compared without regard to case, and as numbers where they are some."""

    def __init__(self, words: Iterable[str]) -> None:
        self._words = {"", *(word.strip().casefold() for word in words)}
        self._numbers = [value for value in map(number, self._words) if math.isfinite(value)]

    def among_numbers(self, column: Column, values: np.ndarray) -> np.ndarray:
        """Mask of the missing cells of a column whose numbers are ``values``, shape (n_rows,)."""
        missing = np.isin(values, self._numbers)
        gaps = np.flatnonzero(np.isnan(values))
        missing[gaps] = self.among_text(column.take(gaps).text())
        return missing

    def among_text(self, cells: Sequence[str]) -> np.ndarray:
        """Mask of the missing cells among texts, shape (n_rows,)."""
        return np.fromiter((cell.casefold() in self._words for cell in cells), bool, len(cells))


@dataclass(frozen=True, eq=False)
class Reading:
    """A column of a table by a schema's rules.

    Parameters
    ----------
    name : str
    values : ndarray, shape (n_rows,)
        Numbers (float64), or positions in the public list (int64); of no meaning where a cell does not fit.
    missing, unknown : ndarray of bool, shape (n_rows,)
        Cells without a value, and cells that are neither missing nor what the column may hold.
    rule : {"refuse", "drop", "branch"}
        What is done about the missing ones.
    expected : str
        What ``unknown`` cells are not, for messages.
    remedy : str
        What to do about those; ``{}`` stands for where values are listed.
    is_target : bool
        Whether it is the column to be predicted, whose missing cells have a rule of their own.
    """

    name: str
    values: np.ndarray
    missing: np.ndarray
    unknown: np.ndarray
    rule: Missing
    expected: str
    remedy: str
    is_target: bool = False

    @property
    def fits(self) -> np.ndarray:
        """Mask of the cells that the schema can hold."""
        return ~self.unknown if self.rule == "branch" else ~(self.unknown | self.missing)

    def fault(self, row: int, cell: str) -> str:
        """What is wrong with a cell that does not fit."""
        return f"column {self.name!r} is {cell!r}, {'which is missing' if self.missing[row] else self.expected}"

    def problem(self, row: int, cell: str, by_schema: bool = True) -> str:
        """What is wrong with a cell that does not fit, and what to do about it.

        Parameters
        ----------
        by_schema : bool
            Whether the rules are a schema's; else they are parameters of an estimator.
        """
        if self.missing[row]:
            return f"{self.fault(row, cell)}: {self._missing_remedy(by_schema)}"
        return f"{self.fault(row, cell)}: {self.remedy.format('the schema' if by_schema else 'categories')}"

    @property
    def set_rule(self) -> str:
        """The rule as the schema has it."""
        return f"{self._key}: {self.rule}"

    @property
    def other_rules(self) -> str:
        """What the schema may say in the place of ``refuse``."""
        return f"{self._key}: drop" + ("" if self.is_target else " or branch")

    @property
    def _key(self) -> str:
        return "missing_target" if self.is_target else "missing"

    def _missing_remedy(self, by_schema: bool) -> str:
        if self.rule == "drop":
            whose = "the schema leaves" if by_schema else "training leaves"
            return f"{whose} such rows out ({self.set_rule}); do so first"
        if not by_schema:
            return 'fill it, or set missing="branch", which keeps the row, or missing="drop", which leaves it out'
        means = "leaves the row out" if self.is_target else "leaves the row out, branch keeps it"
        return f"fill it, or say in the schema what to do about it ({self._key}: drop {means})"


class Table:
    """A table by a schema's rules.

    Parameters
    ----------
    schema : Schema
    columns : mapping of str to Column
        With those of ``schema.columns``; others are not looked at.
    target : Column, optional
        To be read too.

    Raises
    ------
    SchemaError
        A column holds dates, times or lists where the schema wants numbers.
    """

    def __init__(self, schema: Schema, columns: Mapping[str, Column], target: Column | None = None) -> None:
        self._schema = schema
        na_values = NaValues(schema.na_values)
        numeric = [schema.features[f] for f in schema.numeric_features]
        self.numbers = [
            read_numbers(f.name, columns[f.name], na_values, f.missing, f.missing_value if f.has_branch else None)
            for f in numeric
        ]
        self.categories = [
            read_categories(
                name,
                columns[name],
                values,
                na_values,
                schema.missing_categories.get(name, "refuse"),
                name in schema.other,
            )
            for name, values in schema.categories.items()
        ]
        self.target = None if target is None else read_target(schema, target)

    @property
    def readings(self) -> list[Reading]:
        """Of all columns, the target last if it was read. Two may have one name: a hostile schema allows it."""
        return [*self.numbers, *self.categories, *([] if self.target is None else [self.target])]

    @property
    def dropped(self) -> np.ndarray:
        """Mask of the rows that are left out because the schema says so of their missing cells."""
        masks = [reading.missing for reading in self.readings if reading.rule == "drop"]
        return np.logical_or.reduce(masks) if masks else np.zeros(len(self.readings[0].values), dtype=bool)

    @property
    def fits(self) -> np.ndarray:
        """Mask of the rows all of whose cells the schema can hold."""
        return np.logical_and.reduce([reading.fits for reading in self.readings])

    def problem(self, rows: np.ndarray) -> tuple[int, Reading] | None:
        """The first row, of a column, among those of a mask that does not fit; None if all do."""
        for reading in self.readings:
            if (wrong := rows & ~reading.fits).any():
                return int(wrong.argmax()), reading
        return None

    def matrix(self, rows: np.ndarray) -> np.ndarray:
        """The rows of a mask, all of which fit: float64 of shape (n_chosen, n_features), not yet held in the bounds."""
        schema = self._schema
        X = np.zeros((int(rows.sum()), schema.n_features))
        for feature, reading in zip(schema.numeric_features, self.numbers, strict=True):
            X[:, feature] = reading.values[rows]
        for features, reading in zip(schema.category_features, self.categories, strict=True):
            X[np.arange(len(X)), features[reading.values[rows]]] = 1.0
        return X


def numbers_of(name: str, column: Column) -> np.ndarray:
    """A column's numbers.

    Raises
    ------
    SchemaError
        Its type holds none, such as dates.
    """
    if not column.holds_numbers:
        raise SchemaError(
            f"column {name!r} holds dates, times or lists where numbers are expected: write a number with a public "
            "range instead, such as days since a fixed date, or leave it out of the schema"
        )
    return column.numbers()


def read_numbers(
    name: str, column: Column, na_values: NaValues, rule: Missing, missing_value: float | None = None
) -> Reading:
    """A numeric column.

    Parameters
    ----------
    name : str
    column : Column
    na_values : NaValues
    rule : {"refuse", "drop", "branch"}
    missing_value : float, optional
        What stands for a missing cell.

    Raises
    ------
    SchemaError
        The column's type holds no numbers, such as dates.
    """
    values = numbers_of(name, column)
    missing = na_values.among_numbers(column, values)
    unknown = ~(np.isfinite(values) | missing)
    if missing_value is not None:
        # A number that happens to be the one of missing cells is out of bounds, and will be clipped as such.
        values = np.where(values == missing_value, np.nextafter(missing_value, np.inf), values)
        values[missing] = missing_value
    return Reading(name, values, missing, unknown, rule, "not a finite number", "drop or fill such rows first")


def read_categories(
    name: str, column: Column, values: Sequence[str], na_values: NaValues, rule: Missing, other: bool = False
) -> Reading:
    """A column of categories as positions in ``values``, where missing and other cells have a value of their own.

    Parameters
    ----------
    name : str
    column : Column
    values : sequence of str
    na_values : NaValues
    rule : {"refuse", "drop", "branch"}
    other : bool
        Whether what is not listed counts as the value ``other``.
    """
    text = column.text()
    place = {value: position for position, value in enumerate(values)}
    position = np.fromiter((place.get(cell, -1) for cell in text), np.int64, len(text))
    absent = np.flatnonzero(position < 0)
    missing = np.zeros(len(text), dtype=bool)
    missing[absent] = na_values.among_text([text[row] for row in absent])
    if other:
        position[(position < 0) & ~missing] = place[OTHER]
    if rule == "branch":
        position[missing] = place[MISSING]
    unknown = (position < 0) & ~missing
    listed = _listed(values)
    remedy = "add it to {} or drop it"
    return Reading(name, position, missing, unknown, rule, f"which is not among its categories {listed}", remedy)


def read_target(schema: Schema, column: Column) -> Reading:
    """The target: class indices, or numbers that are not yet held in their range."""
    na_values = NaValues(schema.na_values)
    if not schema.is_classification:
        return replace(read_numbers(schema.target, column, na_values, schema.missing_target), is_target=True)
    read = read_categories(schema.target, column, schema.classes, na_values, schema.missing_target)
    said = f"which is not among the classes {_listed(schema.classes)}"
    return replace(read, expected=said, is_target=True)


def _listed(values: Sequence[str]) -> str:
    more = f" and {len(values) - _NAMED} more" if len(values) > _NAMED else ""
    return f"{list(values[:_NAMED])}{more}"
