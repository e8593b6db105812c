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
from baselines.uploaded_rows import RowsServer
from strategies.method import Arrays, ClientTask, ClientUpdate, Task, Unprotected, Update

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


class CentralizedServer(RowsServer):
    """Trains in one exchange."""

    def __init__(self, task: Task[WholeSettings]) -> None:
        super().__init__(task, ROWS_WHAT)
        require_tensorflow("centralized_mlp")
        self._settings = task.settings
        self._architecture = self._settings.architecture(task.schema)
        self._model: dict[str, np.ndarray] = {}
        self._rows = 0

    def aggregate(self, exchange: int, updates: list[ClientUpdate]) -> Arrays:
        rng = np.random.default_rng(np.random.SeedSequence(self.task.seed, spawn_key=(0,)))
        X, y = self.take_rows(updates)
        trained, standard = train_alone(self.task, self._settings, X, y, rng)
        self._model = {**trained, **standard}
        self._rows = len(y)
        return self._model

    def report(self) -> dict[str, Any]:
        return {"weights": self._architecture.size, "rows": self._rows}

    def save(self, folder: Path) -> None:
        save_network(folder, self._architecture, self.task.schema, self._model)
