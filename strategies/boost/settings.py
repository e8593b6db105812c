"""Settings of federated boosting, and what both sides derive from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from dpforest.boosting import BoostPlan, BoostSettings, make_plan
from dpforest.boosting.settings import MAX_DEPTH
from dpforest.errors import DPForestError
from dpforest.forest import Limits
from dpforest.guarantee import NO_SERVER, Trust
from dpforest.settings import FromZero, Says
from strategies.method import Task, Work
from strategies.secure_aggregation import Terms
from strategies.secure_aggregation.noise_share import noise_tail
from strategies.style import Style

# Chance that the noise of any client and round exceeds what fits a secure sum; the client then drops out of the round.
# It adds to delta, so it must be far below any.
_TAIL = 1e-30
# More leaves than any run has, for that chance.
_MOST_LEAVES = 2**14
# How many times the public number of records a client may have before its sums are cut off.
_ROOM = 8
_FALLBACK_ROWS = 10_000


@dataclass(frozen=True)
class FederatedBoostSettings(BoostSettings):
    """How trees are boosted (see `BoostSettings`), and who adds the noise.

    Parameters
    ----------
    noise
        Each client adds all the noise that its own sums need, and nobody is trusted; or each adds a share, and secure
        aggregation shows the server nothing but the sum.
    dropouts
        Clients of a distributed sum that may be missing (``min_clients`` is for local noise).
    colluders
        Clients of a distributed sum that may tell the server all they know.
    evaluate_every
        Rounds between evaluations of the model; 0: only the finished one.
    """

    noise: Annotated[Literal["local", "distributed"], Says("be local or distributed")] = "local"
    dropouts: FromZero = 0
    colluders: FromZero = 0
    evaluate_every: FromZero = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.noise == "local" and (self.dropouts or self.colluders):
            raise DPForestError("dropouts and colluders only matter for noise=distributed: leave them at 0")

    @property
    def is_distributed(self) -> bool:
        """Whether only sums over clients are protected and seen."""
        return self.noise == "distributed"


def style(settings: Mapping[str, Any]) -> Style:
    """How figures show it; with secure aggregation, as a method of its own."""
    return Style("#882255", "^") if settings.get("noise") == "distributed" else Style("#D55E00")


def trust(settings: FederatedBoostSettings) -> Trust:
    """Who must be trusted for the guarantee."""
    if not settings.is_distributed:
        return NO_SERVER
    return Trust(
        "for sums over clients by secure aggregation",
        "the server follows the protocol (it may look at all it gets), "
        f"at most {settings.colluders} clients collude with it (one that takes its own noise off what is published "
        f"counts as such), at most {settings.dropouts} drop out of a sum",
    )


def plan_of(task: Task[FederatedBoostSettings]) -> BoostPlan:
    """What every client does and pays.

    Raises
    ------
    DPForestError
        The budget or the number of clients does not fit the settings.
    """
    settings = task.settings
    shares = 1
    if settings.is_distributed:
        if task.clients < 2:
            raise DPForestError(
                f"noise=distributed with {task.clients} client would show its sums with a share of the noise: "
                "use more clients, or noise=local"
            )
        shares = max(1, task.clients - settings.dropouts - settings.colluders)
    return make_plan(settings, task.budget, task.rounds, task.schema, task.clients, shares)


@dataclass(frozen=True)
class SecureTerms:
    """What a secure sum needs.

    Parameters
    ----------
    terms : Terms
    largest_sum : int
        What a client's sums are cut off at, so that they fit with their noise.
    """

    terms: Terms
    largest_sum: int


def secure_terms(task: Task[FederatedBoostSettings], plan: BoostPlan) -> SecureTerms:
    """Terms of the secure sums of a run: one for the histograms and one a round.

    Raises
    ------
    DPForestError
        There are too few clients for so many dropouts and colluders, or too much noise for 64 bits.
    """
    settings = task.settings
    outputs = task.schema.n_outputs + 1
    draws = task.clients * outputs * plan.trees * _MOST_LEAVES
    tail = noise_tail(max(_share(plan.marginals), _share(plan.sums)), draws, _TAIL)
    needed = tail + _ROOM * (task.schema.rows or _FALLBACK_ROWS) * max(plan.unit, plan.marginal_unit)
    # In 32 bits if that is enough: the masked vectors then take half the bytes.
    bits = 31 if needed * task.clients < 2**31 else 62
    if needed * task.clients >= 2**62:
        raise DPForestError(
            f"sums of up to {needed:.3g} of each of {task.clients} clients do not fit 64 bits: "
            "choose an epsilon that is less extreme"
        )
    largest = (2**bits - 1) // max(1, task.clients)
    terms = Terms(task.clients, task.rounds + 1, largest, settings.dropouts, settings.colluders)
    return SecureTerms(terms, largest - tail)


def _share(mechanism: object) -> float:
    return float(getattr(mechanism, "share", 0.0))


def work(task: Task) -> Work:
    """The trees of one round, whose depth the server's message says."""
    return Work(nodes=Limits.complete(plan_of(task).trees_per_round, MAX_DEPTH).nodes)
