"""The server's side of record-level DP-SGD."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from baselines.dp_sgd.releases import run_entries, settled_task
from baselines.dp_sgd.settings import DpSgdSettings
from baselines.dp_sgd.shared import GRADIENTS, STANDARDIZE, STEP, secure_terms, shared_plan
from baselines.mlp.calibration import MULTIPLIER, noise_multiplier
from baselines.mlp.inputs import Standard
from baselines.mlp.sides import FARTHEST, NetworkServer, mean_weights
from dpforest.guarantee import TrustModel
from dpforest.ledger import Entry
from strategies.method import Arrays, Charges, ClientUpdate, ServerSide, Task
from strategies.secure_aggregation import SumCollector
from strategies.secure_aggregation.rounds import SumRounds
from strategies.secure_aggregation.sharing import noise_shares
from strategies.secure_aggregation.sides import SecureServer

# Of the average of weights: what each step leaves of the average before it.
_AVERAGING = 0.9


def dp_sgd_server(task: Task[DpSgdSettings]) -> ServerSide:
    """The server's side under the trust model of the task."""
    task = settled_task(task)
    return SharedDpSgdServer(task) if task.trust is TrustModel.SHARED else DpSgdServer(task)


class DpSgdServer(NetworkServer):
    """Averages the clients' weights equally: their numbers of rows are not public.

    Clients take turns, so that each takes part in the same public number of rounds (give or take one) and the noise can
    be calibrated to that number.
    """

    def __init__(self, task: Task[DpSgdSettings]) -> None:
        super().__init__(task, "dp_sgd")
        noise_shares(task)  # refuses settings of sharing, where nothing is shared
        self._settings = task.settings
        self._multiplier = noise_multiplier(task.budget, lambda z: run_entries(task, z), self._settings.accountant)

    def planned(self) -> list[Entry]:
        return run_entries(self.task, self._multiplier)

    def sample(self, round_: int, clients: list[int]) -> list[int]:
        rng = np.random.default_rng(np.random.SeedSequence(self.task.seed, spawn_key=(1,)))
        order = rng.permutation(self.task.clients)
        first = (round_ - 1) * self.sample_size
        # The turn of a client that is missing is left out, so that nobody takes part more often than was paid for.
        places = {int(order[(first + i) % self.task.clients]) for i in range(self.sample_size)}
        return [client for place, client in enumerate(clients) if place in places]

    def config(self, exchange: int, client: int) -> Mapping[str, Any]:
        return {**super().config(exchange, client), MULTIPLIER: self._multiplier}

    def largest_noise(self) -> float:
        settings, schema = self._settings, self.task.schema
        recipe = settings.recipe(schema)
        of_sum = FARTHEST * self._multiplier * float(settings.clip)
        of_mean = of_sum / max(1.0, settings.probability(schema) * (schema.rows or 0))
        # As if the noise of all steps had one direction.
        return of_mean * recipe.steps * settings.rate(schema, self.task.budget) / (1 - recipe.momentum)

    def mean_step(self, round_: int, updates: list[ClientUpdate]) -> np.ndarray:
        if not updates:
            return np.zeros(self.architecture.size)
        return mean_weights(updates, self.architecture, [1.0] * len(updates)) - self.flat

    def report(self) -> dict[str, Any]:
        recipe = self._settings.recipe(self.task.schema)
        return {
            **super().report(),
            "hidden": list(recipe.hidden),
            "batch": recipe.batch,
            "momentum": recipe.momentum,
            "noise_multiplier": self._multiplier,
            "learning_rate": self._settings.rate(self.task.schema, self.task.budget),
            "sampling_probability": self._settings.probability(self.task.schema),
            "steps_a_client": self.planned()[-1].times,
        }


