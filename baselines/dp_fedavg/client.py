"""The client's side of client-level DP-FedAvg."""

from __future__ import annotations

import math

import numpy as np

from baselines.dp_fedavg.releases import run_entry
from baselines.fedavg.client import train_locally
from baselines.mlp.sides import NetworkClient
from dpforest.errors import DPForestError
from strategies.method import ClientTask, Update

MULTIPLIER, AMPLIFIED = "noise-multiplier", "amplified"


class DpFedAvgClient(NetworkClient):
    """Trains on the client's rows and hands its weights to the trusted server, which clips and noises."""

    def train_network(
        self, task: ClientTask, inputs: np.ndarray, y: np.ndarray, weights: dict[str, np.ndarray]
    ) -> Update:
        multiplier = task.config.get(MULTIPLIER)
        if isinstance(multiplier, bool) or not isinstance(multiplier, int | float) or not 0 <= multiplier < math.inf:
            raise DPForestError(f"the server announces the noise multiplier {multiplier!r}; expected a number from 0")
        entry = run_entry(task, multiplier, bool(task.config.get(AMPLIFIED)))
        if entry not in task.ledger.entries:
            task.ledger.charge(entry)
        return Update(train_locally(task, inputs, y, weights))
