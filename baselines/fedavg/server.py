"""The server's side of FedAvg."""

from __future__ import annotations

import numpy as np

from baselines.fedavg.client import ROWS, ROWS_WHAT, WEIGHTS_WHAT
from baselines.fedavg.settings import FedAvgSettings
from baselines.mlp.sides import SUMS, NetworkServer, mean_weights
from dpforest.errors import DPForestError
from strategies.method import ClientUpdate, Task


class FedAvgServer(NetworkServer):
    """Averages the clients' weights."""

    def __init__(self, task: Task[FedAvgSettings]) -> None:
        super().__init__(task, "fedavg")
        self._settings = task.settings

    def unprotected(self) -> list[str]:
        rows = [ROWS_WHAT] if self._settings.weights == "records" else []
        return [WEIGHTS_WHAT, *rows]

    def check(self, update: ClientUpdate) -> None:
        super().check(update)
        rows = update.metrics.get(ROWS, 0.0)
        if self._settings.weights == "records" and SUMS not in update.arrays and not 1 <= rows < 1e12:
            raise DPForestError(f"the client says it has {rows:g} rows; expected 1 or more")

    def mean_step(self, round_: int, updates: list[ClientUpdate]) -> np.ndarray:
        if not updates:
            return np.zeros(self.architecture.size)
        shares = [update.metrics[ROWS] if self._settings.weights == "records" else 1.0 for update in updates]
        return mean_weights(updates, self.architecture, shares) - self.flat
