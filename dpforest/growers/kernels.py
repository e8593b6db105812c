"""Numba kernels of the growers: binning, class histograms, scores and row routing.

Rows are kept physically sorted by node, so that every pass reads memory in order. A row's ``code`` in a
feature is the number of that feature's thresholds that lie strictly below its value: it goes left of
threshold ``b`` (``value <= threshold``) exactly if ``code <= b``.

Loops run over slices or unsigned indices: Numba checks a signed index that it cannot prove non-negative for
wrap-around, and such a loop does not vectorise. Histograms have the features innermost, so that one
instruction treats several features. Arithmetic is in float64, which vectorises and is exact for whole numbers below
2 ** 53; `_exact_float_roots` guards the only place where that would not suffice.
"""

from __future__ import annotations

import numpy as np

from dpforest.compiled import compiled
from dpforest.mechanisms.whole import whole

SCORE_UNIT = 256
LARGEST_SQUARE_SUM = (1 << 47) - (1 << 32)
_SCORE_SHIFT = 16  # SCORE_UNIT ** 2 == 1 << _SCORE_SHIFT

_BLOCK = 128
_AT_ONCE = 8  # thresholds that `bin_rows` compares in one pass


@compiled()
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
    n_passes = (thresholds.shape[1] + _AT_ONCE - 1) // _AT_ONCE
    table = np.empty((n_features, n_passes * _AT_ONCE), dtype=X.dtype)
    for f in range(n_features):
        for t in range(table.shape[1]):
            table[f, t] = thresholds[f, t] if t < thresholds.shape[1] else np.inf
    codes = np.empty((n_rows, n_features), dtype=np.uint8)
    # A block of rows is turned on its side, so that many values of one feature meet the same thresholds: branch-free
    # and vectorised, which beats a binary search a cell for the few dozen thresholds of a grid.
    values = np.zeros((n_features, _BLOCK), dtype=X.dtype)
    results = np.empty((n_features, _BLOCK), dtype=np.uint8)
    below = np.empty(_BLOCK, dtype=np.int32)
    for start in range(0, n_rows, _BLOCK):
        rows = X[start : start + _BLOCK]
        for i in range(rows.shape[0]):
            for f in range(n_features):
                values[f, i] = rows[i, f]
        for f in range(n_features):
            column = values[f]
            below[:] = 0
            for k in range(n_passes):
                t = table[f, k * _AT_ONCE :]
                t0, t1, t2, t3, t4, t5, t6, t7 = t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7]
                for i in range(_BLOCK):
                    x = column[i]
                    below[i] += (
                        np.int32(t0 < x)
                        + np.int32(t1 < x)
                        + np.int32(t2 < x)
                        + np.int32(t3 < x)
                        + np.int32(t4 < x)
                        + np.int32(t5 < x)
                        + np.int32(t6 < x)
                        + np.int32(t7 < x)
                    )
            result = results[f]
            for i in range(_BLOCK):
                result[i] = below[i]
        out = codes[start : start + _BLOCK]
        for i in range(out.shape[0]):
            for f in range(n_features):
                out[i, f] = results[f, i]
    return codes


@compiled()
def bin_rows_by_node(X, starts, group, thresholds):
    """Codes of sorted rows against thresholds that differ from group to group.

    Parameters
    ----------
    thresholds : array of shape (n_groups, n_features, n_thresholds), same dtype as ``X``
    """
    n_features, n_thresholds = thresholds.shape[1:]
    codes = np.empty(X.shape, dtype=np.uint8)
    table = np.empty((n_thresholds, n_features), dtype=X.dtype)
    below = np.empty(n_features, dtype=np.int32)
    for v in range(starts.shape[0] - 1):
        rows, out = X[starts[v] : starts[v + 1]], codes[starts[v] : starts[v + 1]]
        for t in range(n_thresholds):
            for f in range(n_features):
                table[t, f] = thresholds[group[v], f, t]
        for i in range(rows.shape[0]):
            row = rows[i]
            below[:] = 0
            for t in range(n_thresholds):
                cuts = table[t]
                for f in range(n_features):
                    below[f] += np.int32(cuts[f] < row[f])
            for f in range(n_features):
                out[i, f] = below[f]
    return codes


