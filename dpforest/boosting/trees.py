"""Trees of random structure: which feature and cut each inner node asks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# Of a node's records that a side of a split has at least, by any estimate.
_LEAST_SHARE = 0.005


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


def split_shares(structure: Structure, cuts: np.ndarray, shares: np.ndarray) -> list[np.ndarray]:
    """Share of a node's records that go left, if features were independent.

    Parameters
    ----------
    cuts : ndarray of shape (n_features, n_cuts)
    shares : ndarray of shape (n_features, n_cuts + 2)
        Of the records up to each different cut; see `bins.Marginals`.

    Returns
    -------
    list of ndarray, shapes (n_trees, 1), (n_trees, 2), ... (n_trees, n_leaves / 2)
        Of the inner nodes of each level; never 0 or 1, since no estimate is certain.
    """
    rank = np.zeros(cuts.shape, dtype=np.int64)
    rank[:, 1:] = np.cumsum(cuts[:, 1:] > cuts[:, :-1], axis=1)
    n_trees = structure.n_trees
    lower = np.zeros((n_trees, 1, len(cuts)), dtype=np.int64)
    upper = np.broadcast_to(rank[:, -1] + 1, lower.shape).copy()
    tree = np.arange(n_trees)[:, None]
    to_left: list[np.ndarray] = []
    n = 1
    while n < structure.n_leaves:
        node = np.arange(n)[None, :]
        feature = structure.feature[:, n - 1 : 2 * n - 1].astype(np.int64)
        split = rank[feature, structure.split[:, n - 1 : 2 * n - 1]]
        low, high = lower[tree, node, feature], upper[tree, node, feature]
        before = shares[feature, low]
        inside = np.maximum(shares[feature, high + 1] - before, 1e-12)
        left = shares[feature, split + 1] - before
        to_left.append(np.clip(left / inside, _LEAST_SHARE, 1 - _LEAST_SHARE))
        lower, upper = np.repeat(lower, 2, axis=1), np.repeat(upper, 2, axis=1)
        upper[tree, 2 * node, feature] = np.maximum(split, low)
        lower[tree, 2 * node + 1, feature] = np.minimum(split + 1, high)
        n *= 2
    return to_left
