"""The client's side of client-level DP-FedAvg."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from baselines.dp_fedavg.releases import run_entry, secure_terms, vector_plan
from baselines.dp_fedavg.settings import DpFedAvgSettings
from baselines.dp_fedavg.updates import scales
from baselines.fedavg.client import train_locally
from baselines.mlp.calibration import read_multiplier
from baselines.mlp.network import Diverged
from baselines.mlp.sides import NetworkClient
from dpforest.guarantee import TrustModel
from dpforest.own_rows import OwnRows, class_shares
from strategies.method import Arrays, ClientTask, Entrusted, Released, Update
from strategies.secure_aggregation.sharing import secure_update

AMPLIFIED = "amplified"
UPDATE = "update"


class DpFedAvgClient(NetworkClient):
    """Trains on the client's rows, and sends the update under noise, or to the trusted server that noises it."""

    def train(self, task: ClientTask[Any], X: np.ndarray, y: np.ndarray, arrays: Arrays) -> Update:
        if task.trust is TrustModel.SHARED:
            terms = secure_terms(task, vector_plan(task)).terms
            return secure_update(task, terms, arrays, lambda: self._noised_update(task, X, y, arrays))
        if task.trust is TrustModel.LOCAL:
            return Update(Released(task.ledger, {UPDATE: self._noised_update(task, X, y, arrays)}))
        return super().train(task, X, y, arrays)

    def inputs(self, task: ClientTask[Any], X: np.ndarray, arrays: Arrays) -> np.ndarray:
        return own_inputs(task, X) if task.settings.standardize == "own" else super().inputs(task, X, arrays)

    def train_network(
        self, task: ClientTask, inputs: np.ndarray, y: np.ndarray, weights: dict[str, np.ndarray]
    ) -> Update:
        entry = run_entry(task, read_multiplier(task.config), bool(task.config.get(AMPLIFIED)))
        if entry not in task.ledger.entries:
            task.ledger.charge(entry)
        return Update(Entrusted(task.ledger, entry, _trained(task, inputs, y, weights)))

    def _noised_update(
        self, task: ClientTask[DpFedAvgSettings], X: np.ndarray, y: np.ndarray, arrays: Arrays
    ) -> np.ndarray:
        plan, settings = vector_plan(task), task.settings
        architecture = settings.architecture(task.schema)
        weights = architecture.check_weights(arrays)
        task.ledger.require([plan.entry])
        try:
            trained = _trained(task, self.inputs(task, X, arrays), y, weights)
            step = architecture.flatten(trained).astype(np.float64) - architecture.flatten(weights)
        except Diverged:
            step = np.zeros(architecture.size)  # to say so would tell something about the rows
        vector = plan.vector(step * scales(settings, architecture), settings)
        return plan.sums.release(vector, plan.entry, task.ledger, task.noise("updates"))


def own_inputs(task: ClientTask[DpFedAvgSettings], X: np.ndarray) -> np.ndarray:
    """Rows on the client's own scale, as `own_factors` says."""
    own, settings = OwnRows(task.schema), task.settings
    factor, centre = own_factors(settings, len(own.columns))
    values = own.steps(X) if settings.own_scale == "z" else own.ranks(X)
    return (values - np.float32(centre)) * np.float32(factor)


def own_factors(settings: DpFedAvgSettings, width: int) -> tuple[float, float]:
    """What standardised values, or ranks, are multiplied by, and what is taken off them before.

    Ranks come to the middle and the deviation of standardised values. The rows of a linear model are of length about 1,
    so that a score moves as its weights do.
    """
    factor, centre = (1.0, 0.0) if settings.own_scale == "z" else (math.sqrt(12), 0.5)
    return (factor, centre) if settings.hidden else (factor / math.sqrt(width), centre)


def _trained(
    task: ClientTask[DpFedAvgSettings], inputs: np.ndarray, y: np.ndarray, weights: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    if not len(y):
        return weights
    return train_locally(task, inputs, y, weights, _row_weights(task, y))


def _row_weights(task: ClientTask[DpFedAvgSettings], y: np.ndarray) -> np.ndarray | None:
    """Of mean 1: the rows of a class with n of them weigh in proportion to n to the power of -balance."""
    balance = task.settings.balance
    if not task.schema.is_classification or not balance:
        return None
    return class_shares(y, balance) * len(y)