@compiled()
def count_classes(codes, y, start, stop, histogram):
    """Add rows ``start:stop`` to ``histogram`` of shape (n_classes, n_bins, n_features)."""
    n_features = np.uint64(codes.shape[1])
    plane = np.uint64(histogram.shape[1] * histogram.shape[2])
    counts = histogram.reshape(-1)
    cells, labels = codes[start:stop].reshape(-1), y[start:stop]
    first = np.uint64(0)
    for i in range(labels.shape[0]):
        in_class = np.uint64(labels[i]) * plane
        for f in range(n_features):
            counts[in_class + np.uint64(cells[first + f]) * n_features + f] += np.int32(1)
        first += n_features


@compiled(inline="always")
def floor_root(square):
    """``floor(sqrt(square))`` in exact integer arithmetic."""
    root = np.int64(np.sqrt(np.float64(square)))
    if root * root > square:
        root -= 1
    elif (root + 1) * (root + 1) <= square:
        root += 1
    return root


@compiled(inline="always")
def scaled_norm(square_sum):
    """``floor(SCORE_UNIT * sqrt(square_sum))`` in exact integer arithmetic.

    Norms above about 11.9 million rows count as that many, so that nothing overflows, whatever the number of rows;
    ``min(x, cap)`` changes by no more than x does, so a cap keeps a score monotone and its sensitivity.
    """
    return floor_root(min(square_sum, LARGEST_SQUARE_SUM) << _SCORE_SHIFT)


@compiled(inline="always")
def _capped_norm(square_sum):
    """`scaled_norm` of a whole number in float64, which may be larger than any integer."""
    return scaled_norm(whole(square_sum, LARGEST_SQUARE_SUM, True))


@compiled(inline="always")
def _exact_float_roots(square_sum):
    """Whether `scaled_norm` of all whole numbers up to ``square_sum`` needs no integers.

    Then what follows is finite and far below what an integer holds, too. Up to ``target = 2 ** 52``, a root just below
    a whole number m <= 2 ** 26 is at most ``m - 1 / (2 m)``, farther from m than float64 rounds.
    """
    return square_sum * SCORE_UNIT * SCORE_UNIT <= 2.0**52


@compiled(inline="always")
def _is_same_for_all(totals):
    """Whether no candidate can score more than another.

    At most one class has counts, too few for the cap of `scaled_norm` (beyond it a split pays, since each side is
    capped for itself).
    """
    classes, largest = 0, np.int64(0)
    for c in range(totals.shape[0]):
        classes += totals[c] > 0
        largest = max(largest, totals[c])
    return classes <= 1 and np.float64(largest) * np.float64(largest) <= LARGEST_SQUARE_SUM


@compiled()
def add_scores(histogram, totals, left_squares, right_squares, scores):
    """Add one node's score of every candidate to its group's ``scores``.

    One pass a class over running counts gives the squared norms of both sides, each a sum of squares of whole numbers.
    In float64 such a sum is exact up to 2 ** 53, and rounding is monotone, so whatever exceeds that is at least 2 **
    53, far above the cap: after the cap of `scaled_norm` the score is the exact one for every number of rows.

    Parameters
    ----------
    histogram : int32 array of shape (n_classes, n_bins, n_features)
        Class counts of the node; not read where `_is_same_for_all`.
    totals : int64 array of shape (n_classes,)
        Class counts of the node, all bins together.
    left_squares, right_squares : float64 arrays of shape (n_bins - 1, n_features)
        Room for the squared norms.
    scores : int64 array of shape (n_features, n_bins - 1)
    """
    n_features = histogram.shape[2]
    if _is_same_for_all(totals):
        # The two norms are the numbers of rows, which add up to the node's.
        unsplit = np.int64(0)
        for c in range(totals.shape[0]):
            unsplit += SCORE_UNIT * totals[c]
        for f in range(n_features):
            for b in range(scores.shape[1]):
                scores[f, b] += unsplit
        return
    left_squares[:] = 0.0
    right_squares[:] = 0.0
    of_node = 0.0
    left = np.empty(n_features, dtype=np.int32)
    for c in range(totals.shape[0]):
        if totals[c] == 0:
            continue
        total = np.float64(totals[c])
        of_node += total * total
        left[:] = 0
        plane = histogram[c]
        for b in range(left_squares.shape[0]):
            counts, square, rest = plane[b], left_squares[b], right_squares[b]
            for f in range(n_features):
                left[f] += counts[f]
                n = np.float64(left[f])
                square[f] += n * n
                rest[f] += (total - n) * (total - n)
    if _exact_float_roots(of_node):
        for b in range(left_squares.shape[0]):
            square, rest = left_squares[b], right_squares[b]
            for f in range(n_features):
                square[f] = np.floor(SCORE_UNIT * np.sqrt(square[f])) + np.floor(SCORE_UNIT * np.sqrt(rest[f]))
            for f in range(n_features):
                scores[f, b] += np.int64(square[f])
    else:
        for b in range(left_squares.shape[0]):
            for f in range(n_features):
                scores[f, b] += _capped_norm(left_squares[b, f]) + _capped_norm(right_squares[b, f])