class SharedDpSgdServer(SecureServer, NetworkServer):
    """Steps along sums of the clipped gradients of all rows, and shows the average of where the last steps led.

    A sum is divided by the public number of all rows.
    """

    def __init__(self, task: Task[DpSgdSettings]) -> None:
        super().__init__(task, "dp_sgd")
        self._settings, self._recipe = task.settings, task.settings.recipe(task.schema)
        self._plan = shared_plan(task)
        self.sums = SumRounds(SumCollector(secure_terms(task, self._plan).terms, 0), self._plan.steps)
        self._asked = 0  # steps that clients were asked for, whether or not they came to a sum
        self._done = 0
        self._total = np.zeros(self.architecture.size, np.int64)
        self._evaluated = self.flat
        self._ends_round = False

    def planned(self) -> list[Entry]:
        return self._plan.planned()

    def charges(self, exchange: int, client: int, update: ClientUpdate | None = None) -> Charges:
        if not self.asks_vectors:
            return Charges()
        return Charges(each=[self._plan.row_entry if self._standardizes else self._plan.entry])  # type: ignore[list-item]

    def is_round_end(self, exchange: int) -> bool:
        return self._ends_round

    def vector_length(self) -> int:
        return 2 * self.architecture.inputs + 1 if self._standardizes else self.architecture.size

    def arrays_for(self, exchange: int, client: int) -> Arrays:
        secure = super().arrays_for(exchange, client)
        if self._standardizes or not self.asks_vectors:
            return secure
        return {**secure, **self.architecture.unflatten(self.flat), **self.standard_arrays()}

    def config(self, exchange: int, client: int) -> Mapping[str, Any]:
        return {**super().config(exchange, client), STEP: STANDARDIZE if self._standardizes else GRADIENTS}

    def aggregate(self, exchange: int, updates: list[ClientUpdate]) -> Arrays | None:
        standardizes = self._standardizes
        self._asked += self.asks_vectors and not standardizes
        # Without keys or scales there is nothing to go on with.
        total = self.sums.take(updates, is_needed=standardizes or self.agrees_on_keys)
        if total is not None and standardizes:
            self._standardize(total.values)
        elif total is not None:
            self._total = total.values
            self._walk(self.mean_step(self._asked, []))
        self.sums.note(self._done)
        last = exchange == self.exchanges or self.finished
        if last and not self._done:
            raise self.nothing_done()
        steps = total is not None and not standardizes
        self._ends_round = last or (steps and self._asked % self._recipe.steps == 0)
        return self.model() if self._ends_round else None

    def mean_step(self, round_: int, updates: list[ClientUpdate]) -> np.ndarray:
        return self._total * (-float(self._settings.clip) / (self._plan.units * self._plan.records))

    def model(self) -> dict[str, np.ndarray]:
        return {**self.architecture.unflatten(self._evaluated), **self.standard_arrays()}

    def start_from(self, arrays: Arrays) -> None:
        super().start_from(arrays)
        self._evaluated = self.flat

    def report(self) -> dict[str, Any]:
        return {
            **super().report(),
            "hidden": list(self._recipe.hidden),
            "momentum": self._recipe.momentum,
            "learning_rate": self._recipe.learning_rate,
            "clip": self._settings.clip,
            "standardize_share": self._settings.standardize_share,
            "steps_a_client": self._plan.steps,
        }

    @property
    def _standardizes(self) -> bool:
        """Whether the next sum is that of features."""
        return self._plan.row_sums is not None and self._standard is None

    def _standardize(self, total: np.ndarray) -> None:
        sums = total / self._plan.row_units
        sums[-1] = self._plan.records  # better known than by its noised sum
        self._standard = Standard.of_sums(sums, self.architecture.inputs)

    def _walk(self, step: np.ndarray) -> None:
        """Go on with momentum, at a rate that falls linearly to 0, and average the weights."""
        rate = float(self._recipe.learning_rate) * (1 - (self._asked - 1) / self._plan.steps)
        self._momentum = self._recipe.momentum * self._momentum + step
        self._flat = self._flat + rate * self._momentum
        self._done += 1
        # With no part of the weights before the first step.
        weight = (1 - _AVERAGING) / (1 - _AVERAGING**self._done)
        self._evaluated = self._evaluated + weight * (self._flat - self._evaluated)
