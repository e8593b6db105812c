"""The server's side of client-level DP-FedAvg.

Flower's own wrappers are not reused. ``DifferentialPrivacyServerSideFixedClipping`` of flwr 1.42 divides by zero at a
zero update, draws its noise from NumPy's global generator, accounts only without amplification and over an unchanged
FedAvg (no momentum), relies on weights that the clients claim, and divides by the clients that answered, so that one
that drops out changes the sensitivity of the mean. Its adaptive variant has no accountant.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from baselines.dp_fedavg.client import AMPLIFIED, UPDATE, own_factors
from baselines.dp_fedavg.releases import (
    TRUST,
    line_mechanism,
    round_mechanism,
    run_entry,
    secure_terms,
    vector_plan,
)
from baselines.dp_fedavg.settings import DpFedAvgSettings
from baselines.dp_fedavg.updates import scales, step_length
from baselines.mlp.architecture import refuse_batch_norm
from baselines.mlp.calibration import MULTIPLIER, noise_multiplier
from baselines.mlp.sides import NetworkServer
from dpforest.boosting.lines import linear_forest
from dpforest.errors import BudgetExceeded, DPForestError
from dpforest.guarantee import CLIENT_UNIT, TrustModel
from dpforest.ledger import Entry, Ledger
from dpforest.mechanisms import Paid
from dpforest.noise import Noise
from dpforest.own_rows import OwnRows
from strategies.client_level import check_clients
from strategies.forests import save_forest
from strategies.method import Arrays, Charges, ClientUpdate, ServerSide, Task
from strategies.secure_aggregation import SumCollector, Total
from strategies.secure_aggregation.rounds import SumRounds
from strategies.secure_aggregation.sharing import noise_shares
from strategies.secure_aggregation.sides import SecureServer
from strategies.trusted_server import ServerNoise

# Share of a round's squared mu for the noised count behind an adaptive clip.
_COUNT_SHARE = 0.05
_SMALLEST_CLIP, _LARGEST_CLIP = 1e-6, 1e6
# How many deviations noise may explain.
_DEVIATIONS = 12


def dp_fedavg_server(task: Task[DpFedAvgSettings]) -> ServerSide:
    """The server's side under the trust model of the task."""
    if task.trust is TrustModel.CENTRAL:
        return DpFedAvgServer(task)
    return SharedNoiseServer(task) if task.trust is TrustModel.SHARED else LocalNoiseServer(task)


class _ClientLevelServer(NetworkServer):
    """What all trust models share."""

    def __init__(self, task: Task[DpFedAvgSettings]) -> None:
        super().__init__(task, "dp_fedavg")
        check_clients(task)
        refuse_batch_norm(self.architecture, "its running statistics do not survive the noise")
        self._settings = task.settings
        self._scales = scales(task.settings, self.architecture)
        self._step_length = step_length(task)

    @property
    def step_length(self) -> float:
        return self._step_length

    def save(self, folder: Path) -> None:
        """Also as a forest with the same predictions where that can be: it says how a new person's rows are read."""
        super().save(folder)
        settings, schema = self._settings, self.task.schema
        if settings.standardize != "own" or self.architecture.hidden or not schema.is_classification:
            return
        own = OwnRows(schema)
        factor, centre = own_factors(settings, len(own.columns))
        kernel, bias = (self.model()[f"output/{name}"].astype(np.float64) for name in ("kernel", "bias"))
        provenance = {"method": self.method, "trust": self.task.trust}
        forest = linear_forest(
            own, factor * kernel, bias - factor * centre * kernel.sum(axis=0), settings.own_scale == "ranks", provenance
        )
        save_forest(forest, folder)

    def saved_inputs(self) -> dict[str, Any]:
        if self._settings.standardize != "own":
            return super().saved_inputs()
        factor, centre = own_factors(self._settings, self.architecture.inputs)
        facts = {"standardize": "own", "own_scale": self._settings.own_scale, "less": centre, "times": factor}
        return {**super().saved_inputs(), **facts}

    @property
    def needs_answers(self) -> bool:
        """No: whether a client fails may follow from its data, and the end of the run would give that away."""
        return False