@compiled()
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
    histogram = np.empty((n_classes, n_bins, n_features), dtype=np.int32)
    left_squares = np.empty((n_bins - 1, n_features))
    right_squares = np.empty((n_bins - 1, n_features))
    totals = class_counts(y, starts, n_classes)
    for v in range(starts.shape[0] - 1):
        if not _is_same_for_all(totals[v]):
            for c in range(n_classes):
                if totals[v, c] > 0:
                    histogram[c] = 0
            count_classes(codes, y, starts[v], starts[v + 1], histogram)
        add_scores(histogram, totals[v], left_squares, right_squares, scores[group[v]])
    return scores


@compiled()
def level_scores_by_difference(codes, y, starts, parents, group, n_groups):
    """`level_scores` where each node's histogram costs only its smaller sibling's rows.

    Parameters
    ----------
    parents : int32 array of shape (n_nodes / 2, n_classes, n_bins, n_features)
        Histograms of the level above; at the root an array of shape (0, ...).

    Returns
    -------
    scores : as `level_scores`
    histograms : int32 array of shape (n_nodes, n_classes, n_bins, n_features)
    """
    n_nodes = starts.shape[0] - 1
    _, n_classes, n_bins, n_features = parents.shape
    scores = np.zeros((n_groups, n_features, n_bins - 1), dtype=np.int64)
    histograms = np.zeros((n_nodes, n_classes, n_bins, n_features), dtype=np.int32)
    left_squares = np.empty((n_bins - 1, n_features))
    right_squares = np.empty((n_bins - 1, n_features))
    totals = class_counts(y, starts, n_classes)
    if n_nodes == 1:
        count_classes(codes, y, starts[0], starts[1], histograms[0])
    else:
        for pair in range(n_nodes // 2):
            small, large = 2 * pair, 2 * pair + 1
            if starts[small + 1] - starts[small] > starts[large + 1] - starts[large]:
                small, large = large, small
            count_classes(codes, y, starts[small], starts[small + 1], histograms[small])
            for c in range(n_classes):
                if totals[large, c] > 0:
                    both = parents[pair, c].reshape(-1)
                    part = histograms[small, c].reshape(-1)
                    rest = histograms[large, c].reshape(-1)
                    for k in range(both.shape[0]):
                        rest[k] = both[k] - part[k]
    for v in range(n_nodes):
        add_scores(histograms[v], totals[v], left_squares, right_squares, scores[group[v]])
    return scores, histograms


@compiled()
def left_counts(codes, y, starts, n_classes, n_bins):
    """Class counts left of every candidate of every node.

    Returns
    -------
    int64 array of shape (n_nodes, n_features, n_bins - 1, n_classes)
    """
    n_nodes, n_features = starts.shape[0] - 1, codes.shape[1]
    counts = np.empty((n_nodes, n_features, n_bins - 1, n_classes), dtype=np.int64)
    histogram = np.empty((n_classes, n_bins, n_features), dtype=np.int32)
    for v in range(n_nodes):
        histogram[:] = 0
        count_classes(codes, y, starts[v], starts[v + 1], histogram)
        for f in range(n_features):
            out = counts[v, f]
            for c in range(n_classes):
                left = 0
                for b in range(n_bins - 1):
                    left += histogram[c, b, f]
                    out[b, c] = left
    return counts


@compiled(inline="always")
def _gini(counts):
    # A child without any count says nothing: its Gini is taken as 1, the upper bound, so that it is never preferred.
    total = max(counts.sum(), 1)
    agreement = 0.0
    for c in range(counts.shape[0]):
        share = counts[c] / total
        agreement += share * share
    return 1.0 - agreement


@compiled()
def smallest_gini(parents, lefts, weighted):
    """Candidate of each node whose children have the smallest average Gini; the first of equals.

    Parameters
    ----------
    parents : int64 array of shape (n_nodes, n_classes)
        Non-negative class counts of the nodes.
    lefts : int64 array of shape (n_nodes, n_candidates, n_classes)
        Non-negative class counts left of each candidate; the right side's are the parent's minus these, at least 0.
    weighted : bool
        Weight the children by their counts, else take the plain mean.

    Returns
    -------
    int64 array of shape (n_nodes,)
    """
    n_nodes, n_candidates, n_classes = lefts.shape
    best = np.zeros(n_nodes, dtype=np.int64)
    right = np.empty(n_classes, dtype=np.int64)
    for v in range(n_nodes):
        smallest = np.inf
        for k in range(n_candidates):
            left = lefts[v, k]
            for c in range(n_classes):
                right[c] = max(parents[v, c] - left[c], 0)
            if weighted:
                n_left, n_right = left.sum(), right.sum()
                impurity = (n_left * _gini(left) + n_right * _gini(right)) / max(n_left + n_right, 1)
            else:
                impurity = (_gini(left) + _gini(right)) / 2
            if impurity < smallest:
                smallest = impurity
                best[v] = k
    return best


@compiled()
def useful_thresholds(lower, upper, n_groups, n_thresholds):
    """Which thresholds lie inside the box of some node of a group.

    Parameters
    ----------
    lower, upper : int16 arrays of shape (n_nodes, n_features)
        A node's box holds the thresholds ``lower <= b < upper`` of a feature. Groups are equal runs of nodes.

    Returns
    -------
    bool array of shape (n_groups, n_features, n_thresholds)
    """
    n_nodes, n_features = lower.shape
    useful = np.empty((n_groups, n_features, n_thresholds), dtype=np.bool_)
    # An interval adds 1 where it begins and takes it back where it ends; the running sum counts them.
    edges = np.empty((n_features, n_thresholds + 1), dtype=np.int32)
    nodes_a_group = n_nodes // n_groups
    for g in range(n_groups):
        edges[:] = 0
        for v in range(g * nodes_a_group, (g + 1) * nodes_a_group):
            for f in range(n_features):
                if lower[v, f] < upper[v, f]:
                    edges[f, lower[v, f]] += 1
                    edges[f, upper[v, f]] -= 1
        for f in range(n_features):
            boxes = 0
            for b in range(n_thresholds):
                boxes += edges[f, b]
                useful[g, f, b] = boxes > 0
    return useful


@compiled()
def child_positions(codes, starts, feature, split):
    """Where each row goes when the rows are sorted into the children of their nodes.

    Left comes before right and the order inside a child stays as it was.

    Parameters
    ----------
    codes : uint8 array of shape (n_rows, n_features)
        Sorted by node.
    feature, split : int64 arrays of shape (n_nodes,)
        Feature and threshold index of each node.

    Returns
    -------
    positions : uint32 array of shape (n_rows,)
        For `route_rows` and `route_labels`.
    child_starts : int64 array of shape (2 * n_nodes + 1,)
    """
    n_nodes = starts.shape[0] - 1
    positions = np.empty(codes.shape[0], dtype=np.uint32)
    child_starts = np.empty(2 * n_nodes + 1, dtype=np.int64)
    for v in range(n_nodes):
        column, out = codes[starts[v] : starts[v + 1], feature[v]], positions[starts[v] : starts[v + 1]]
        n_left = 0
        for i in range(column.shape[0]):
            n_left += column[i] <= split[v]
        to_left, to_right = starts[v], starts[v] + n_left
        child_starts[2 * v], child_starts[2 * v + 1] = to_left, to_right
        for i in range(column.shape[0]):
            goes_left = column[i] <= split[v]
            out[i] = to_left if goes_left else to_right
            to_left += goes_left
            to_right += 1 - goes_left
    child_starts[2 * n_nodes] = starts[n_nodes]
    return positions, child_starts


@compiled()
def route_rows(rows, positions, out):
    """Write row ``i`` of ``rows`` to row ``positions[i]`` of ``out``."""
    for i in range(rows.shape[0]):
        source, target = rows[i], out[positions[i]]
        for g in range(source.shape[0]):
            target[g] = source[g]


@compiled()
def route_labels(y, positions):
    """A copy of the labels in the order that `route_rows` gives the rows."""
    out = np.empty_like(y)
    for i in range(y.shape[0]):
        out[positions[i]] = y[i]
    return out


@compiled()
def class_counts(y, starts, n_classes):
    """Class counts of each node; int64 array of shape (n_nodes, n_classes)."""
    counts = np.zeros((starts.shape[0] - 1, n_classes), dtype=np.int64)
    for v in range(starts.shape[0] - 1):
        labels, row = y[starts[v] : starts[v + 1]], counts[v]
        for i in range(labels.shape[0]):
            row[labels[i]] += 1
    return counts
