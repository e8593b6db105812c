"""How a cell of a table is read: by a rule that sees this cell and no other.

So one record more, whatever it holds, leaves every other record as it was. A rule that looks at a column (its type, its
decimal mark) cannot promise that, and a guarantee about single records would not hold for the file.

* A number is what Python's ``float`` reads, without ``_``; a single decimal comma is a point (``1,5`` is 1.5, and
  ``1,234.5`` is no number); ``true`` and ``false`` in any case are 1 and 0. All else is NaN, ``yes`` and ``no`` too.
* Text is the cell without the blanks around it. A typed cell of a Parquet file becomes the text that a CSV would hold:
  whole numbers without a point, whatever the type of their column (``1`` and not ``1.0``), ``True`` and ``False``, and
  nothing where there is no value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

_TRUTH = {"true": 1.0, "false": 0.0}
_WHOLE = 2.0**53  # up to here float64 holds every whole number


def number(cell: str) -> float:
    """What a cell says as a number; NaN where it is none."""
    try:
        return math.nan if "_" in cell else float(cell)
    except ValueError:
        plain = cell.strip().casefold()
        if plain.count(",") == 1 and "." not in plain:
            return number(plain.replace(",", "."))
        return _TRUTH.get(plain, math.nan)


class Column(Protocol):
    """The cells of a column, in the order of the file."""

    @property
    def holds_numbers(self) -> bool:
        """Whether a cell may be a number at all; dates, times and lists may not."""

    def numbers(self) -> np.ndarray:
        """As float64, shape (n_rows,); NaN where a cell is empty or no number."""

    def text(self) -> list[str]:
        """As text without the blanks around it; empty where there is no value."""


@dataclass(frozen=True)
class TextColumn:
    """Cells of a CSV file."""

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


@dataclass(frozen=True)
class ArrowColumn:
    """Cells of a Parquet file, whose types stand in the file."""

    cells: pa.ChunkedArray

    def __post_init__(self) -> None:
        import pyarrow as pa

        cells = self.cells
        if pa.types.is_dictionary(cells.type):
            cells = cells.cast(cells.type.value_type)
        if isinstance(cells.type, pa.BaseExtensionType):
            cells = cells.cast(cells.type.storage_type)
        object.__setattr__(self, "cells", cells)

    @property
    def holds_numbers(self) -> bool:
        """By the type of the column."""
        from pyarrow import types

        return self._is_text or any(
            kind(self.cells.type)
            for kind in (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean, types.is_null)
        )

    def numbers(self) -> np.ndarray:
        """Numbers and truth values as they are, text as in a CSV."""
        import pyarrow as pa

        if self._is_text:
            return TextColumn(self.text()).numbers()
        cells = self.cells.cast(pa.uint8()) if pa.types.is_boolean(self.cells.type) else self.cells
        return np.asarray(cells.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)

    def text(self) -> list[str]:
        """See the module."""
        import pyarrow as pa

        if self._is_text:
            # Bytes, since one cell that is no UTF-8 would fail the whole column.
            raw = self.cells.cast(pa.large_binary()).to_pylist()
            return ["" if cell is None else cell.decode("utf-8", "backslashreplace").strip() for cell in raw]
        if pa.types.is_floating(self.cells.type):
            return _float_text(self.cells.to_numpy())
        if pa.types.is_boolean(self.cells.type) or pa.types.is_decimal(self.cells.type):
            return [_plain_text(cell) for cell in self.cells.to_pylist()]
        try:
            return [cell or "" for cell in self.cells.cast(pa.string()).to_pylist()]
        except pa.ArrowException:
            return [_scalar_text(cell) for cell in self.cells]

    @property
    def _is_text(self) -> bool:
        from pyarrow import types

        kinds = (
            types.is_string, types.is_large_string, types.is_string_view,
            types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary,
        )  # fmt: skip
        return any(kind(self.cells.type) for kind in kinds)


def _float_text(values: np.ndarray) -> list[str]:
    # The shortest text that names the value in its own precision: single precision says 0.1, not 0.10000000149.
    finite = np.where(np.isfinite(values), values, 0.5).astype(np.float64)
    whole = (finite == np.floor(finite)) & (np.abs(finite) < _WHOLE)
    integers = np.where(whole, finite, 0.0).astype(np.int64).astype(str)
    return np.where(np.isnan(values), "", np.where(whole, integers, values.astype(str))).tolist()


def _plain_text(cell: Any) -> str:
    if cell is None:
        return ""
    return str(cell) if isinstance(cell, bool) or cell != cell.to_integral_value() else f"{cell:.0f}"


def _scalar_text(cell: Any) -> str:
    try:
        return str(cell.as_py()) if cell.is_valid else ""
    except (ValueError, OverflowError, KeyError):  # not UTF-8, a date that Python does not know, an unknown time zone
        return ""
