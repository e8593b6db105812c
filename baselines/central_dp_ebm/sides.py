"""Clients hand their rows to a server that they trust, and it trains one private model on all of them."""

from __future__ import annotations

import numpy as np

from baselines.central_dp_ebm import model
from baselines.central_dp_ebm.releases import entries, unprotected
from baselines.central_dp_ebm.settings import DpEbmSettings
from baselines.forests.centralized import CentralizedServer
from dpforest.forest import Forest
from dpforest.ledger import Entry
from strategies.forests import ForestClient
from strategies.method import Arrays, ClientTask, ClientUpdate, Entrusted, Task, Unprotected, Update


class DpEbmClient(ForestClient):
    """Hands its rows over."""

    def train(self, task: ClientTask[DpEbmSettings], X: np.ndarray, y: np.ndarray, arrays: Arrays) -> Update:
        paid = entries(task)
        for entry in paid:
            task.ledger.charge(entry)
        rows = Entrusted(task.ledger, paid[-1], {"X": X, "y": y})
        facts = unprotected(task.schema)
        return Update(rows, *([Unprotected(task.ledger, facts, {})] if facts else []))


class DpEbmServer(CentralizedServer):
    """Trains on everybody's rows, and noises the model."""

    def __init__(self, task: Task[DpEbmSettings]) -> None:
        super().__init__(task)
        model.require_interpret("central_dp_ebm")
        self._is_secure = task.deployed

    def planned(self) -> list[Entry]:
        return entries(self.task)

    def unprotected(self) -> list[str]:
        return list(unprotected(self.task.schema))

    def aggregate(self, exchange: int, updates: list[ClientUpdate]) -> Arrays:
        self._is_secure |= any(update.noise != "seeded" for update in updates)
        return super().aggregate(exchange, updates)

    def grow(self, X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> Forest:
        return model.fit(self.task, X, y, None if self._is_secure else int(rng.integers(2**31)))
