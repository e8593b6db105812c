"""Neighbouring rows that are hard to keep apart in secret: the worst there is by a schema, and a user's own.

Where a client's whole data is the unit, its neighbour is the same client without rows: its place stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dpforest.guarantee import PrivacyUnit
from dpforest.schema import Schema
from strategies.audit.subject import Rows, Subject

_OTHERS = 60  # made-up rows
_MOST_OWN = 1000  # rows of the user
_MOST_CLIENTS = 3
_BINS = 32


@dataclass(frozen=True)
class World:
    """Rows, and a record (or a client's whole data) that is among them or not.

    Parameters
    ----------
    name : str
        In words.
    X, y : ndarray
        All other rows.
    record, target : ndarray of shape (n_rows, n_features) and (n_rows,)
        One row where a record is the unit.
    """

    name: str
    X: np.ndarray
    y: np.ndarray
    record: np.ndarray
    target: np.ndarray

    def rows(self, inside: bool) -> Rows:
        """The rows with the unit, which comes last, or without."""
        if not inside:
            return self.X, self.y
        return np.concatenate([self.X, self.record]), np.concatenate([self.y, self.target])


def worlds_of(subject: Subject) -> Iterator[World]:
    """Worlds that are tried; which one shows most follows from the method."""
    schema = subject.task.schema
    if subject.task.unit is PrivacyUnit.CLIENT:
        yield from _clients(subject)
        return
    bins = getattr(subject.task.settings, "bins", _BINS)
    bins = bins if isinstance(bins, int) else _BINS
    yield _world("a record alone", schema, *_nobody(schema), schema.high, _last(schema))
    low, first = np.tile(schema.low, (_OTHERS, 1)), [_first(schema)] * _OTHERS
    yield _world("a record at the bounds, alone in its leaf", schema, low, first, schema.high, _last(schema))
    yield from _flipped(schema, bins)
    X, y = own_rows_of(subject)
    if len(y) > 1:
        far = int(np.abs(schema.grid_position(X) - 0.5).sum(axis=1).argmax())
        rest = np.arange(len(y)) != far
        yield _world("your rows, without the one farthest out", schema, X[rest], y[rest], X[far], y[far])
        yield _world("your rows, and a record at the bounds", schema, X, y, schema.high, _rarest(schema, y))


def own_rows_of(subject: Subject) -> Rows:
    """Rows of the user, as many as are tried."""
    X, y = subject.rows[0]
    return X[:_MOST_OWN], y[:_MOST_OWN]


def _clients(subject: Subject) -> Iterator[World]:
    """A whole client's data, or nothing."""
    schema = subject.task.schema
    alike = np.tile(schema.high, (_OTHERS, 1))
    yield _world(
        "a client whose rows are all at the bounds", schema, *_nobody(schema), alike, [_last(schema)] * _OTHERS
    )
    for number, (X, y) in enumerate(subject.rows[:_MOST_CLIENTS]):
        X, y = X[:_MOST_OWN], y[:_MOST_OWN]
        yield _world(f"your client {number}", schema, *_nobody(schema), X, y)


def _nobody(schema: Schema) -> tuple[np.ndarray, list[float]]:
    return schema.low[None][:0], []


def _flipped(schema: Schema, bins: int) -> Iterator[World]:
    """A record that makes the second best split the best: it raises the score of that by all it can, and of no other.

    One feature parts two classes without fault, another one but for a single row; all others are the same for all. The
    record lies on the wrong side by the first feature, among many of another class, and on the right one by the second.
    """
    if not schema.is_classification or schema.n_features < 2:
        return
    n = _OTHERS // 2
    grids = [_around(grid) for grid in schema.grid(bins)[:2]]
    (a_left, a_right), (b_left, b_right) = grids
    X = np.tile(schema.low, (2 * n, 1))
    X[:n, 0], X[n:, 0] = a_left, a_right
    X[: n + 1, 1], X[n + 1 :, 1] = b_left, b_right
    record = schema.low.copy()
    record[:2] = a_right, b_left
    yield _world("a record that flips the best split", schema, X, [0] * n + [1] * n, record, 0)


def _around(grid: np.ndarray) -> tuple[float, float]:
    """Values on both sides of one threshold in the middle, with no other between them."""
    middle = len(grid) // 2
    left = grid[middle] if middle == 0 else (grid[middle - 1] + grid[middle]) / 2
    right = np.nextafter(np.float32(grid[middle]), np.float32(np.inf))
    if middle + 1 < len(grid):
        right = (grid[middle] + grid[middle + 1]) / 2
    return float(left), float(right)


def _world(name: str, schema: Schema, X: np.ndarray, y: object, record: np.ndarray, target: object) -> World:
    kind = np.int64 if schema.is_classification else np.float64
    others = len(np.atleast_2d(X))
    rows, _ = schema.check_matrix(np.concatenate([np.atleast_2d(X), np.atleast_2d(record)]))
    targets = np.atleast_1d(np.asarray(target, dtype=kind))
    return World(name, rows[:others], np.asarray(y, dtype=kind), rows[others:], targets)


def _first(schema: Schema) -> float:
    return 0 if schema.target_range is None else schema.target_range[0]


def _last(schema: Schema) -> float:
    return schema.n_outputs - 1 if schema.target_range is None else schema.target_range[1]


def _rarest(schema: Schema, y: np.ndarray) -> float:
    if schema.target_range is None:
        return int(np.bincount(y.astype(int), minlength=schema.n_outputs).argmin())
    low, high = schema.target_range
    return high if y.mean() < (low + high) / 2 else low
