"""How far two sets of importances agree: what privacy noise costs in explanation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.stats import rankdata

from dpforest.errors import DPForestError


@dataclass(frozen=True)
class Stability:
    """Agreement of two importance vectors.

    Parameters
    ----------
    spearman : float
        Correlation of the ranks of all features, -1 to 1; NaN where one vector has no order.
    overlap : float
        Share of the ``top`` most important features that both have in common, 0 to 1.
    top : int
    """

    spearman: float
    overlap: float
    top: int


def compare_importances(first: Sequence[float], second: Sequence[float], top: int = 5) -> Stability:
    """Agreement of two importance vectors over the same features.

    Raises
    ------
    DPForestError
        They differ in length, or ``top`` is not between 1 and that length.
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if a.ndim != 1 or a.shape != b.shape:
        raise DPForestError(f"importances have shapes {a.shape} and {b.shape}; they must be of the same features")
    if not 1 <= top <= len(a):
        raise DPForestError(f"top {top} must be from 1 to the number of features, {len(a)}")
    ranks = rankdata(a), rankdata(b)
    ordered = ranks[0].std() > 0 and ranks[1].std() > 0
    spearman = float(np.corrcoef(*ranks)[0, 1]) if ordered else np.nan
    return Stability(spearman, len(_top(a, top) & _top(b, top)) / top, top)


def mean_stability(importances: Sequence[Sequence[float]], top: int = 5) -> Stability:
    """Mean agreement of all pairs of several runs.

    Raises
    ------
    DPForestError
        There are fewer than two.
    """
    if len(importances) < 2:
        raise DPForestError("stability needs the importances of at least two runs")
    pairs = [compare_importances(a, b, top) for a, b in combinations(importances, 2)]
    ordered = [pair.spearman for pair in pairs if not np.isnan(pair.spearman)]
    return Stability(
        float(np.mean(ordered)) if ordered else np.nan, float(np.mean([pair.overlap for pair in pairs])), top
    )


def _top(importances: np.ndarray, top: int) -> set[int]:
    """The most important features; the earlier of equals."""
    return set(np.argsort(-importances, kind="stable")[:top].tolist())
