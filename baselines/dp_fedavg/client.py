"""The client's side of client-level DP-FedAvg."""

from __future__ import annotations

import numpy as np

from baselines.dp_fedavg.releases import run_entry
from baselines.fedavg.client import train_locally
from baselines.mlp.calibration import read_multiplier
from baselines.mlp.sides import NetworkClient
from strategies.method import ClientTask, Entrusted, Update

AMPLIFIED = "amplified"


class DpFedAvgClient(NetworkClient):
    """Trains on the client's rows and hands its weights to the trusted server, which clips and noises."""

    def train_network(
        self, task: ClientTask, inputs: np.ndarray, y: np.ndarray, weights: dict[str, np.ndarray]
    ) -> Update:
        entry = run_entry(task, read_multiplier(task.config), bool(task.config.get(AMPLIFIED)))
        if entry not in task.ledger.entries:
            task.ledger.charge(entry)
        return Update(Entrusted(task.ledger, entry, train_locally(task, inputs, y, weights)))
