"""Clients upload their rows and the server trains one network on all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from baselines.mlp.backend import require_tensorflow
from baselines.mlp.inputs import Standard, model_inputs, row_sums, targets, to_unit_range
from baselines.mlp.network import network_for
from baselines.mlp.settings import LocalSettings
from baselines.mlp.sides import NetworkClient, save_network
from dpforest.errors import DPForestError
from dpforest.ledger import Entry
from strategies.method import Arrays, ClientTask, ClientUpdate, ServerSide, Task, Update

ROWS_WHAT = "all rows"


class CentralizedClient(NetworkClient):
    """Uploads the client's rows in single precision."""

    def train(self, task: ClientTask, X: np.ndarray, y: np.ndarray, arrays: Arrays) -> Update:
        task.ledger.unprotected(ROWS_WHAT, "uploaded as they are")
        return Update({"X": X.astype(np.float32), "y": y.astype(np.int32 if task.schema.is_classification else np.float32)})

    def train_network(
        self, task: ClientTask, inputs: np.ndarray, y: np.ndarray, weights: dict[str, np.ndarray]
    ) -> Update:
        raise DPForestError("centralized_mlp trains on the server")
