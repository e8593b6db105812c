"""What client-level DP-FedAvg releases about a client."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from baselines.dp_fedavg.settings import DpFedAvgSettings
from dpforest.errors import DPForestError
from dpforest.guarantee import CLIENT_UNIT, NO_SERVER, Trust, TrustModel
from dpforest.ledger import Entry
from dpforest.mechanisms import DiscreteGaussianSums, GaussianSums, clipped_vector, scaled_sums, unit_vector
from strategies.client_level import client_mu
from strategies.method import Protection, Task
from strategies.secure_aggregation.sharing import SecureTerms, noise_shares, shared_protection, terms_for

TRUST = Trust(
    "server trusted", "it sees every update before the noise and keeps secret who takes part", TrustModel.CENTRAL
)

# What the bound of an update becomes in whole numbers, at least.
_LEAST_UNITS = 1 << 14


def protections(settings: DpFedAvgSettings) -> tuple[Protection, ...]:
    """A client's whole data, under the noise of a trusted server, of each client, or of all together."""
    return (
        Protection(CLIENT_UNIT, TRUST),
        shared_protection(CLIENT_UNIT, settings),
        Protection(CLIENT_UNIT, NO_SERVER, True),
    )


@dataclass(frozen=True)
class VectorPlan:
    """How a client releases its updates where no server is trusted; the proof is that of `dpforest.mechanisms.vectors`.

    Parameters
    ----------
    units : int
        What the largest length of an update becomes in whole numbers.
    sums : DiscreteGaussianSums
        Of one round.
    entry : Entry
        Its ledger line.
    """

    units: int
    sums: DiscreteGaussianSums
    entry: Entry

    def vector(self, step: np.ndarray, settings: DpFedAvgSettings) -> np.ndarray:
        """A client's update in whole numbers, int64 in the shape of ``step``."""
        if settings.update == "unit":
            return unit_vector(step, self.units)
        return clipped_vector(step, settings.clip, self.units**2)


def vector_plan(task: Task[DpFedAvgSettings]) -> VectorPlan:
    """What every client does and pays in a round where no server is trusted.

    All clients take part in every round, so that rounds of the same cost compose exactly.

    Raises
    ------
    DPForestError
        The settings need a trusted server, or so much or so little noise does not fit whole numbers.
    """
    settings = task.settings
    if settings.clients_per_round is not None or settings.adaptive_clip:
        raise DPForestError(
            "clients_per_round and adaptive_clip need a server that keeps secret who takes part and counts in clear: "
            "leave them out, or use privacy.trust=central"
        )
    mu = client_mu(task.budget) / math.sqrt(task.rounds)
    units, sums = scaled_sums(_LEAST_UNITS, lambda unit: unit**2, mu, noise_shares(task))
    bound = "of length 1" if settings.update == "unit" else "clipped to one length"
    return VectorPlan(units, sums, sums.entry(f"noised sum of updates, each {bound} and in whole numbers"))


def secure_terms(task: Task[DpFedAvgSettings], plan: VectorPlan) -> SecureTerms:
    """Terms of the secure sums of a run, one a round."""
    draws = task.clients * task.rounds * _size(task)
    return terms_for(task, task.rounds, [plan.sums], draws, plan.units)


def _size(task: Task[DpFedAvgSettings]) -> int:
    """Weights of the network."""
    return task.settings.architecture(task.schema).size


def round_mechanism(task: Task[DpFedAvgSettings], multiplier: float, amplified: bool, clip: float) -> GaussianSums:
    """Of one round at a clip; see `run_entry`."""
    settings = task.settings
    probability = settings.sample_size(task.clients) / task.clients
    amplified = amplified and probability < 1
    fixed = amplified and settings.sampling == "fixed"
    moved = 2 if fixed else 1  # clips
    mu = moved / multiplier if multiplier else math.inf
    return GaussianSums(moved * clip, mu, probability if amplified else 1.0, fixed)


def line_mechanism(task: Task[DpFedAvgSettings], multiplier: float, amplified: bool) -> GaussianSums:
    """Of one round in the ledger; an adaptive clip is another in every round, so that the line is in units of it."""
    settings = task.settings
    moving = settings.adaptive_clip or settings.update == "unit"
    return round_mechanism(task, multiplier, amplified, 1.0 if moving else settings.clip)


def run_entry(task: Task[DpFedAvgSettings], multiplier: float, amplified: bool) -> Entry:
    """What all rounds of a run cost every client, sampled or not.

    One client moves the sum of the clipped updates by ``clip`` at most, so with noise of ``multiplier * clip`` a
    round in which it takes part costs mu = 1 / multiplier. Who takes part is secret, which lowers the cost:

    * Poisson, with probability q = m / clients: the sampled Gaussian mechanism.
    * A sample of m of the clients, without replacement: without its client a sample holds another one instead, so
      that the sum moves by up to 2 clip. The bound of Wang et al. 2019, theorem 27, for replaced units holds with
      mu = 2 / multiplier.

    Parameters
    ----------
    task : Task
    multiplier : float
    amplified : bool
        False charges mu = 1 / multiplier in every round, as if everybody took part: always valid, and for few clients
        cheaper than the bound for samples without replacement.
    """
    settings = task.settings
    return line_mechanism(task, multiplier, amplified).entry(
        "noised mean of clipped updates"
        + (" and noised count behind the clip, in units of each round's clip" if settings.adaptive_clip else ""),
        times=task.rounds,
        note="all rounds of the run, paid in advance: a client that is not drawn is protected by the draw. The server "
        "draws the noise; its own records of who was asked and answered, and their bytes, are not covered and must "
        "stay with it",
    )
