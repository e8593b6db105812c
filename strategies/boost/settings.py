"""Settings of federated boosting, and what both sides derive from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpforest.boosting import BoostPlan, BoostSettings, make_plan
from dpforest.boosting.columns import Columns
from dpforest.boosting.linear import basis_size
from dpforest.boosting.settings import MAX_DEPTH
from dpforest.forest import Limits
from dpforest.guarantee import NO_SERVER, RECORD_UNIT
from dpforest.settings import FromZero
from strategies.method import Protection, Task, Work
from strategies.secure_aggregation.sharing import SecureTerms, SharingSettings, noise_shares, shared_trust, terms_for
from strategies.style import Style

# More leaves than any run has, for the chance that noise exceeds what fits a secure sum.
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


def secure_terms(task: Task[FederatedBoostSettings], plan: BoostPlan) -> SecureTerms:
    """Terms of the secure sums of a run: one for the histograms, those for moments, and one a round.

    Raises
    ------
    DPForestError
        There are too few clients for so many dropouts and colluders, or too much noise for 64 bits.
    """
    # The linear part is small against so many leaves, but where a table has very many columns.
    outputs, linear = task.schema.n_outputs + 1, plan.rounds * basis_size(Columns(task.schema))
    draws = task.clients * outputs * (plan.trees * _MOST_LEAVES + linear)
    of_linear = (plan.linear.unit, plan.linear.moment_unit) if plan.linear else ()
    largest = _ROOM * (task.schema.rows or _FALLBACK_ROWS) * max(plan.unit, plan.marginal_unit, *of_linear)
    mechanisms = [plan.marginals, plan.sums, *([plan.linear.moments] if plan.linear else [])]
    return terms_for(task, task.rounds + 1 + plan.moment_rounds, mechanisms, draws, largest)


def work(task: Task) -> Work:
    """The trees of one round, whose depth the server's message says."""
    return Work(nodes=Limits.complete(plan_of(task).trees_per_round, MAX_DEPTH).nodes)