class LocalNoiseServer(_ClientLevelServer):
    """Adds up updates that carry their noise.

    The sum is divided by the number of all clients, whoever answers: a client that drops out counts as a zero update.
    """

    def __init__(self, task: Task[DpFedAvgSettings]) -> None:
        super().__init__(task)
        self._plan = vector_plan(task)

    def planned(self) -> list[Entry]:
        return [replace(self._plan.entry, times=self.task.rounds)]

    def charges(self, exchange: int, client: int, update: ClientUpdate | None = None) -> Charges:
        return Charges(each=[self._plan.entry])

    def sample(self, round_: int, clients: list[int]) -> list[int]:
        return clients

    def check(self, update: ClientUpdate) -> None:
        vector = update.arrays.get(UPDATE, np.zeros(0))
        most = self._plan.units + _DEVIATIONS * self._plan.sums.share + 1
        if vector.dtype.kind != "i" or vector.shape != self._scales.shape:
            raise DPForestError(
                f"the update is {vector.dtype} of shape {vector.shape}; expected {self._scales.size} whole numbers"
            )
        if (np.abs(vector.astype(np.float64)) > most).any():
            raise DPForestError(f"the update has numbers beyond {most:.3g}, which no noise explains")

    def mean_step(self, round_: int, updates: list[ClientUpdate]) -> np.ndarray:
        return self._mean(sum((update.arrays[UPDATE].astype(np.int64) for update in updates), np.zeros(1, np.int64)))

    def report(self) -> dict[str, Any]:
        return {**super().report(), "step_length": self.step_length}

    def _mean(self, total: np.ndarray) -> np.ndarray:
        length = 1.0 if self._settings.update == "unit" else self._settings.clip
        return total * (length / (self._plan.units * self.task.clients)) * self._scales


class SharedNoiseServer(SecureServer, LocalNoiseServer):
    """Gets the sum of all updates by secure aggregation, with a share of the noise of each client in it."""

    def __init__(self, task: Task[DpFedAvgSettings]) -> None:
        super().__init__(task)
        self.sums = SumRounds(SumCollector(secure_terms(task, self._plan).terms, 0), task.rounds)
        self._done = 0
        self._has_sum = False

    def vector_length(self) -> int:
        return self._scales.size

    def is_round_end(self, exchange: int) -> bool:
        return self._has_sum

    def charges(self, exchange: int, client: int, update: ClientUpdate | None = None) -> Charges:
        return super().charges(exchange, client, update) if self.asks_vectors else Charges()

    def arrays_for(self, exchange: int, client: int) -> Arrays:
        return {**super().arrays_for(exchange, client), **(self.model() if self.asks_vectors else {})}

    def aggregate(self, exchange: int, updates: list[ClientUpdate]) -> Arrays | None:
        total = self.sums.take(updates, self._check_total, is_needed=self.agrees_on_keys)
        self._has_sum = total is not None
        if total is not None:
            self._total, self._done = total.values, self._done + 1
        self.sums.note(self._done)
        if (exchange == self.exchanges or self.finished) and not self._done:
            raise self.nothing_done()
        return super().aggregate(exchange, []) if self._has_sum else None

    def mean_step(self, round_: int, updates: list[ClientUpdate]) -> np.ndarray:
        return self._mean(self._total)

    def _check_total(self, total: Total) -> None:
        n = len(total.clients)
        most = n * self._plan.units + _DEVIATIONS * math.sqrt(n) * self._plan.sums.share + 1
        if (np.abs(total.values.astype(np.float64)) > most).any():
            raise DPForestError(f"the sum of updates has numbers beyond {most:.3g}, which no noise explains")


