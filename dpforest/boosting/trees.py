"""Trees of random structure: which feature and cut each inner node asks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Structure:
    """Complete trees in breadth-first order.

    Parameters
    ----------
    feature : ndarray of uint16, shape (n_trees, 2 ** depth - 1)
    split : ndarray of uint8, same shape
        Index of the cut of that feature.
    """

    feature: np.ndarray
    split: np.ndarray

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.feature)

    @property
    def n_leaves(self) -> int:
        """Leaves of each tree."""
        return self.feature.shape[1] + 1


def random_structure(
    n_trees: int, depth: int, cuts: np.ndarray, chances: np.ndarray, rng: np.random.Generator
) -> Structure:
    """Draw trees without looking at data.

    Parameters
    ----------
    cuts : ndarray, shape (n_features, n_cuts)
        Non-decreasing; of equal neighbours only the first is used.
    chances : ndarray, shape (n_features,)
        Relative chance of each feature. One that has no cut left inside a node's box is not drawn there; where none
        has, the node repeats a question.
    """
    n_features, n_cuts = cuts.shape
    new = np.ones((n_features, n_cuts), dtype=bool)
    new[:, 1:] = cuts[:, 1:] > cuts[:, :-1]
    # Cut number r of a feature is its r-th different one.
    places = np.argsort(~new, axis=1, kind="stable")
    lower = np.zeros((n_trees, n_features), dtype=np.int64)
    upper = np.broadcast_to(new.sum(axis=1), (n_trees, n_features)).copy()
    levels_feature, levels_split = [], []
    for _ in range(depth):
        nodes = np.arange(len(lower))
        weight = np.where(lower < upper, chances, 0.0)
        empty = weight.sum(axis=1) <= 0
        weight[empty] = chances
        running = np.cumsum(weight, axis=1)
        drawn = rng.random(len(lower)) * running[:, -1]
        feature = np.minimum((running <= drawn[:, None]).sum(axis=1), n_features - 1)
        low, high = lower[nodes, feature], upper[nodes, feature]
        rank = np.minimum(low + (rng.random(len(lower)) * (high - low)).astype(np.int64), n_cuts - 1)
        levels_feature.append(feature.reshape(n_trees, -1))
        levels_split.append(places[feature, rank].reshape(n_trees, -1))
        lower, upper = np.repeat(lower, 2, axis=0), np.repeat(upper, 2, axis=0)
        upper[2 * nodes, feature] = np.maximum(rank, low)
        lower[2 * nodes + 1, feature] = np.minimum(rank + 1, high)
    return Structure(
        np.concatenate(levels_feature, axis=1).astype(np.uint16), np.concatenate(levels_split, axis=1).astype(np.uint8)
    )
