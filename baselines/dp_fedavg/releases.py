"""What client-level DP-FedAvg releases about a client."""

from __future__ import annotations

import math

from baselines.dp_fedavg.settings import DpFedAvgSettings
from dpforest.guarantee import Trust, TrustModel
from dpforest.ledger import Entry
from dpforest.mechanisms import GaussianSums
from strategies.method import Task

TRUST = Trust(
    "server trusted", "it sees every update before the noise and keeps secret who takes part", TrustModel.CENTRAL
)


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
    return round_mechanism(task, multiplier, amplified, 1.0 if settings.adaptive_clip else settings.clip)


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
