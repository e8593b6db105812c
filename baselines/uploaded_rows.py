"""What servers share whose clients upload their rows in clear."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpforest.errors import DPForestError
from dpforest.ledger import Entry
from strategies.method import ClientUpdate, ServerSide, Task


class RowsServer(ServerSide):
    """Collects all rows in one exchange.

    Parameters
    ----------
    task : Task
    what : str
        What goes out unprotected, as ledgers say it.
    """

    def __init__(self, task: Task[Any], what: str) -> None:
        super().__init__(task)
        self._what = what
        self._received: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    @property
    def exchanges(self) -> int:
        return 1

    def planned(self) -> list[Entry]:
        return []

    def unprotected(self) -> list[str]:
        return [self._what]

    def check(self, update: ClientUpdate) -> None:
        X, y = update.arrays.get("X"), update.arrays.get("y")
        schema = self.task.schema
        if X is None or y is None or y.ndim != 1 or X.shape != (len(y), schema.n_features):
            raise DPForestError(f"wrong shape: expected rows of {schema.n_features} features with their targets")
        self._received[update.client] = schema.check_matrix(X, "refuse")[0], schema.check_target(y)

    def take_rows(self, updates: list[ClientUpdate]) -> tuple[np.ndarray, np.ndarray]:
        """All clients' rows and targets, which are then forgotten."""
        X, y = (np.concatenate(parts) for parts in zip(*(self._received[u.client] for u in updates), strict=True))
        self._received.clear()
        return X, y
