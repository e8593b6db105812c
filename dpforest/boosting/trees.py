"""Trees of random structure: which column and cut each inner node asks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpforest.boosting.bins import Marginals, levelled

# Of a node's records that a side of a split has at least, by any estimate.
_LEAST_SHARE = 0.005


def search_order(depth: int) -> np.ndarray:
    """What the inner nodes of a complete search tree over 0 to ``2 ** depth - 1`` ask, breadth first: up to which."""
    levels = [(2 * np.arange(1 << level) + 1) * (1 << (depth - 1 - level)) - 1 for level in range(depth)]
    return np.concatenate(levels)


@dataclass(frozen=True)
class Structure:
    """Complete trees in breadth-first order.

    Parameters
    ----------
    feature : ndarray of uint16, shape (n_trees, 2 ** depth - 1)
        Column that a node asks.
    split : ndarray of uint8, same shape
        Index of the cut of that column: a record goes left whose code, or group of its category, is at most this.
    groups : ndarray of uint8, shape (n_categorical, most categories + 1)
        Group of each value of the categorical columns, which are grouped anew in every round; 0 where a record has
        none of them.
    """

    feature: np.ndarray
    split: np.ndarray
    groups: np.ndarray

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.feature)

    @property
    def n_leaves(self) -> int:
        """Leaves of each tree."""
        return self.feature.shape[1] + 1

    def grouped(self, codes: np.ndarray) -> np.ndarray:
        """Codes of `Columns.codes` with groups in the place of categories."""
        if not len(self.groups):
            return codes
        grouped = codes.copy()
        first = codes.shape[1] - len(self.groups)
        for c, groups in enumerate(self.groups, first):
            grouped[:, c] = groups[codes[:, c]]
        return grouped


@dataclass(frozen=True)
class Splits:
    """Cuts that trees may ask, and what they are said to do.

    Parameters
    ----------
    number : ndarray of int64, shape (n_columns,)
        Different cuts of each column.
    place : ndarray of int64, shape (n_columns, n_cuts)
        Where the r-th different cut of a column stands.
    rank : ndarray of int64, same shape
        The other way round.
    shares : ndarray of float64, shape (n_columns, n_cuts + 2)
        Of the records up to the r-th different cut, from 0 to 1.
    groups : ndarray of uint8
        See `Structure`.
    """

    number: np.ndarray
    place: np.ndarray
    rank: np.ndarray
    shares: np.ndarray
    groups: np.ndarray

    @classmethod
    def draw(cls, marginals: Marginals, rng: np.random.Generator) -> Splits:
        """Cuts of the numeric columns, and categories in a random order.

        The order is as good as one by the classes' noised shares, and costs nothing.
        """
        n_numeric, n_cuts = marginals.cuts.shape
        n_columns = n_numeric + len(marginals.categories)
        new = np.ones((n_columns, n_cuts), dtype=bool)
        new[:n_numeric, 1:] = marginals.cuts[:, 1:] > marginals.cuts[:, :-1]
        shares = np.ones((n_columns, n_cuts + 2))
        shares[:n_numeric] = marginals.shares
        most = max(map(len, marginals.categories), default=-1)
        groups = np.zeros((len(marginals.categories), most + 1), dtype=np.uint8)
        for c, mass in enumerate(marginals.categories):
            groups[c, : len(mass)] = found = _random_groups(mass, n_cuts + 1, rng)
            total = np.bincount(found, weights=mass)
            new[n_numeric + c] = np.arange(n_cuts) < len(total) - 1
            shares[n_numeric + c, : len(total)] = np.minimum(np.concatenate([[0.0], np.cumsum(total)[:-1]]), 1.0)
        rank = np.zeros(new.shape, dtype=np.int64)
        rank[:, 1:] = np.cumsum(new[:, 1:], axis=1)
        return cls(new.sum(axis=1), np.argsort(~new, axis=1, kind="stable"), rank, shares, groups)


def _random_groups(mass: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    """Group of each category: neighbours in a random order, at most so many groups, of about equal records."""
    order = rng.permutation(len(mass))
    if len(mass) <= most:
        group = np.arange(len(mass))
    else:
        weight = levelled(mass, most)[order]
        middle = (np.cumsum(weight) - weight / 2) / weight.sum()
        part = np.minimum((middle * most).astype(np.int64), most - 1)
        group = np.unique(part, return_inverse=True)[1]
    groups = np.empty(len(mass), dtype=np.int64)
    groups[order] = group
    return groups


def random_structure(
    n_trees: int, depth: int, splits: Splits, chances: np.ndarray, rng: np.random.Generator
) -> Structure:
    """Draw trees without looking at data.

    Parameters
    ----------
    chances : ndarray, shape (n_columns,)
        Relative chance of each column. One that has no cut left inside a node's box is not drawn there; where none
        has, the node repeats a question.
    """
    n_columns, n_cuts = splits.place.shape
    lower = np.zeros((n_trees, n_columns), dtype=np.int64)
    upper = np.broadcast_to(splits.number, (n_trees, n_columns)).copy()
    levels_feature, levels_split = [], []
    for _ in range(depth):
        nodes = np.arange(len(lower))
        weight = np.where(lower < upper, chances, 0.0)
        empty = weight.sum(axis=1) <= 0
        weight[empty] = chances
        running = np.cumsum(weight, axis=1)
        points = rng.random(len(lower)) * running[:, -1]
        feature = np.minimum((running <= points[:, None]).sum(axis=1), n_columns - 1)
        low, high = lower[nodes, feature], upper[nodes, feature]
        rank = np.minimum(low + (rng.random(len(lower)) * (high - low)).astype(np.int64), n_cuts - 1)
        levels_feature.append(feature.reshape(n_trees, -1))
        levels_split.append(splits.place[feature, rank].reshape(n_trees, -1))
        lower, upper = np.repeat(lower, 2, axis=0), np.repeat(upper, 2, axis=0)
        upper[2 * nodes, feature] = np.maximum(rank, low)
        lower[2 * nodes + 1, feature] = np.minimum(rank + 1, high)
    return Structure(
        np.concatenate(levels_feature, axis=1).astype(np.uint16),
        np.concatenate(levels_split, axis=1).astype(np.uint8),
        splits.groups,
    )


def split_shares(structure: Structure, splits: Splits) -> list[np.ndarray]:
    """Share of a node's records that go left, if columns were independent.

    Returns
    -------
    list of ndarray, shapes (n_trees, 1), (n_trees, 2), ... (n_trees, n_leaves / 2)
        Of the inner nodes of each level; never 0 or 1, since no estimate is certain.
    """
    n_trees = structure.n_trees
    lower = np.zeros((n_trees, 1, len(splits.number)), dtype=np.int64)
    upper = np.broadcast_to(splits.number, lower.shape).copy()
    tree = np.arange(n_trees)[:, None]
    to_left: list[np.ndarray] = []
    n = 1
    while n < structure.n_leaves:
        node = np.arange(n)[None, :]
        feature = structure.feature[:, n - 1 : 2 * n - 1].astype(np.int64)
        rank = splits.rank[feature, structure.split[:, n - 1 : 2 * n - 1]]
        low, high = lower[tree, node, feature], upper[tree, node, feature]
        before = splits.shares[feature, low]
        inside = np.maximum(splits.shares[feature, high + 1] - before, 1e-12)
        left = splits.shares[feature, rank + 1] - before
        to_left.append(np.clip(left / inside, _LEAST_SHARE, 1 - _LEAST_SHARE))
        lower, upper = np.repeat(lower, 2, axis=1), np.repeat(upper, 2, axis=1)
        upper[tree, 2 * node, feature] = np.maximum(rank, low)
        lower[tree, 2 * node + 1, feature] = np.minimum(rank + 1, high)
        n *= 2
    return to_left
