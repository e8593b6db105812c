"""Disjoint parts of a client's rows: which row is in which, and the ledger's view of a release about one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
from flwr.app import ArrayRecord

from dpforest.errors import DPForestError
from dpforest.ledger import ALL_ROWS, Entry, Ledger
from strategies.messages import RowsChanged, to_arrays_record
from strategies.method import ClientTask


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

    def note_release(self) -> None:
        self._whole.note_release()

    def _of_part(self, entry: Entry) -> Entry:
        return replace(entry, what=f"{self._prefix}{entry.what}", rows=inside(entry.rows, self._rows))


def inside(rows: str, part: str) -> str:
    """Rows of a ledger line that is about a part of the rows; a part cannot be divided again."""
    if part == ALL_ROWS:
        return rows
    if rows != ALL_ROWS:
        raise DPForestError(f"rows {rows!r} cannot be divided again into {part!r}")
    return part


def part_of_rows(task: ClientTask, name: str, n_rows: int, draw: Callable[[], np.ndarray]) -> np.ndarray:
    """The part that each row belongs to, drawn once in a run and kept on the client.

    Parameters
    ----------
    name : str
        Under which the client keeps it.
    draw : callable
        Gives the parts, int16 of shape (n_rows,). Each row must draw for itself, so that one row more leaves all others
        where they were.

    Raises
    ------
    RowsChanged
    """
    kept = task.state.get(name)
    if isinstance(kept, ArrayRecord):
        parts = kept["parts"].numpy()
        if len(parts) != n_rows:
            raise RowsChanged
        return parts
    parts = draw()
    task.state[name] = to_arrays_record({"parts": parts})
    return parts
