"""Settings of federated boosting, and what both sides derive from them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpforest.boosting import BoostPlan, BoostSettings, make_plan
from dpforest.boosting.columns import Columns
from dpforest.boosting.linear import basis_size
from dpforest.boosting.settings import MAX_DEPTH
from dpforest.errors import DPForestError
from dpforest.forest import Limits
from dpforest.guarantee import NO_SERVER, RECORD_UNIT
from dpforest.settings import FromZero
from strategies.method import Protection, Task, Work
from strategies.secure_aggregation import Terms
from strategies.secure_aggregation.sharing import SharingSettings, noise_shares, shared_trust
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
class FederatedBoostSettings(BoostSettings, SharingSettings):
    """How trees are boosted (see `BoostSettings`), and with whom the noise is shared (see `SharingSettings`).

    Parameters
    ----------
    evaluate_every
        Rounds between evaluations of the model; 0: only the finished one.
    """

    evaluate_every: FromZero = 0


def style(settings: Mapping[str, Any]) -> Style:
    """How figures show it; with secure aggregation, as a method of its own."""
    return Style("#882255", "^") if settings.get("trust") == "shared" else Style("#D55E00")


def protections(settings: FederatedBoostSettings) -> tuple[Protection, ...]:
    """Records, under noise of each client, or of all together."""
    return (
        Protection(RECORD_UNIT, NO_SERVER, True),
        Protection(RECORD_UNIT, shared_trust(settings)),
    )


def plan_of(task: Task[FederatedBoostSettings]) -> BoostPlan:
    """What every client does and pays.

    Raises
    ------
    DPForestError
        The budget or the number of clients does not fit the settings.
    """
    return make_plan(task.settings, task.budget, task.rounds, task.schema, task.clients, noise_shares(task))


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
    """Terms of the secure sums of a run: one for the histograms, those for moments, and one a round.

    Raises
    ------
    DPForestError
        There are too few clients for so many dropouts and colluders, or too much noise for 64 bits.
    """
    settings = task.settings
    outputs = task.schema.n_outputs + 1
    # The linear part is small against so many leaves, but where a table has very many columns.
    linear = plan.rounds * basis_size(Columns(task.schema)) * outputs
    draws = task.clients * (outputs * plan.trees * _MOST_LEAVES + linear)
    mechanisms = [plan.marginals, plan.sums, *([plan.linear.moments] if plan.linear else [])]
    tail = math.ceil(max(mechanism.tail(_TAIL / draws) for mechanism in mechanisms))
    of_linear = (plan.linear.unit, plan.linear.moment_unit) if plan.linear else ()
    largest_part = max(plan.unit, plan.marginal_unit, *of_linear)
    needed = tail + _ROOM * (task.schema.rows or _FALLBACK_ROWS) * largest_part
    # In 32 bits if that is enough: the masked vectors then take half the bytes.
    bits = 31 if needed * task.clients < 2**31 else 62
    if needed * task.clients >= 2**62:
        raise DPForestError(
            f"sums of up to {needed:.3g} of each of {task.clients} clients do not fit 64 bits: "
            "choose an epsilon that is less extreme"
        )
    largest = (2**bits - 1) // max(1, task.clients)
    terms = Terms(task.clients, task.rounds + 1 + plan.moment_rounds, largest, settings.dropouts, settings.colluders)
    return SecureTerms(terms, largest - tail)


def work(task: Task) -> Work:
    """The trees of one round, whose depth the server's message says."""
    return Work(nodes=Limits.complete(plan_of(task).trees_per_round, MAX_DEPTH).nodes)
