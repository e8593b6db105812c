"""The client's side of FedAvg."""

from __future__ import annotations

import numpy as np

from baselines.fedavg.settings import FedAvgSettings, ProximalSettings
from baselines.mlp.inputs import targets
from baselines.mlp.network import network_for
from baselines.mlp.sides import NetworkClient
from strategies.method import ClientTask, Unprotected, Update

WEIGHTS_WHAT = "network weights"
ROWS_WHAT = "number of rows"
ROWS = "rows"


def train_locally(
    task: ClientTask[ProximalSettings],
    inputs: np.ndarray,
    y: np.ndarray,
    weights: dict[str, np.ndarray],
    row_weights: np.ndarray | None = None,
) -> dict[str, np.ndarray]:
    """The network's weights after the client's own epochs."""
    settings = task.settings
    network = network_for(settings.architecture(task.schema))
    wanted = targets(y, task.schema)
    rng = task.rng("training")
    return network.fit(weights, inputs, wanted, settings, rng, settings.proximal, row_weights=row_weights).weights


class FedAvgClient(NetworkClient):
    """Trains on the client's rows and sends the weights as they are."""

    def train_network(
        self, task: ClientTask[FedAvgSettings], inputs: np.ndarray, y: np.ndarray, weights: dict[str, np.ndarray]
    ) -> Update:
        settings = task.settings
        trained = train_locally(task, inputs, y, weights)
        weights_part = Unprotected(task.ledger, {WEIGHTS_WHAT: "trained on the rows and sent as they are"}, trained)
        if settings.weights == "equal":
            return Update(weights_part)
        why = "sent in clear, as the client's weight in the mean"
        return Update(weights_part, Unprotected(task.ledger, {ROWS_WHAT: why}, {}, {ROWS: len(y)}))
