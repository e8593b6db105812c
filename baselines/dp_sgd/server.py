"""The server's side of record-level DP-SGD."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from baselines.dp_sgd.releases import run_entries
from baselines.dp_sgd.settings import DpSgdSettings
from baselines.mlp.calibration import MULTIPLIER, noise_multiplier
from baselines.mlp.sides import FARTHEST, NetworkServer, mean_weights
from dpforest.ledger import Entry
from strategies.method import ClientUpdate, Task


class DpSgdServer(NetworkServer):
    """Averages the clients' weights equally: their numbers of rows are not public.

    Clients take turns, so that each takes part in the same public number of rounds (give or take one) and the noise can
    be calibrated to that number.
    """

    def __init__(self, task: Task[DpSgdSettings]) -> None:
        super().__init__(task, "dp_sgd")
        self._settings = task.settings
        self._multiplier = noise_multiplier(task.budget, lambda z: run_entries(task, z), self._settings.accountant)

    def planned(self) -> list[Entry]:
        return run_entries(self.task, self._multiplier)

    def sample(self, round_: int, clients: list[int]) -> list[int]:
        rng = np.random.default_rng(np.random.SeedSequence(self.task.seed, spawn_key=(1,)))
        order = rng.permutation(self.task.clients)
        first = (round_ - 1) * self.sample_size
        # The turn of a client that is missing is left out, so that nobody takes part more often than was paid for.
        places = {int(order[(first + i) % self.task.clients]) for i in range(self.sample_size)}
        return [client for place, client in enumerate(clients) if place in places]

    def config(self, exchange: int, client: int) -> Mapping[str, Any]:
        return {**super().config(exchange, client), MULTIPLIER: self._multiplier}

    def largest_noise(self) -> float:
        settings, schema = self._settings, self.task.schema
        recipe = settings.recipe(schema)
        of_sum = FARTHEST * self._multiplier * settings.clip
        of_mean = of_sum / max(1.0, settings.probability(schema) * (schema.rows or 0))
        # As if the noise of all steps had one direction.
        return of_mean * recipe.steps * settings.rate(schema, self.task.budget) / (1 - recipe.momentum)

    def mean_step(self, round_: int, updates: list[ClientUpdate]) -> np.ndarray:
        if not updates:
            return np.zeros(self.architecture.size)
        return mean_weights(updates, self.architecture, [1.0] * len(updates)) - self.flat

    def report(self) -> dict[str, Any]:
        recipe = self._settings.recipe(self.task.schema)
        return {
            **super().report(),
            "hidden": list(recipe.hidden),
            "batch": recipe.batch,
            "momentum": recipe.momentum,
            "noise_multiplier": self._multiplier,
            "learning_rate": self._settings.rate(self.task.schema, self.task.budget),
            "sampling_probability": self._settings.probability(self.task.schema),
            "steps_a_client": self.planned()[-1].times,
        }
