"""Numba kernels of the growers: binning, class histograms, scores and row routing.

Rows are kept physically sorted by node, so that every pass reads memory in order. A row's ``code`` in a
feature is the number of that feature's thresholds that lie strictly below its value: it goes left of
threshold ``b`` (``value <= threshold``) exactly if ``code <= b``.
"""

from __future__ import annotations

import numpy as np
from numba import njit

SCORE_UNIT = 256
_SCORE_SHIFT = 16  # SCORE_UNIT ** 2 == 1 << _SCORE_SHIFT


_BLOCK = 256


@njit(cache=True, nogil=True)
def bin_rows(X, thresholds):
    """Codes of all cells.

    Parameters
    ----------
    X : float array of shape (n_rows, n_features)
    thresholds : array of shape (n_features, n_thresholds), same dtype as ``X``
        Non-decreasing in each row; at most 255 a feature.

    Returns
    -------
    uint8 array of shape (n_rows, n_features)
    """
    n_rows, n_features = X.shape
    codes = np.empty((n_rows, n_features), dtype=np.uint8)
    # One feature of a block of rows against one threshold at a time: branch-free, so it vectorises,
    # and several times faster than a binary search a cell for the few dozen thresholds of a grid.
    values = np.empty(_BLOCK, dtype=X.dtype)
    below = np.empty(_BLOCK, dtype=np.int32)
    for start in range(0, n_rows, _BLOCK):
        size = min(_BLOCK, n_rows - start)
        for f in range(n_features):
            for i in range(size):
                values[i] = X[start + i, f]
            below[:] = 0
            for t in range(thresholds.shape[1]):
                threshold = thresholds[f, t]
                for i in range(_BLOCK):
                    below[i] += threshold < values[i]
            for i in range(size):
                codes[start + i, f] = below[i]
    return codes


@njit(cache=True, nogil=True)
def count_classes(codes, y, start, stop, histogram):
    """Add rows ``start:stop`` to ``histogram`` of shape (n_features, n_bins, n_classes)."""
    n_features = codes.shape[1]
    for i in range(start, stop):
        c = y[i]
        for f in range(n_features):
            histogram[f, codes[i, f], c] += 1


@njit(cache=True, nogil=True, inline="always")
def _scaled_norm(square_sum):
    """``floor(SCORE_UNIT * sqrt(square_sum))`` in exact integer arithmetic."""
    target = square_sum << _SCORE_SHIFT
    root = np.int64(np.sqrt(np.float64(target)))
    if root * root > target:
        root -= 1
    elif (root + 1) * (root + 1) <= target:
        root += 1
    return root


@njit(cache=True, nogil=True)
def add_scores(histogram, scores):
    """Add one node's score of every candidate to its group's ``scores``.

    Parameters
    ----------
    histogram : int32 array of shape (n_features, n_bins, n_classes)
        Class counts of the node.
    scores : int64 array of shape (n_features, n_bins - 1)
    """
    n_features, n_bins, n_classes = histogram.shape
    left = np.empty(n_classes, dtype=np.int64)
    total = np.zeros(n_classes, dtype=np.int64)
    for b in range(n_bins):
        for c in range(n_classes):
            total[c] += histogram[0, b, c]
    whole = np.int64(0)
    for c in range(n_classes):
        whole += total[c] * total[c]
    unsplit = _scaled_norm(whole)
    for f in range(n_features):
        left[:] = 0
        previous = unsplit
        for b in range(n_bins - 1):
            moved = 0
            square_left = np.int64(0)
            square_right = np.int64(0)
            for c in range(n_classes):
                moved += histogram[f, b, c]
                left[c] += histogram[f, b, c]
                right = total[c] - left[c]
                square_left += left[c] * left[c]
                square_right += right * right
            if moved > 0:
                previous = _scaled_norm(square_left) + _scaled_norm(square_right)
            scores[f, b] += previous


@njit(cache=True, nogil=True)
def level_scores(codes, y, starts, group, n_groups, n_classes, n_bins):
    """Scores of all candidates of one level, summed over the nodes of each group.

    Parameters
    ----------
    codes, y : sorted rows
    starts : int64 array of shape (n_nodes + 1,)
        Rows ``starts[v]:starts[v + 1]`` belong to node ``v``.
    group : int64 array of shape (n_nodes,)
        Which nodes share a split.

    Returns
    -------
    int64 array of shape (n_groups, n_features, n_bins - 1)
    """
    n_features = codes.shape[1]
    scores = np.zeros((n_groups, n_features, n_bins - 1), dtype=np.int64)
    histogram = np.empty((n_features, n_bins, n_classes), dtype=np.int32)
    for v in range(starts.shape[0] - 1):
        if starts[v] < starts[v + 1]:
            histogram[:] = 0
            count_classes(codes, y, starts[v], starts[v + 1], histogram)
            add_scores(histogram, scores[group[v]])
    return scores


