"""How far two sets of importances agree: what privacy noise costs in explanation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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

    Parameters
    ----------
    first, second : sequence of float
        Importances of the same features in the same order.
    top : int
        How many features count as the most important ones.

    Returns
    -------
    Stability
        Of this pair.

    Raises
    ------
    DPForestError
        They differ in length, or ``top`` is not between 1 and that length.

    Examples
    --------
    >>> compare_importances([0.5, 0.3, 0.2], [0.4, 0.4, 0.2], top=2).overlap
    1.0
    """
    return mean_stability([first, second], top)


def mean_stability(importances: Sequence[Sequence[float]], top: int = 5) -> Stability:
    """Mean agreement of all pairs of several runs; pairs in which one has no order count for the overlap only.

    Parameters
    ----------
    importances : sequence of sequences of float
        One vector a run, all of the same features.
    top : int
        How many features count as the most important ones.

    Returns
    -------
    Stability
        Means over all pairs.

    Raises
    ------
    DPForestError
        There are fewer than two, they differ in length, or ``top`` is not between 1 and that length.

    Examples
    --------
    >>> round(mean_stability([[0.5, 0.3, 0.2], [0.6, 0.3, 0.1], [0.1, 0.3, 0.6]], top=1).overlap, 2)
    0.33
    """
    if len(importances) < 2:
        raise DPForestError("stability needs the importances of at least two runs")
    vectors = [np.asarray(vector, dtype=np.float64) for vector in importances]
    first = vectors[0]
    for other in vectors:
        if other.ndim != 1 or other.shape != first.shape:
            raise DPForestError(
                f"importances have shapes {first.shape} and {other.shape}; they must be of the same features"
            )
    if not 1 <= top <= len(first):
        raise DPForestError(f"top {top} must be from 1 to the number of features, {len(first)}")
    ranks = rankdata(vectors, axis=1)
    ranks = ranks[ranks.std(axis=1) > 0]
    spearman = float(np.corrcoef(ranks)[np.triu_indices(len(ranks), 1)].mean()) if len(ranks) > 1 else np.nan
    # The most important features; the earlier of equals.
    best = np.argsort(-np.array(vectors), axis=1, kind="stable")[:, :top]
    among = np.zeros((len(vectors), len(first)))
    np.put_along_axis(among, best, 1.0, axis=1)
    common = (among @ among.T)[np.triu_indices(len(vectors), 1)]
    return Stability(spearman, float(common.mean()) / top, top)
