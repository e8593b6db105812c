"""Columns of a Parquet file by the rules of `dpforest.cells`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpforest.cells import TextColumn, float_text

if TYPE_CHECKING:
    import pyarrow as pa


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
        if pa.types.is_string_view(cells.type) or pa.types.is_binary_view(cells.type):
            cells = cells.cast(pa.large_binary())  # of views, Arrow cannot take some cells
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
        """See `dpforest.cells`."""
        import pyarrow as pa

        if self._is_text:
            # Bytes, since one cell that is no UTF-8 would fail the whole column.
            raw = self.cells.cast(pa.large_binary()).to_pylist()
            return ["" if cell is None else cell.decode("utf-8", "backslashreplace").strip() for cell in raw]
        if pa.types.is_floating(self.cells.type):
            return float_text(self.cells.to_numpy())
        if pa.types.is_boolean(self.cells.type) or pa.types.is_decimal(self.cells.type):
            return [_plain_text(cell) for cell in self.cells.to_pylist()]
        try:
            return [cell or "" for cell in self.cells.cast(pa.string()).to_pylist()]
        except pa.ArrowException:
            return [_scalar_text(cell) for cell in self.cells]

    def take(self, rows: np.ndarray) -> ArrowColumn:
        """The cells of some rows."""
        return ArrowColumn(self.cells.take(rows))

    @property
    def _is_text(self) -> bool:
        from pyarrow import types

        kinds = (
            types.is_string, types.is_large_string, types.is_binary, types.is_large_binary, types.is_fixed_size_binary,
        )  # fmt: skip
        return any(kind(self.cells.type) for kind in kinds)


def _plain_text(cell: Any) -> str:
    if cell is None:
        return ""
    return str(cell) if isinstance(cell, bool) or cell != cell.to_integral_value() else f"{cell:.0f}"


def _scalar_text(cell: Any) -> str:
    try:
        return str(cell.as_py()) if cell.is_valid else ""
    except (ValueError, OverflowError, KeyError):  # not UTF-8, a date that Python does not know, an unknown time zone
        return ""
