"""The server's side of the chapter's DP-FedAvg."""

from __future__ import annotations

from typing import Any

import numpy as np

from baselines.dp_fedavg_published.client import UNPROTECTED, published_sigma
from baselines.dp_fedavg_published.settings import PublishedSettings
from baselines.fedavg.client import ROWS
from baselines.mlp.architecture import refuse_batch_norm
from baselines.mlp.sides import FARTHEST, SUMS, NetworkServer, mean_weights
from dpforest.errors import DPForestError
from strategies.method import ClientUpdate, Task


class PublishedServer(NetworkServer):
    """Averages the noised weights, by the clients' numbers of rows."""

    def __init__(self, task: Task[PublishedSettings]) -> None:
        super().__init__(task, "dp_fedavg_published")
        settings = task.settings
        refuse_batch_norm(self.architecture, "noise makes its variances negative")
        self._sigma = published_sigma(task.budget, settings.clip)

    def unprotected(self) -> list[str]:
        return list(UNPROTECTED)

    def check(self, update: ClientUpdate) -> None:
        super().check(update)
        rows = update.metrics.get(ROWS, 0.0)
        if SUMS not in update.arrays and not 1 <= rows < 1e12:
            raise DPForestError(f"the client says it has {rows:g} rows; expected 1 or more")

    def largest_noise(self) -> float:
        return FARTHEST * self._sigma

    def mean_step(self, round_: int, updates: list[ClientUpdate]) -> np.ndarray:
        if not updates:
            return np.zeros(self.architecture.size)
        return mean_weights(updates, self.architecture, [u.metrics[ROWS] for u in updates]) - self.flat

    def report(self) -> dict[str, Any]:
        return {**super().report(), "sigma": self._sigma}
