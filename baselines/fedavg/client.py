"""The client's side of FedAvg."""

from __future__ import annotations

import numpy as np

from baselines.fedavg.settings import FedAvgSettings, ProximalSettings
from baselines.mlp.inputs import targets
from baselines.mlp.network import network_for
from baselines.mlp.sides import NetworkClient, unprotected_once
from strategies.method import ClientTask, Update

WEIGHTS_WHAT = "network weights"
ROWS_WHAT = "number of rows"
ROWS = "rows"


def train_locally(
    task: ClientTask, inputs: np.ndarray, y: np.ndarray, weights: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The network's weights after the client's own epochs."""
    settings: ProximalSettings = task.settings
    network = network_for(settings.architecture(task.schema))
    wanted = targets(y, task.schema)
    return network.fit(weights, inputs, wanted, settings, task.rng("training"), proximal=settings.proximal).weights


class FedAvgClient(NetworkClient):
    """Trains on the client's rows and sends the weights as they are."""

    def train_network(
        self, task: ClientTask, inputs: np.ndarray, y: np.ndarray, weights: dict[str, np.ndarray]
    ) -> Update:
        settings: FedAvgSettings = task.settings
        trained = train_locally(task, inputs, y, weights)
        unprotected_once(task.ledger, WEIGHTS_WHAT, "trained on the rows and sent as they are")
        if settings.weights == "equal":
            return Update(trained)
        unprotected_once(task.ledger, ROWS_WHAT, "sent in clear, as the client's weight in the mean")
        return Update(trained, {ROWS: len(y)})
