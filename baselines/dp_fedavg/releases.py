"""What client-level DP-FedAvg releases about a client."""

from __future__ import annotations

import math

from baselines.dp_fedavg.settings import DpFedAvgSettings
from dpforest.guarantee import Trust
from dpforest.ledger import Entry
from strategies.method import Task

TRUST = Trust("server trusted", "it sees every update before the noise and keeps secret who takes part")


def run_entry(task: Task, multiplier: float, amplified: bool) -> Entry:
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
    settings: DpFedAvgSettings = task.settings
    probability = settings.sample_size(task.clients) / task.clients
    amplified = amplified and probability < 1
    fixed = amplified and settings.sampling == "fixed"
    moved = 2 if fixed else 1  # clips
    mu = moved / multiplier if multiplier else math.inf
    clip = 0.0 if settings.adaptive_clip else settings.clip  # an adaptive one is another in every round
    return Entry(
        "noised mean of clipped updates" + (" and noised count behind the clip" if settings.adaptive_clip else ""),
        "Gaussian, drawn by the server",
        mu=mu,
        times=task.rounds,
        sampling=probability if amplified else 1.0,
        fixed_size=fixed,
        note="all rounds of the run, paid in advance: a client that is not drawn is protected by the draw. The "
        "server's own records of who was asked and answered, and their bytes, are not covered and must stay with it",
        sensitivity=moved * clip,
        scale=multiplier * clip,
    )
