"""What a client spends in each round, and on which rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from dpforest.growers import ResolvedSettings, planned_entries, resolve
from dpforest.growers.regression import (
    TARGET_UNIT,
    ResolvedRegression,
    planned_regression_entries,
    resolve_regression,
)
from dpforest.ledger import ALL_ROWS, Entry, rows_slice
from dpforest.mechanisms import DiscreteLaplaceCounts
from strategies.fext.settings import DEEPEST, FextSettings
from strategies.forests import grown_work, own_nodes
from strategies.method import Task, Work
from strategies.row_parts import inside

SCORES_WHAT = "scores of all trees"


@dataclass(frozen=True)
class RoundPlan:
    """Budget of one round of the tight setting.

    Parameters
    ----------
    round : int
        From 1.
    trees : float
        Epsilon for trees.
    scores : float
        Epsilon for the scores of the round's trees; 0 where clients give none.
    rows : str
        ``ALL_ROWS``, or the slice of rows that only this round sees.
    resolved : ResolvedSettings or ResolvedRegression
        How its trees grow.
    """

    round: int
    trees: float
    scores: float
    rows: str
    resolved: ResolvedSettings | ResolvedRegression

    @property
    def prefix(self) -> str:
        """Before the ledger's words for what the round releases."""
        return f"round {self.round}: "

    def exchange_entries(self, task: Task, scoring: bool) -> list[Entry]:
        """What a client releases in one of the round's exchanges: its trees, or their scores."""
        return [
            replace(entry, what=f"{self.prefix}{entry.what}")
            for entry in self.entries(task)
            if (entry.what == SCORES_WHAT) == scoring
        ]

    def entries(self, task: Task) -> list[Entry]:
        """What a client will release in this round."""
        if isinstance(self.resolved, ResolvedRegression):
            entries = planned_regression_entries(self.resolved, self.trees, task.schema)
        else:
            entries = planned_entries(self.resolved, self.trees, task.schema)
        if self.scores:
            most = task.clients * size_a_client(self.resolved)[0]
            mechanism = score_mechanism(self.scores, most, task.schema.is_classification)
            entries.append(mechanism.entry(SCORES_WHAT))
        return [replace(entry, rows=inside(entry.rows, self.rows)) for entry in entries]


def planned_releases(plans: list[RoundPlan], task: Task) -> list[Entry]:
    """What a client will release over all rounds, in one line for what is the same in each.

    Rounds about disjoint slices cost together what one of them costs.
    """
    rounds = len(plans)
    if rounds == 1:
        return plans[0].entries(task)
    if plans[0].rows != ALL_ROWS:
        return [replace(e, what=f"in each round, of its own rows: {e.what}") for e in plans[0].entries(task)]
    return [replace(e, what=f"in each round: {e.what}", times=rounds * e.times) for e in plans[0].entries(task)]


def plan_rounds(task: Task[FextSettings]) -> list[RoundPlan]:
    """Budgets of all rounds; together they cost what the task's budget says."""
    settings = task.settings
    rounds = 1 if settings.round_budget == "first_round_only" else task.rounds
    total = task.budget.epsilon
    each = total / rounds if settings.round_budget == "split" else total
    scores = settings.score_share * each if settings.scored_by_clients else 0.0
    trees = each if math.isinf(each) else each - scores
    rows = settings.public_number_of_rows(task.schema)
    disjoint = settings.round_budget == "disjoint" and rounds > 1
    if disjoint:
        rows = max(1, rows // rounds)
    if task.schema.is_classification:
        resolved: ResolvedSettings | ResolvedRegression = resolve(settings.classification, trees, rows)
    else:
        resolved = resolve_regression(settings.regression, trees, rows, task.schema)
    return [
        RoundPlan(
            number + 1,
            trees,
            scores,
            rows_slice(f"{rounds} rounds", number) if disjoint else ALL_ROWS,
            resolved,
        )
        for number in range(rounds)
    ]


def size_a_client(resolved: ResolvedSettings | ResolvedRegression) -> tuple[int, int]:
    """How many trees a client sends a round, and how deep they are."""
    splits = _splits(resolved)
    return splits.trees, splits.depth


def _splits(resolved: ResolvedSettings | ResolvedRegression) -> ResolvedSettings:
    return resolved.splits if isinstance(resolved, ResolvedRegression) else resolved


def score_mechanism(epsilon: float, trees: int, is_classification: bool) -> DiscreteLaplaceCounts:
    """Noise of one client's score sums of ``trees`` trees.

    Proof. Classes: a record adds 1 to the count of rows and at most 1 to the right answers of each tree, so at most
    ``trees + 1`` in L1 norm. Targets: with target and squared errors divided by the range (squared) of the target, a
    record adds at most one TARGET_UNIT to each of: rows, sum of targets, sum of squares, and every tree's sum of
    squared errors.
    """
    sensitivity = trees + 1 if is_classification else (trees + 3) * TARGET_UNIT
    return DiscreteLaplaceCounts(epsilon, sensitivity)


def work(task: Task[FextSettings]) -> Work:
    """The trees of a round; a candidate of others is walked through only, and their sizes have limits of their own."""
    settings = task.settings
    if settings.accounting == "published":
        depth = DEEPEST if settings.depth == "auto" else int(settings.depth)
        return Work(nodes=own_nodes(1, depth, settings.public_number_of_rows(task.schema)))
    return grown_work(_splits(plan_rounds(task)[0].resolved), task.schema)
