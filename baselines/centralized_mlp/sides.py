"""Clients upload their rows and the server trains one network on all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from baselines.centralized_mlp.settings import WholeSettings
from baselines.mlp.backend import require_tensorflow
from baselines.mlp.inputs import Standard, row_sums, targets, to_unit_range
from baselines.mlp.network import network_for
from baselines.mlp.saved import save_network
from baselines.mlp.sides import NetworkUser
from dpforest.errors import DPForestError
from dpforest.ledger import Entry
from strategies.method import Arrays, ClientTask, ClientUpdate, ServerSide, Task, Unprotected, Update

ROWS_WHAT = "all rows"


def train_alone(
    task: Task, settings: WholeSettings, X: np.ndarray, y: np.ndarray, rng: np.random.Generator
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Weights of a network trained on rows in one place, and the standard of its inputs, if any."""
    architecture = settings.architecture(task.schema)
    inputs, standard = to_unit_range(X, task.schema), {}
    if settings.standardize == "own":
        own = Standard.of_sums(row_sums(inputs), architecture.inputs)
        inputs, standard = own.apply(inputs), own.to_arrays()
    start = architecture.initial_weights(rng)
    trained = network_for(architecture).fit(start, inputs, targets(y, task.schema), settings, rng)
    return trained.weights, standard


class CentralizedClient(NetworkUser):
    """Uploads the client's rows in single precision."""

    def train(self, task: ClientTask, X: np.ndarray, y: np.ndarray, arrays: Arrays) -> Update:
        kind = np.int32 if task.schema.is_classification else np.float32
        rows = {"X": X.astype(np.float32), "y": y.astype(kind)}
        return Update(Unprotected(task.ledger, {ROWS_WHAT: "uploaded as they are"}, rows))


class CentralizedServer(ServerSide):
    """Trains in one exchange."""

    def __init__(self, task: Task[WholeSettings]) -> None:
        super().__init__(task)
        require_tensorflow("centralized_mlp")
        self._settings = task.settings
        self._architecture = self._settings.architecture(task.schema)
        self._model: dict[str, np.ndarray] = {}
        self._rows = 0
        self._received: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    @property
    def exchanges(self) -> int:
        return 1

    def planned(self) -> list[Entry]:
        return []

    def unprotected(self) -> list[str]:
        return [ROWS_WHAT]

    def check(self, update: ClientUpdate) -> None:
        X, y = update.arrays.get("X"), update.arrays.get("y")
        schema = self.task.schema
        if X is None or y is None or X.ndim != 2 or X.shape[1] != schema.n_features or y.shape != (len(X),):
            raise DPForestError(f"expected rows of {schema.n_features} features with their targets")
        self._received[update.client] = schema.check_matrix(X, "refuse")[0], schema.check_target(y)

    def aggregate(self, exchange: int, updates: list[ClientUpdate]) -> Arrays:
        rng = np.random.default_rng(np.random.SeedSequence(self.task.seed, spawn_key=(0,)))
        X, y = (np.concatenate(parts) for parts in zip(*(self._received[u.client] for u in updates), strict=True))
        self._received.clear()
        trained, standard = train_alone(self.task, self._settings, X, y, rng)
        self._model = {**trained, **standard}
        self._rows = len(y)
        return self._model

    def report(self) -> dict[str, Any]:
        return {"weights": self._architecture.size, "rows": self._rows}

    def save(self, folder: Path) -> None:
        save_network(folder, self._architecture, self.task.schema, self._model)
