"""A ledger's view for methods whose rounds see disjoint parts of a client's rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dpforest.errors import DPForestError
from dpforest.ledger import ALL_ROWS, Entry, Ledger


class PartLedger(Ledger):
    """A view of a ledger for releases about one of several disjoint parts of the rows."""

    def __init__(self, whole: Ledger, rows: str, prefix: str) -> None:
        super().__init__(whole.budget, whole.unit, whole.trust)
        self._whole = whole
        self._rows = rows
        self._prefix = prefix

    def require(self, planned: Iterable[Entry]) -> None:
        self._whole.require([self._of_part(entry) for entry in planned])

    def charge(self, entry: Entry) -> None:
        self._whole.charge(self._of_part(entry))

    def _of_part(self, entry: Entry) -> Entry:
        return replace(entry, what=f"{self._prefix}{entry.what}", rows=inside(entry.rows, self._rows))


def inside(rows: str, part: str) -> str:
    """Rows of a ledger line that is about a part of the rows; a part cannot be divided again."""
    if part == ALL_ROWS:
        return rows
    if rows != ALL_ROWS:
        raise DPForestError(f"rows {rows!r} cannot be divided again into {part!r}")
    return part
