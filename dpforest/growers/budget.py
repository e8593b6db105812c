"""How a budget is divided over the releases of one client's trees.

All releases are known before the first row is read: `plan` lists them, so that a budget can be refused in time.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpforest.growers.settings import ResolvedSettings
from dpforest.ledger import ALL_ROWS, rows_slice
from dpforest.ledger.entries import Entry
from dpforest.mechanisms import DiscreteLaplaceCounts, Selection


@dataclass(frozen=True)
class TreePlan:
    """The mechanisms of one tree with their ledger lines.

    ``choices`` has one selection a depth (empty for noisy counts); ``counts`` releases class counts: of the leaves,
    or, for noisy counts, of the root once and of the left children of all candidates once a depth.
    """

    choices: tuple[tuple[Selection, Entry], ...]
    counts: DiscreteLaplaceCounts
    count_entries: tuple[Entry, ...]

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All ledger lines of the tree."""
        return (*(entry for _, entry in self.choices), *self.count_entries)


def plan(
    settings: ResolvedSettings,
    epsilon: float,
    n_features: int,
    score_unit: int,
    *,
    leaf_sensitivity: int = 1,
    leaves_hold: str = "class counts",
) -> list[TreePlan]:
    """Plans of all trees of one client.

    Parameters
    ----------
    settings : ResolvedSettings
    epsilon : float
        Total of all trees.
    n_features : int
    score_unit : int
        What one record changes a candidate's score by at most.
    leaf_sensitivity : int
        What it changes the numbers in the leaves by at most, in L1 norm.
    leaves_hold : str
        These numbers in words.

    Returns
    -------
    list of TreePlan
        One a tree.
    """
    disjoint = settings.tree_rows == "disjoint" and settings.trees > 1
    per_tree = epsilon if disjoint else epsilon / settings.trees
    plans = []
    for tree in range(settings.trees):
        rows = rows_slice(f"{settings.trees} disjoint slices", tree) if disjoint else ALL_ROWS
        name = f"tree {tree + 1}: " if settings.trees > 1 else ""
        if settings.selection == "noisy_counts":
            plans.append(_noisy_counts_plan(settings, per_tree, n_features, rows, name))
        else:
            plans.append(_selection_plan(settings, per_tree, rows, name, score_unit, leaf_sensitivity, leaves_hold))
    return plans


def _noisy_counts_plan(settings: ResolvedSettings, epsilon: float, n_features: int, rows: str, name: str) -> TreePlan:
    depth = settings.depth
    a_depth = n_features * (settings.thresholds if settings.candidates == "random" else settings.bins - 1)
    if settings.accounting == "published":
        # Favero et al. 2024, algorithm 1, line 1: epsilon / (2^d F) a count.
        counts = DiscreteLaplaceCounts(epsilon / (2**depth * a_depth))
        note = "charged as 2^d F queries about the same rows (published accounting)"
        every = 2**depth * a_depth
        return TreePlan((), counts, (counts.entry(f"{name}class counts of all nodes", rows, every, note),))
    counts = DiscreteLaplaceCounts(epsilon / (depth * a_depth + 1))
    entries = [counts.entry(f"{name}class counts of the root", rows)]
    note = "nodes of one depth hold disjoint rows"
    entries += [
        counts.entry(f"{name}class counts left of each candidate, depth {level}", rows, a_depth, note)
        for level in range(depth)
    ]
    return TreePlan((), counts, tuple(entries))


def _selection_plan(
    settings: ResolvedSettings,
    epsilon: float,
    rows: str,
    name: str,
    score_unit: int,
    leaf_sensitivity: int,
    leaves_hold: str,
) -> TreePlan:
    assert settings.selection != "noisy_counts"
    depth = settings.depth
    if settings.accounting == "published":
        a_query = epsilon / 2**depth
        shares = [a_query] * depth
        times = [2**level for level in range(depth)]
        leaf, note = a_query, "charged node by node (published accounting)"
    else:
        growth = [settings.depth_growth**level for level in range(depth)]
        for_splits = (1 - settings.leaf_share) * epsilon
        shares = [for_splits * g / sum(growth) for g in growth]
        times = [1] * depth
        leaf, note = settings.leaf_share * epsilon, "nodes of one depth hold disjoint rows"
    choices = []
    for level in range(depth):
        choice = Selection(shares[level], score_unit, settings.selection)
        choices.append((choice, choice.entry(f"{name}splits of depth {level}", rows, times[level], note)))
    counts = DiscreteLaplaceCounts(leaf, leaf_sensitivity)
    entry = counts.entry(f"{name}{leaves_hold} of the leaves", rows, note="leaves hold disjoint rows")
    return TreePlan(tuple(choices), counts, (entry,))


def leaf_epsilon(settings: ResolvedSettings, epsilon: float, n_features: int) -> float:
    """Epsilon of the counts in the leaves of one tree: what `finish_classifier` needs to know about their noise."""
    return plan(settings, epsilon, n_features, 1)[0].counts.epsilon
