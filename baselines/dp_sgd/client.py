"""The client's side of record-level DP-SGD."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from flwr.app import ConfigRecord

from baselines.dp_sgd.optimizers import optimizer_for
from baselines.dp_sgd.releases import STEPS_WHAT, settled_task, steps_entry
from baselines.dp_sgd.settings import DpSgdSettings
from baselines.dp_sgd.shared import shared_update
from baselines.mlp.calibration import read_multiplier
from baselines.mlp.ghost import block_for, clipped_gradients_for
from baselines.mlp.inputs import targets
from baselines.mlp.sides import NetworkClient
from dpforest.errors import BudgetExceeded, DPForestError
from dpforest.guarantee import TrustModel
from dpforest.ledger import Entry
from dpforest.mechanisms import GaussianSums, Paid
from dpforest.noise import Seeded
from strategies.method import Arrays, ClientTask, Released, Update

_STATE = "dp_sgd"


class DpSgdClient(NetworkClient):
    """Takes noised steps on Poisson samples of the client's rows and sends where they lead.

    Where the noise is shared, it sends its part of the gradient of every step.
    """

    def train(self, task: ClientTask[Any], X: np.ndarray, y: np.ndarray, arrays: Arrays) -> Update:
        task = settled_task(task)
        if task.trust is TrustModel.SHARED:
            return shared_update(task, X, y, arrays)
        return super().train(task, X, y, arrays)

    def predict(self, task: ClientTask[Any], X: np.ndarray, arrays: Arrays) -> np.ndarray:
        return super().predict(settled_task(task), X, arrays)

    def train_network(
        self, task: ClientTask[DpSgdSettings], inputs: np.ndarray, y: np.ndarray, weights: dict[str, np.ndarray]
    ) -> Update:
        settings = task.settings
        entry, paid = self._pay(task)
        sampling, noise, dropout = task.noise("samples"), task.noise("gradients"), task.rng("dropout")
        architecture = settings.architecture(task.schema)
        dtype = "float32" if isinstance(noise, Seeded) else "float64"
        expected = entry.sampling * (task.schema.rows or 0)
        gradients = clipped_gradients_for(architecture, block_for(expected), dtype)
        state = task.state.config_records[_STATE]
        rate = float(str(state.get("rate", settings.rate(task.schema, task.budget))))
        # Rows are drawn with a probability: along any direction, that moves a sum by so much.
        of_rows = float(settings.clip) * math.sqrt(expected * (1 - entry.sampling))
        chance = math.hypot(entry.scale, of_rows) / expected
        optimizer = optimizer_for(settings, task.schema, rate, architecture.size, chance)
        wanted = targets(y, task.schema)
        flat = architecture.flatten(weights)
        for _ in range(settings.recipe(task.schema).steps):
            batch = np.flatnonzero(sampling.bernoulli(entry.sampling, len(y)))
            total = gradients.sum(flat, inputs[batch], wanted[batch], float(settings.clip), dropout)
            flat = flat - optimizer.step((paid.draw(total, noise) / expected).astype(np.float32))
        state["rate"] = optimizer.rate
        if not np.isfinite(flat).all():
            # Follows from noised gradients alone, so that saying it releases nothing more.
            raise DPForestError(
                f"the weights are not finite: lower learning_rate (now {settings.rate(task.schema, task.budget):g})"
            )
        return Update(Released(task.ledger, architecture.unflatten(flat)))

    @staticmethod
    def _pay(task: ClientTask[DpSgdSettings]) -> tuple[Entry, Paid]:
        """What was paid for all rounds when the first began, and what is left of it; refuses a round more than that.

        The server announces the noise multiplier, but is not believed: the ledger refuses too small a one.
        """
        settings = task.settings
        steps = settings.recipe(task.schema).steps
        paid = next((entry for entry in task.ledger.entries if entry.what == STEPS_WHAT), None)
        if paid is None:
            paid = steps_entry(task, read_multiplier(task.config))
            task.ledger.charge(paid)
            task.state[_STATE] = ConfigRecord({"rounds": 0})
        state = task.state.config_records[_STATE]
        done = int(str(state["rounds"]))
        left = GaussianSums(float(settings.clip), paid.mu, paid.sampling).resume(paid, task.ledger, done * steps)
        if (done + 1) * steps > paid.times:
            raise BudgetExceeded(f"the budget is spent in {done} rounds of {steps} steps; the server asks for one more")
        state["rounds"] = done + 1
        return paid, left