@njit(cache=True, nogil=True)
def level_scores_by_difference(codes, y, starts, parents, group, n_groups):
    """`level_scores` where each node's histogram costs only its smaller sibling's rows.

    Parameters
    ----------
    parents : int32 array of shape (n_nodes / 2, n_features, n_bins, n_classes)
        Histograms of the level above; at the root an array of shape (0, ...).

    Returns
    -------
    scores : as `level_scores`
    histograms : int32 array of shape (n_nodes, n_features, n_bins, n_classes)
    """
    n_nodes = starts.shape[0] - 1
    _, n_features, n_bins, n_classes = parents.shape
    scores = np.zeros((n_groups, n_features, n_bins - 1), dtype=np.int64)
    histograms = np.zeros((n_nodes, n_features, n_bins, n_classes), dtype=np.int32)
    if n_nodes == 1:
        count_classes(codes, y, starts[0], starts[1], histograms[0])
    else:
        for pair in range(n_nodes // 2):
            small, large = 2 * pair, 2 * pair + 1
            if starts[small + 1] - starts[small] > starts[large + 1] - starts[large]:
                small, large = large, small
            count_classes(codes, y, starts[small], starts[small + 1], histograms[small])
            whole = parents[pair].reshape(-1)
            part = histograms[small].reshape(-1)
            rest = histograms[large].reshape(-1)
            for k in range(whole.shape[0]):
                rest[k] = whole[k] - part[k]
    for v in range(n_nodes):
        if starts[v] < starts[v + 1]:
            add_scores(histograms[v], scores[group[v]])
    return scores, histograms


@njit(cache=True, nogil=True)
def route_rows(rows, codes, starts, feature, split, out):
    """Write ``rows`` sorted into the children of their nodes, left before right, in stable order.

    Parameters
    ----------
    rows : array of shape (n_rows, n_columns)
        What moves: codes or values, sorted by node.
    codes : uint8 array of shape (n_rows, n_features)
        What decides.
    feature, split : int64 arrays of shape (n_nodes,)
        Feature and threshold index of each node.
    out : array like ``rows``
    """
    n_columns = rows.shape[1]
    for v in range(starts.shape[0] - 1):
        f, b = feature[v], split[v]
        to_left = starts[v]
        to_right = starts[v]
        for i in range(starts[v], starts[v + 1]):
            to_right += codes[i, f] <= b
        for i in range(starts[v], starts[v + 1]):
            if codes[i, f] <= b:
                k = to_left
                to_left += 1
            else:
                k = to_right
                to_right += 1
            for g in range(n_columns):
                out[k, g] = rows[i, g]


@njit(cache=True, nogil=True)
def route_labels(codes, y, starts, feature, split, out, out_starts):
    """`route_rows` for labels; also writes the ``2 * n_nodes + 1`` starts of the children."""
    for v in range(starts.shape[0] - 1):
        f, b = feature[v], split[v]
        k = starts[v]
        for side in range(2):
            out_starts[2 * v + side] = k
            for i in range(starts[v], starts[v + 1]):
                if (codes[i, f] > b) == side:
                    out[k] = y[i]
                    k += 1
    out_starts[2 * (starts.shape[0] - 1)] = starts[-1]


@njit(cache=True, nogil=True)
def class_counts(y, starts, n_classes):
    """Class counts of each node; int64 array of shape (n_nodes, n_classes)."""
    counts = np.zeros((starts.shape[0] - 1, n_classes), dtype=np.int64)
    for v in range(starts.shape[0] - 1):
        for i in range(starts[v], starts[v + 1]):
            counts[v, y[i]] += 1
    return counts


@njit(cache=True, nogil=True)
def bin_rows_by_node(X, starts, group, thresholds):
    """Codes of sorted rows against thresholds that differ from group to group.

    Parameters
    ----------
    thresholds : array of shape (n_groups, n_features, n_thresholds), same dtype as ``X``
    """
    codes = np.empty(X.shape, dtype=np.uint8)
    for v in range(starts.shape[0] - 1):
        codes[starts[v] : starts[v + 1]] = bin_rows(X[starts[v] : starts[v + 1]], thresholds[group[v]])
    return codes
