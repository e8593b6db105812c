"""Numba kernels of PP-FPRF: candidate features, rows in nodes, scores of candidates, similar rows.

The nodes of a level of several trees lie behind each other: tree ``t`` has nodes ``starts[t]:starts[t + 1]``. ``place``
says where a row is in each tree, shape (n_trees, n_rows): node ``p`` of the level if ``p >= 0``, `NOWHERE` if the tree
does not see it, else leaf ``-p - 1``.
"""

from __future__ import annotations

import numpy as np

from dpforest.compiled import compiled
from dpforest.growers.kernels import LARGEST_SQUARE_SUM, scaled_norm
from dpforest.mechanisms.whole import whole

NOWHERE = -(2**31)
GAIN_UNIT = 1 << 16


@compiled()
def _mixed(key):
    """SplitMix64 (Steele, Lea, Flood 2014): a well mixed number from a counter."""
    z = key + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@compiled()
def _shuffle_front(of_tree, node, deck, moved):
    """Bring as many random cards of ``deck`` to its front as ``moved`` is long, by nothing but tree and node."""
    key = _mixed(of_tree + np.uint64(node))
    for j in range(len(moved)):
        key = _mixed(key)
        other = j + np.int64(key % np.uint64(len(deck) - j))
        moved[j] = other
        deck[j], deck[other] = deck[other], deck[j]


@compiled()
def _put_back(deck, moved):
    """Undo `_shuffle_front`."""
    for j in range(len(moved) - 1, -1, -1):
        deck[j], deck[moved[j]] = deck[moved[j]], deck[j]


@compiled()
def _tree_key(seed, level, tree):
    return _mixed(_mixed(np.uint64(seed) + np.uint64(tree)) + np.uint64(level))


@compiled()
def draw_features(seed, level, trees, starts, n_features, count):
    """Candidate features of every node: ``count`` different ones, the same for whoever has the seed.

    Returns
    -------
    ndarray of int32, shape (n_nodes, count)
    """
    features = np.empty((starts[-1], count), dtype=np.int32)
    deck = np.arange(n_features, dtype=np.int32)
    moved = np.empty(count, dtype=np.int64)
    for t in range(len(trees)):
        of_tree = _tree_key(seed, level, trees[t])
        for node in range(starts[t], starts[t + 1]):
            _shuffle_front(of_tree, node - starts[t], deck, moved)
            features[node] = deck[:count]
            _put_back(deck, moved)
    return features


@compiled()
def node_sizes(place, starts):
    """Rows in every node of the level."""
    sizes = np.zeros(starts[-1], dtype=np.int64)
    for t in range(place.shape[0]):
        for row in range(place.shape[1]):
            if place[t, row] >= 0:
                sizes[starts[t] + place[t, row]] += 1
    return sizes


@compiled()
def _sort_rows(place, n_nodes, rows):
    """Rows of one tree node by node, into ``rows``; where each node's begin, int64 (n_nodes + 1,)."""
    first = np.zeros(n_nodes + 1, dtype=np.int64)
    for row in range(len(place)):
        if place[row] >= 0:
            first[place[row] + 1] += 1
    for node in range(n_nodes):
        first[node + 1] += first[node]
    free = first[:-1].copy()
    for row in range(len(place)):
        if place[row] >= 0:
            rows[free[place[row]]] = row
            free[place[row]] += 1
    return first


@compiled()
def node_ranges(X, place, starts, seed, level, trees, count):
    """Smallest and largest value of each candidate feature (see `draw_features`) in each node; NaN in an empty node."""
    low = np.full((starts[-1], count), np.float32(np.nan), dtype=np.float32)
    high = np.full((starts[-1], count), np.float32(np.nan), dtype=np.float32)
    deck = np.arange(X.shape[1], dtype=np.int32)
    moved = np.empty(count, dtype=np.int64)
    rows = np.empty(X.shape[0], dtype=np.int64)
    for t in range(place.shape[0]):
        of_tree = _tree_key(seed, level, trees[t])
        n_nodes = starts[t + 1] - starts[t]
        first = _sort_rows(place[t], n_nodes, rows)
        for node in range(n_nodes):
            if first[node] == first[node + 1]:
                continue
            _shuffle_front(of_tree, node, deck, moved)
            lows, highs = low[starts[t] + node], high[starts[t] + node]
            for row in rows[first[node] : first[node + 1]]:
                for j in range(count):
                    x = np.float32(X[row, deck[j]])
                    if not lows[j] <= x:
                        lows[j] = x
                    if not highs[j] >= x:
                        highs[j] = x
            _put_back(deck, moved)
    return low, high


