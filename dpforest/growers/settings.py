"""Settings of the growers, and the fixed public rule that fills in what is left on ``auto``."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Annotated, Literal

from dpforest.settings import Auto, InnerShare, Range, Says, Settings

MAX_DEPTH = 20
MAX_BINS = 255
# Beyond this, sampling error outweighs noise and the rule stays as it is.
_LARGEST_EPSILON = 100.0

Bins = Annotated[int, Range(2, MAX_BINS)]
Depth = Annotated[int, Range(1, MAX_DEPTH)]
SharedBelow = Annotated[int, Range(0, MAX_DEPTH)]
Trees = Annotated[int, Range(1, 1000)]
Growth = Annotated[float, Range(0, 10, above=True)]
LeafShare = Annotated[InnerShare, Says("lie between 0 and 1")]


@dataclass(frozen=True)
class GrowerSettings(Settings):
    """How a client grows its trees.

    Parameters
    ----------
    accounting
        ``tight``: what is asked at one depth costs its epsilon once, since the nodes of a depth hold disjoint
        rows. ``published``: every node is charged as if all nodes held the same rows (Favero et al. 2024, theorem 1).
    selection
        How a node chooses its split: one private draw among all candidates (``permute_and_flip``, ``exponential``), or
        the smallest Gini of noised left-child counts (Favero et al. 2024, algorithm 3).
    candidates
        Public thresholds of the schema's grid, or thresholds drawn at random inside public bounds in every node.
    bins
        Cells of the grid a feature.
    thresholds
        Random thresholds a feature and node (``candidates=random``).
    gini
        For ``noisy_counts``: plain mean of the children's Ginis (the paper's text), or weighted by their counts (the
        authors' code).
    depth
        Levels of splits; ``auto`` follows from the budget and the public number of rows.
    shared_below
        Depth from which all nodes below one node share a split a level, which adds up their scores; null: never.
    depth_growth
        Budget of a depth over that of the one above it.
    leaf_share
        Share of the budget for the leaf counts.
    trees
        Trees a client.
    tree_rows
        Several trees see all rows and share the budget, or see disjoint rows and each have all of it.
    smoothing
        From noised leaf counts to probabilities: clip and normalise, add one record spread over the classes,
        or soft-threshold and shrink towards the parent.
    voting
        Leaves hold probabilities, or one whole vote for their largest class.
    """

    accounting: Literal["tight", "published"] = "tight"
    selection: Literal["permute_and_flip", "exponential", "noisy_counts"] = "permute_and_flip"
    candidates: Literal["grid", "random"] = "grid"
    bins: Bins = 32
    thresholds: Annotated[int, Range(1, MAX_BINS)] = 1
    gini: Literal["mean", "weighted"] = "mean"
    depth: Depth | Auto = "auto"
    shared_below: SharedBelow | Auto | None = "auto"
    depth_growth: Annotated[Growth | Auto, Says("lie in (0, 10] or be 'auto'")] = "auto"
    leaf_share: LeafShare = 0.4
    trees: Trees | Auto = "auto"
    tree_rows: Literal["split_budget", "disjoint"] = "disjoint"
    smoothing: Literal["auto", "none", "laplace", "shrink"] = "auto"
    voting: Literal["soft", "hard"] = "soft"


@dataclass(frozen=True)
class ResolvedSettings(GrowerSettings):
    """Settings with nothing left on ``auto``."""

    depth: int = 1
    shared_below: int | None = None
    depth_growth: float = 1.0
    trees: int = 1
    smoothing: Literal["none", "laplace", "shrink"] = "laplace"

    def groups_at(self, level: int) -> int:
        """Groups of nodes of a level (from 0) that share a split."""
        return 1 << (level if self.shared_below is None else min(level, self.shared_below))

    def scores(self, n_features: int) -> int:
        """Candidate splits among which all trees together choose."""
        thresholds = self.bins - 1 if self.candidates == "grid" else self.thresholds
        return self.trees * n_features * thresholds * sum(self.groups_at(level) for level in range(self.depth))


def resolve(settings: GrowerSettings, epsilon: float, rows: int) -> ResolvedSettings:
    """Fill in ``auto`` from public numbers: the budget and the order of magnitude of the rows.

    Noise decides how much structure a tree can find, so its depth and its number of independent splits a level follow
    from ``rows * epsilon / trees``. Several trees average out both noise and chance, but each sees fewer rows: their
    number follows from ``rows ** 0.25 * epsilon ** 0.4``, for the same product of the two is better kept in one tree
    where epsilon is small.
    Fitted on validation rows of HuGaDB (whole, a tenth and a hundredth of its rows; epsilon 0.1 to 10) and of the
    watch data (epsilon 0.1 to 100), checked on WISDM; it never sees the true row count.

    Parameters
    ----------
    settings : GrowerSettings
        As given.
    epsilon : float
        Total budget; ``inf`` without privacy.
    rows : int
        Public order of magnitude of one client's rows, or a noised count that was paid for.

    Returns
    -------
    ResolvedSettings
        The same with numbers in the place of ``auto``.

    Examples
    --------
    >>> resolve(GrowerSettings(trees=4), epsilon=1.0, rows=10_000).trees
    4
    """
    epsilon = min(epsilon, _LARGEST_EPSILON)
    fitted = max(1, min(8, round(math.pow(rows, 0.25) * math.pow(epsilon, 0.4) / 6.5)))
    trees = fitted if settings.trees == "auto" else settings.trees
    doublings = math.log2(max(rows * epsilon / trees, 1))
    noisy_counts = settings.selection == "noisy_counts"
    depth = settings.depth
    if depth == "auto":
        depth = 5 if noisy_counts else max(3, min(13, round(1.2 * doublings - 5)))
    shared = settings.shared_below
    if shared == "auto":
        # Noised counts are asked node by node; sharing a split is a matter of adding up scores.
        shared = None if noisy_counts else max(0, min(depth, round(0.7 * (doublings - 12))))
    growth = 1.2 if settings.depth_growth == "auto" else settings.depth_growth
    smoothing = "laplace" if settings.smoothing == "auto" else settings.smoothing
    plain = {field.name: getattr(settings, field.name) for field in fields(GrowerSettings)}
    resolved = plain | {
        "depth": depth,
        "shared_below": shared,
        "depth_growth": growth,
        "trees": trees,
        "smoothing": smoothing,
    }
    return ResolvedSettings(**resolved)
