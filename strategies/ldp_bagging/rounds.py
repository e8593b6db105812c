"""What a client spends in each round of the tight setting, and on which rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dpforest.forest import Limits
from dpforest.growers import ResolvedSettings, planned_entries, resolve
from dpforest.growers.budget import leaf_epsilon
from dpforest.ledger import ALL_ROWS, Entry, rows_slice
from dpforest.schema import Schema
from strategies.forests import grown_work
from strategies.ldp_bagging.settings import LdpBaggingSettings
from strategies.method import Task, Work
from strategies.row_parts import inside


@dataclass(frozen=True)
class RoundPlan:
    """Budget of every round that a client takes part in.

    Parameters
    ----------
    epsilon : float
        Of a round.
    rounds : int
        How many a client takes part in.
    disjoint : bool
        Whether every round has rows of its own.
    resolved : ResolvedSettings
        How its tree grows.
    """

    epsilon: float
    rounds: int
    disjoint: bool
    resolved: ResolvedSettings

    def rows(self, number: int) -> str:
        """The ledger's name of the rows that round ``number`` (from 1) sees."""
        return rows_slice(f"{self.rounds} rounds", number - 1) if self.disjoint else ALL_ROWS

    def prefix(self, number: int) -> str:
        """Before the ledger's words for what round ``number`` (from 1) releases."""
        return f"round {number}: "

    def round_entries(self, number: int, schema: Schema) -> list[Entry]:
        """What a client releases in round ``number`` (from 1)."""
        return [
            replace(e, what=f"{self.prefix(number)}{e.what}", rows=inside(e.rows, self.rows(number)))
            for e in planned_entries(self.resolved, self.epsilon, schema)
        ]

    def leaf_epsilon(self, schema: Schema) -> float:
        """Epsilon of the class counts of the leaves."""
        return leaf_epsilon(self.resolved, self.epsilon, schema.n_features)

    def entries(self, schema: Schema) -> list[Entry]:
        """What a client will release over all rounds, in one line for what is the same in each.

        A row is in one round only where rounds see disjoint rows, so that they cost together what one of them costs.
        """
        words = "in each round, of its own rows" if self.disjoint else "in each round"
        if self.rounds == 1:
            words = "in one round"
        times = 1 if self.disjoint else self.rounds
        return [
            replace(e, what=f"{words}: {e.what}", rows=inside(e.rows, self.rows(1)), times=times * e.times)
            for e in planned_entries(self.resolved, self.epsilon, schema)
        ]


def plan_rounds(task: Task[LdpBaggingSettings]) -> RoundPlan:
    """Budgets of all rounds; together they cost what the task's budget says."""
    settings = task.settings
    rounds = 1 if settings.round_budget == "turns" else task.rounds
    disjoint = settings.round_budget == "disjoint" and rounds > 1
    epsilon = task.budget.epsilon if disjoint else task.budget.epsilon / rounds
    rows = settings.public_number_of_rows(task.schema)
    if disjoint:
        rows = max(1, rows // rounds)
    return RoundPlan(epsilon, rounds, disjoint, resolve(settings.grower, epsilon, rows))


def work(task: Task[LdpBaggingSettings]) -> Work:
    """The tree of a round."""
    settings = task.settings
    if settings.accounting == "published":
        return Work(nodes=Limits.complete(1, int(settings.depth)).nodes)
    return grown_work(plan_rounds(task).resolved, task.schema)
