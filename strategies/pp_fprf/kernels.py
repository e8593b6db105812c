"""Numba kernels of PP-FPRF: candidate features, rows in nodes, scores of candidates, similar rows.

The nodes of a level of several trees lie behind each other: tree ``t`` has nodes ``starts[t]:starts[t + 1]``. ``place``
says where a row is in each tree, shape (n_trees, n_rows): node ``p`` of the level if ``p >= 0``, `NOWHERE` if the tree
does not see it, else leaf ``-p - 1``.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from dpforest.growers.kernels import scaled_norm

NOWHERE = -(2**31)
GAIN_UNIT = 1 << 16


@njit(cache=True)
def _mixed(key):
    """SplitMix64 (Steele, Lea, Flood 2014): a well mixed number from a counter."""
    z = key + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(cache=True)
def draw_features(seed, level, trees, starts, n_features, count):
    """Candidate features of every node: ``count`` different ones, the same for whoever has the seed.

    Returns
    -------
    ndarray of int32, shape (n_nodes, count)
    """
    drawn = np.empty((starts[-1], count), dtype=np.int32)
    deck = np.arange(n_features, dtype=np.int32)
    moved = np.empty(count, dtype=np.int64)
    for t in range(len(trees)):
        of_tree = _mixed(_mixed(np.uint64(seed) + np.uint64(trees[t])) + np.uint64(level))
        for node in range(starts[t], starts[t + 1]):
            key = _mixed(of_tree + np.uint64(node - starts[t]))
            for j in range(count):
                key = _mixed(key)
                other = j + np.int64(key % np.uint64(n_features - j))
                moved[j] = other
                deck[j], deck[other] = deck[other], deck[j]
                drawn[node, j] = deck[j]
            for j in range(count - 1, -1, -1):
                deck[j], deck[moved[j]] = deck[moved[j]], deck[j]
    return drawn


@njit(cache=True)
def node_sizes(place, starts):
    """Rows in every node of the level."""
    sizes = np.zeros(starts[-1], dtype=np.int64)
    for t in range(place.shape[0]):
        for row in range(place.shape[1]):
            if place[t, row] >= 0:
                sizes[starts[t] + place[t, row]] += 1
    return sizes


@njit(cache=True)
def node_ranges(X, place, starts, features):
    """Smallest and largest value of each candidate feature in each node; NaN in an empty node."""
    low = np.full(features.shape, np.float32(np.nan), dtype=np.float32)
    high = np.full(features.shape, np.float32(np.nan), dtype=np.float32)
    for t in range(place.shape[0]):
        for row in range(place.shape[1]):
            if place[t, row] < 0:
                continue
            node = starts[t] + place[t, row]
            for j in range(features.shape[1]):
                x = np.float32(X[row, features[node, j]])
                if not low[node, j] <= x:
                    low[node, j] = x
                if not high[node, j] >= x:
                    high[node, j] = x
    return low, high


@njit(cache=True)
def candidate_counts(X, y, n_classes, place, starts, features, values):
    """Class counts of every node, and of its rows at or below each candidate's value.

    Returns
    -------
    totals : int32 (n_nodes, n_classes)
    lefts : int32 (n_nodes, n_candidates, n_classes)
    """
    totals = np.zeros((starts[-1], n_classes), dtype=np.int32)
    lefts = np.zeros((starts[-1], features.shape[1], n_classes), dtype=np.int32)
    for t in range(place.shape[0]):
        for row in range(place.shape[1]):
            if place[t, row] < 0:
                continue
            node = starts[t] + place[t, row]
            totals[node, y[row]] += 1
            for j in range(features.shape[1]):
                if X[row, features[node, j]] <= values[node, j]:
                    lefts[node, j, y[row]] += 1
    return totals, lefts


@njit(cache=True)
def _nlogn(n):
    return n * np.log2(n) if n > 0 else 0.0


@njit(cache=True)
def information_gains(totals, lefts):
    """Information gain in bits, in whole units of ``1 / GAIN_UNIT`` (rounded down); 0 in an empty node."""
    scores = np.zeros(lefts.shape[:2], dtype=np.int64)
    for node in range(lefts.shape[0]):
        n, inside = 0, 0.0
        for c in range(totals.shape[1]):
            n += totals[node, c]
            inside += _nlogn(totals[node, c])
        if n == 0:
            continue
        before = _nlogn(n) - inside
        for j in range(lefts.shape[1]):
            n_left, left, right = 0, 0.0, 0.0
            for c in range(totals.shape[1]):
                n_left += lefts[node, j, c]
                left += _nlogn(lefts[node, j, c])
                right += _nlogn(totals[node, c] - lefts[node, j, c])
            after = _nlogn(n_left) - left + _nlogn(n - n_left) - right
            scores[node, j] = np.int64(np.floor(max(before - after, 0.0) / n * GAIN_UNIT))
    return scores


@njit(cache=True)
def norm_scores(totals, lefts):
    """Sum over both children of ``sqrt(sum_c n_c^2)``, each in whole units of ``1 / SCORE_UNIT`` (rounded down)."""
    scores = np.zeros(lefts.shape[:2], dtype=np.int64)
    for node in range(lefts.shape[0]):
        for j in range(lefts.shape[1]):
            left, right = np.int64(0), np.int64(0)
            for c in range(totals.shape[1]):
                a = np.int64(lefts[node, j, c])
                b = np.int64(totals[node, c]) - a
                left += a * a
                right += b * b
            scores[node, j] = scaled_norm(left) + scaled_norm(right)
    return scores


@njit(cache=True)
def advance(X, place, leaves, starts, features, values):
    """Move every row from its node to the child on its side, or to a leaf where the node was not split; in place.

    Parameters
    ----------
    leaves : ndarray of int64, shape (n_trees,)
        Leaves of each tree so far; counts on.
    features : ndarray of int32, shape (n_nodes,)
        Feature of the split; -1: the node becomes a leaf.
    values : ndarray of float32, shape (n_nodes,)
    """
    for t in range(place.shape[0]):
        first = starts[t]
        rank = np.empty(starts[t + 1] - first, dtype=np.int64)
        n_split, n_leaf = 0, 0
        for node in range(first, starts[t + 1]):
            if features[node] >= 0:
                rank[node - first] = n_split
                n_split += 1
            else:
                rank[node - first] = leaves[t] + n_leaf
                n_leaf += 1
        for row in range(place.shape[1]):
            p = place[t, row]
            if p < 0:
                continue
            node = first + p
            if features[node] < 0:
                place[t, row] = -rank[p] - 1
            else:
                place[t, row] = 2 * rank[p] + (0 if X[row, features[node]] <= values[node] else 1)
        leaves[t] += n_leaf


@njit(cache=True)
def leaf_counts(y, n_classes, place, starts):
    """Class counts of every leaf, when all rows are in leaves; ``starts`` are of the leaves here."""
    counts = np.zeros((starts[-1], n_classes), dtype=np.int64)
    for t in range(place.shape[0]):
        for row in range(place.shape[1]):
            if place[t, row] != NOWHERE:
                counts[starts[t] - place[t, row] - 1, y[row]] += 1
    return counts


@njit(cache=True)
def similar_rows(own, other, least):
    """How many rows of ``other`` have at least ``least`` hash values in common with some row of ``own``."""
    found = 0
    for i in range(other.shape[0]):
        for k in range(own.shape[0]):
            same = 0
            for h in range(own.shape[1]):
                same += own[k, h] == other[i, h]
            if same >= least:
                found += 1
                break
    return found