class DpFedAvgServer(_ClientLevelServer):
    """The trusted server: bounds each update, adds noise to the mean, and refuses rounds beyond the budget.

    The sum is divided by the expected number m of clients, whoever answers: a client that drops out after it was drawn
    counts as a zero update, and a round for which nobody was drawn releases noise like any other.
    """

    def __init__(self, task: Task[DpFedAvgSettings]) -> None:
        super().__init__(task)
        noise_shares(task)  # refuses settings of sharing, where nothing is shared
        self._clip = 1.0 if self._settings.update == "unit" else float(self._settings.clip)
        self._clips: list[float] = []
        self._multiplier, self._amplified = self._calibrate()
        self.ledger = Ledger(task.budget, CLIENT_UNIT, TRUST)
        self._paid: Paid | None = None
        self._server_noise = ServerNoise(task)

    def planned(self) -> list[Entry]:
        return [run_entry(self.task, self._multiplier, self._amplified)]

    def sample(self, round_: int, clients: list[int]) -> list[int]:
        if len(clients) > self.task.clients:
            raise DPForestError(f"{len(clients)} clients train, but the noise was calibrated for {self.task.clients}")
        noise = self._noise("sampling", round_)
        if self._settings.sampling == "poisson":
            sample = noise.bernoulli(self.sample_size / self.task.clients, len(clients))
            return [client for client, takes_part in zip(clients, sample, strict=True) if takes_part]
        # Drawn among all places, present or not: fewer clients must not make each of them more likely.
        places = set(noise.sample(self.task.clients, self.sample_size).tolist())
        return [client for place, client in enumerate(clients) if place in places]

    def config(self, exchange: int, client: int) -> Mapping[str, Any]:
        return {**super().config(exchange, client), MULTIPLIER: self._multiplier, AMPLIFIED: self._amplified}

    def largest_noise(self) -> float:
        """No bound: each step is clipped, so that a long one does no more than a short one."""
        return math.inf

    def mean_step(self, round_: int, updates: list[ClientUpdate]) -> np.ndarray:
        if self._paid is not None and not self._paid.left:
            raise BudgetExceeded(
                f"round {round_}: the budget is spent in the {self.task.rounds} rounds that the noise is calibrated "
                "for; start a run with more rounds"
            )
        self._server_noise.check(updates)
        if self._paid is None:
            mechanism = line_mechanism(self.task, self._multiplier, self._amplified)
            self._paid = mechanism.charge(run_entry(self.task, self._multiplier, self._amplified), self.ledger)
        self._clips.append(self._clip)
        steps = [self.architecture.flatten(update.arrays).astype(np.float64) - self.flat for update in updates]
        steps = [step * self._scales for step in steps]
        lengths = [float(np.linalg.norm(step)) for step in steps]
        total = np.zeros(self.architecture.size)
        for step, length in zip(steps, lengths, strict=True):
            total += self._bounded(step, length)
        if self._settings.adaptive_clip:
            return self._noised_with_clip(round_, self._paid, total, lengths) / self.sample_size
        return self._scales * self._paid.draw(total, self._noise("updates", round_)) / self.sample_size

    def _bounded(self, step: np.ndarray, length: float) -> np.ndarray:
        """An update of at most the length that the noise is made for; see `dpforest.mechanisms.vectors`."""
        if self._settings.update == "unit":
            return step / length if length > 0 else step
        return step if length <= self._clip else step * (self._clip / length)

    def round_facts(self) -> dict[str, Any]:
        return {"clip": self._clips[-1]} if self._clips else {}

    def report(self) -> dict[str, Any]:
        return {
            **super().report(),
            "noise_multiplier": self._multiplier,
            "amplified_by_sampling": self._amplified,
            "expected_clients_a_round": self.sample_size,
            "clip": self._clip,
            "step_length": self.step_length,
            "server_ledger": self.ledger.to_dict(),
        }

    def _calibrate(self) -> tuple[float, bool]:
        """The noise multiplier, and whether the accounting uses that who takes part is secret."""

        def calibrated(amplified: bool) -> float:
            return noise_multiplier(
                self.task.budget, lambda z: [run_entry(self.task, z, amplified)], self._settings.accountant
            )

        if self._settings.sampling == "poisson" or self.sample_size == self.task.clients:
            return calibrated(True), self.sample_size < self.task.clients
        # The bound for samples of fixed size may be worse than none.
        plain = calibrated(False)
        try:
            sampled = calibrated(True)
        except DPForestError:
            return plain, False
        return (sampled, True) if sampled < plain else (plain, False)

    def _noised_with_clip(self, round_: int, paid: Paid, total: np.ndarray, lengths: list[float]) -> np.ndarray:
        """The noised sum; moves the clip by Andrew et al. 2021, algorithm 1.

        Each client adds 1/2 or -1/2 to a count, by whether its update is within the clip. Replacing a client moves the
        count by 1 at most, and adding it by 1/2. The count and the sum are parts of one release of the round.
        """
        count = np.array([sum(0.5 if length <= self._clip else -0.5 for length in lengths)])
        # Half a clip to the count: 1/2, or 1 where a client is replaced.
        updates, within_clip = (
            round_mechanism(self.task, self._multiplier, self._amplified, moved) for moved in (self._clip, 0.5)
        )
        noised, noised_count = paid.draw_parts(
            [
                (updates.part(1 - _COUNT_SHARE), total, self._noise("updates", round_)),
                (within_clip.part(_COUNT_SHARE), count, self._noise("count", round_)),
            ]
        )
        quantile = float(np.clip(noised_count[0] / self.sample_size + 0.5, 0, 1))
        off = quantile - self._settings.target_quantile
        moved = math.log(self._clip) - self._settings.clip_learning_rate * off
        self._clip = math.exp(min(max(moved, math.log(_SMALLEST_CLIP)), math.log(_LARGEST_CLIP)))
        return noised

    def _noise(self, purpose: str, round_: int) -> Noise:
        return self._server_noise.source(2, round_, ("sampling", "updates", "count").index(purpose))
