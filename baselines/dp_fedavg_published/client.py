"""The client's side of the chapter's DP-FedAvg (algorithm 2)."""

from __future__ import annotations

import math

import numpy as np

from baselines.dp_fedavg_published.settings import PublishedSettings
from baselines.fedavg.client import ROWS
from baselines.mlp.inputs import targets
from baselines.mlp.network import network_for
from baselines.mlp.sides import NetworkClient
from dpforest.errors import DPForestError
from dpforest.ledger import Budget
from strategies.method import ClientTask, Unprotected, Update

UNPROTECTED = {
    "network weights with noise that is too small": (
        "the gradient of a batch is clipped, not that of a row, so one row can change the weights over many steps by "
        "more than the clip that the noise is scaled to; the noise formula holds below epsilon 1 only; rounds are not "
        "composed"
    ),
    "number of rows": "sent in clear, as the client's weight in the mean",
}


def published_sigma(budget: Budget, clip: float) -> float:
    """``clip * sqrt(2 ln(1.25 / delta)) / epsilon``, the chapter's section 5.3; epsilon is that of one round.

    Raises
    ------
    DPForestError
        The budget has no delta.
    """
    if not budget.delta:
        raise DPForestError("privacy.delta is 0, but the chapter's noise needs one: it uses 1e-5")
    return clip * math.sqrt(2 * math.log(1.25 / budget.delta)) / budget.epsilon


class PublishedClient(NetworkClient):
    """Clips the gradients of batches and adds noise once to the weights."""

    def train_network(
        self, task: ClientTask[PublishedSettings], inputs: np.ndarray, y: np.ndarray, weights: dict[str, np.ndarray]
    ) -> Update:
        settings = task.settings
        architecture = settings.architecture(task.schema)
        sigma = published_sigma(task.budget, settings.clip)
        network = network_for(architecture)
        wanted = targets(y, task.schema)
        trained = network.fit(weights, inputs, wanted, settings, task.rng("training"), clip=settings.clip).weights
        noise = task.noise("weights").generator().standard_normal(architecture.size) * sigma
        noised = architecture.unflatten(architecture.flatten(trained) + noise)
        return Update(Unprotected(task.ledger, UNPROTECTED, noised, {ROWS: len(y)}))
