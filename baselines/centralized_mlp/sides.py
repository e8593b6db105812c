"""Clients upload their rows and the server trains one network on all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from baselines.centralized_mlp.settings import WholeSettings
from baselines.mlp.backend import require_tensorflow
from baselines.mlp.inputs import Standard, row_sums, targets, to_unit_range
from baselines.mlp.network import network_for
from baselines.mlp.sides import NetworkUser, save_network
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

    @property
    def exchanges(self) -> int:
        return 1

    def planned(self) -> list[Entry]:
        return []

    def unprotected(self) -> list[str]:
        return [ROWS_WHAT]

    def check(self, update: ClientUpdate) -> None:
        X, y = update.arrays.get("X"), update.arrays.get("y")
        if X is None or y is None or X.ndim != 2 or X.shape[1] != self.task.schema.n_features or y.shape != (len(X),):
            raise DPForestError(f"expected rows of {self.task.schema.n_features} features with their targets")
        self.task.schema.check_matrix(X)
        if not np.isfinite(y).all() or (self.task.schema.is_classification and not self._are_classes(y)):
            raise DPForestError("a target is no class or no finite number")

    def aggregate(self, round_: int, updates: list[ClientUpdate]) -> Arrays:
        rng = np.random.default_rng(np.random.SeedSequence(self.task.seed, spawn_key=(0,)))
        X = np.concatenate([update.arrays["X"] for update in updates])
        y = np.concatenate([update.arrays["y"] for update in updates])
        trained, standard = train_alone(self.task, self._settings, X, y, rng)
        self._model = {**trained, **standard}
        self._rows = len(y)
        return self._model

    def report(self) -> dict[str, Any]:
        return {"weights": self._architecture.size, "rows": self._rows}

    def save(self, folder: Path) -> None:
        save_network(folder, self._architecture, self._model)

    def _are_classes(self, y: np.ndarray) -> bool:
        return bool(y.dtype.kind in "iu" and ((y >= 0) & (y < self._architecture.outputs)).all())
