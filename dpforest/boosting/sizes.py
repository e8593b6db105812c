"""How many records the leaves of a tree hold: noised counts, made consistent from the top down.

A noised count alone is no divisor: where it is small by accident, a step is many times too long, and what such steps
spoil grows from round to round. So every count is read against what the marginal histograms say of its split, children
add up to their parent, no size is negative, and each comes with how uncertain it is. All of this is post-processing of
released numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# Standard deviation of the true share of a split around the one of independent features.
_SPLIT_SPREAD = 0.25
# Least size of a leaf, in average leaves.
_LEAST_SIZE = 0.05
# Standard deviation of a node's records around its nominal size, relative to that.
_NOMINAL_SPREAD = 0.7


@dataclass(frozen=True)
class LeafSizes:
    """Estimated records of leaves.

    Parameters
    ----------
    size : ndarray of float64, shape (n_trees, n_leaves)
        Positive.
    deviation : ndarray of float64, same shape
        Standard deviation of the estimate.
    """

    size: np.ndarray
    deviation: np.ndarray


def leaf_sizes(counts: np.ndarray, to_left: list[np.ndarray], records: float, variance: float) -> LeafSizes:
    """Sizes of the leaves by the shares of their splits, from the root down.

    A split's share is estimated from the noised counts of its two sides and from its nominal share, each weighed by
    its variance.

    Parameters
    ----------
    counts : ndarray of shape (n_trees, n_leaves)
        Noised counts.
    to_left : list of ndarray
        Nominal share of each inner node's records that go left; see `trees.split_shares`.
    records : float
        Number of all records.
    variance : float
        Of the noise of a leaf's count.
    """
    n_trees, n_leaves = counts.shape
    size, spread = np.full((n_trees, 1), records), np.zeros((n_trees, 1))
    prior = _SPLIT_SPREAD**2
    for nominal in to_left:
        leaves = n_leaves // (2 * nominal.shape[1])  # of each side
        sides = counts.reshape(n_trees, nominal.shape[1], 2, leaves).sum(axis=3)
        parent = np.maximum(size, 1.0)
        of_noise = variance * leaves / (2 * parent**2)
        observed = 0.5 + (sides[..., 0] - sides[..., 1]) / (2 * parent)
        share = np.clip((prior * observed + nominal * of_noise) / (prior + of_noise), 0, 1)
        left_over = prior * of_noise / (prior + of_noise)
        spread = np.stack([share, 1 - share], axis=2) ** 2 * spread[..., None] + (size**2 * left_over)[..., None]
        size = np.stack([size * share, size * (1 - share)], axis=2)
        size, spread = size.reshape(n_trees, -1), spread.reshape(n_trees, -1)
    return LeafSizes(np.maximum(size, _LEAST_SIZE * records / n_leaves), np.sqrt(spread))


def nominal_sizes(to_left: list[np.ndarray], records: float) -> list[np.ndarray]:
    """Records of each node by nominal shares alone, shapes (n_trees, 1), (n_trees, 2), ... (n_trees, n_leaves)."""
    sizes = [np.full((len(to_left[0]), 1), records)]
    for share in to_left:
        parent = sizes[-1]
        sizes.append(np.stack([parent * share, parent * (1 - share)], axis=2).reshape(len(parent), -1))
    return sizes


def node_sizes(counts: np.ndarray, nominal: np.ndarray, variance: float) -> np.ndarray:
    """Records of nodes: noised counts and nominal sizes, weighed by what each can be trusted.

    Parameters
    ----------
    counts : ndarray of shape (n_trees, n_nodes)
        Noised.
    nominal : ndarray of shape (n_trees, n_nodes)
        Records of each node by its share of all; positive.
    variance : float
        Of the noise of a count.

    Returns
    -------
    ndarray of float64, shape (n_trees, n_nodes)
        Positive.
    """
    # Where features move together, whole nodes are empty that their shares call full, and the other way round.
    average = nominal.mean(axis=1, keepdims=True)
    spread = (_NOMINAL_SPREAD * nominal) ** 2 + average**2
    known = (counts * spread + nominal * variance) / (spread + variance)
    return np.maximum(known, 0.05 * nominal + 1e-9)