@compiled()
def candidate_scores(X, y, n_classes, place, starts, seed, level, trees, asked, values, by_gain):
    """Scores of the candidates of the nodes that are asked about; 0 in an empty node.

    Parameters
    ----------
    asked : ndarray of bool, shape (n_nodes,)
    values : ndarray of float32, shape (n_asked, n_candidates)
        Rows at or below go left.
    by_gain : bool
        `information_gain` or `norm_score`.

    Returns
    -------
    ndarray of int64, shape (n_asked, n_candidates)
    """
    count = values.shape[1]
    scores = np.zeros(values.shape, dtype=np.int64)
    total = np.empty(n_classes, dtype=np.int64)
    left = np.empty(n_classes, dtype=np.int64)
    deck = np.arange(X.shape[1], dtype=np.int32)
    moved = np.empty(count, dtype=np.int64)
    rows = np.empty(X.shape[0], dtype=np.int64)
    place_in_asked = -1
    for t in range(place.shape[0]):
        of_tree = _tree_key(seed, level, trees[t])
        n_nodes = starts[t + 1] - starts[t]
        first = _sort_rows(place[t], n_nodes, rows)
        for node in range(n_nodes):
            if not asked[starts[t] + node]:
                continue
            place_in_asked += 1
            of_node = rows[first[node] : first[node + 1]]
            total[:] = 0
            for row in of_node:
                total[y[row]] += 1
            # Where all rows are of one class, and where there are none, no split gains anything.
            if len(of_node) == 0 or (by_gain and total[y[of_node[0]]] == len(of_node)):
                continue
            _shuffle_front(of_tree, node, deck, moved)
            for j in range(count):
                left[:] = 0
                for row in of_node:
                    if X[row, deck[j]] <= values[place_in_asked, j]:
                        left[y[row]] += 1
                scores[place_in_asked, j] = information_gain(total, left) if by_gain else norm_score(total, left)
            _put_back(deck, moved)
    return scores


@compiled()
def _nlogn(n):
    return n * np.log2(n) if n > 0 else 0.0


@compiled()
def information_gain(total, left):
    """Information gain in bits of a node's class counts and those of its left child, in units of ``1 / GAIN_UNIT``.

    Rounded down; the node is not empty.
    """
    n, n_left = 0, 0
    inside, inside_left, inside_right = 0.0, 0.0, 0.0
    for c in range(len(total)):
        n += total[c]
        n_left += left[c]
        inside += _nlogn(total[c])
        inside_left += _nlogn(left[c])
        inside_right += _nlogn(total[c] - left[c])
    before = _nlogn(n) - inside
    after = _nlogn(n_left) - inside_left + _nlogn(n - n_left) - inside_right
    # No gain exceeds the logarithm of the classes, 16 bits at most.
    return whole(max(before - after, 0.0) / n * GAIN_UNIT, 16 * GAIN_UNIT, True)


@compiled()
def _add_square(squares, count):
    if np.float64(count) * np.float64(count) >= LARGEST_SQUARE_SUM:
        return np.int64(LARGEST_SQUARE_SUM)
    return min(squares + count * count, np.int64(LARGEST_SQUARE_SUM))


@compiled()
def norm_score(total, left):
    """Sum over both children of ``sqrt(sum_c n_c^2)``, each in whole units of ``1 / SCORE_UNIT`` (rounded down)."""
    squares_left, squares_right = np.int64(0), np.int64(0)
    for c in range(len(total)):
        # Capped as they grow, so that no number of rows overflows: beyond the cap, `scaled_norm` is the same.
        squares_left = _add_square(squares_left, left[c])
        squares_right = _add_square(squares_right, total[c] - left[c])
    return scaled_norm(squares_left) + scaled_norm(squares_right)


@compiled()
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


@compiled()
def leaf_counts(y, n_classes, place, starts):
    """Class counts of every leaf, when all rows are in leaves; ``starts`` are of the leaves here."""
    counts = np.zeros((starts[-1], n_classes), dtype=np.int64)
    for t in range(place.shape[0]):
        for row in range(place.shape[1]):
            if place[t, row] != NOWHERE:
                counts[starts[t] - place[t, row] - 1, y[row]] += 1
    return counts


@compiled()
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
