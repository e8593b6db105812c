"""Numba kernel of trees whose thresholds are the data's own values."""

from __future__ import annotations

import numpy as np

from dpforest.compiled import compiled


@compiled()
def _plogp_table(size):
    table = np.zeros(size + 1)
    for n in range(2, size + 1):
        table[n] = n * np.log2(n)
    return table


@compiled()
def grow_at_own_values(
    columns,
    y,
    n_classes,
    order,
    strength,
    max_depth,
    min_leaf,
    feature,
    threshold,
    left,
    depth,
    first,
    last,
    v,
    n_nodes,
    draws,
):
    """Grow one tree node by node; each split is drawn with probability proportional to ``exp(strength * gain)``.

    Ends where ``draws`` might not suffice for the next node: call it again with more, to go on from there.

    Parameters
    ----------
    columns : float32 array of shape (n_features, n_rows)
    y : float64 array of shape (n_rows,)
        Targets, or class indices.
    n_classes : int
        0 for a regression: the gain is then the fall of the variance, otherwise of the entropy in bits.
    order : int32 array of shape (n_features, n_rows)
        Rows sorted by each feature; is reordered.
    strength : float
        Infinite: the largest gain, the first of equals; minus infinity: the smallest.
    max_depth, min_leaf : int
    feature, threshold, left, depth, first, last : arrays of shape (2 n_rows - 1,)
        The tree so far; is written to. Node ``v`` holds the rows ``order[0, first[v]:last[v]]``.
    v, n_nodes : int
        Nodes that are finished, and that there are.
    draws : float64 array
        Standard exponential draws, for all candidates of a node at least; none where ``strength`` is infinite.

    Returns
    -------
    v, n_nodes, used : int
        The same, and how many draws were used.
    """
    n_features, n_rows = order.shape
    plogp = _plogp_table(n_rows if n_classes > 0 else 1)
    totals = np.zeros(max(n_classes, 1))
    lefts = np.zeros(max(n_classes, 1))
    goes_left = np.zeros(n_rows, dtype=np.bool_)
    spare = np.empty(n_rows, dtype=np.int32)
    greedy = np.isinf(strength)
    direction = 1.0 if strength > 0 else -1.0
    used = 0
    while v < n_nodes:
        a, b = first[v], last[v]
        n = b - a
        if n < 2 * min_leaf or depth[v] >= max_depth:
            v += 1
            continue
        if not greedy and len(draws) - used < n_features * (n - 1):
            break
        whole, unlike = 0.0, False
        of_node = 0.0
        if n_classes > 0:
            totals[:] = 0.0
        for i in range(a, b):
            target = y[order[0, i]]
            unlike |= target != y[order[0, a]]
            whole += target
            if n_classes > 0:
                totals[np.int64(target)] += 1.0
        if not unlike:
            v += 1
            continue
        if n_classes > 0:
            of_node = plogp[n]
            for c in range(n_classes):
                of_node -= plogp[np.int64(totals[c])]
        best_f, best_t, best, largest = -1, np.float32(0.0), 0, -np.inf
        for f in range(n_features):
            column, values = order[f], columns[f]
            sum_left, inside_left, inside_right = 0.0, 0.0, 0.0
            if n_classes > 0:
                lefts[:] = 0.0
                for c in range(n_classes):
                    inside_right += plogp[np.int64(totals[c])]
            for i in range(a, b - 1):
                row = column[i]
                target = y[row]
                if n_classes > 0:
                    c = np.int64(target)
                    k = np.int64(lefts[c])
                    m = np.int64(totals[c]) - k
                    inside_left += plogp[k + 1] - plogp[k]
                    inside_right += plogp[m - 1] - plogp[m]
                    lefts[c] += 1.0
                else:
                    sum_left += target
                n_left = i + 1 - a
                if values[row] == values[column[i + 1]] or n_left < min_leaf or n - n_left < min_leaf:
                    continue
                if n_classes > 0:
                    after = plogp[n_left] - inside_left + plogp[n - n_left] - inside_right
                    gain = (of_node - after) / n
                else:
                    rest = whole - sum_left
                    gain = (sum_left * sum_left / n_left + rest * rest / (n - n_left) - whole * whole / n) / n
                # The largest score with Gumbel noise is the exponential mechanism's draw.
                if greedy:
                    noised = direction * gain
                else:
                    noise = draws[used]
                    used += 1
                    noised = strength * gain
                    # -log(noise) is below 1 / noise, so that most candidates need no logarithm.
                    if not noise * (largest - noised) >= 1.0:
                        noised -= np.log(noise)
                if noised > largest:
                    best_f, best_t, best, largest = f, values[row], n_left, noised
        if best_f < 0:
            v += 1
            continue
        for i in range(a, b):
            goes_left[order[0, i]] = columns[best_f, order[0, i]] <= best_t
        for f in range(n_features):
            column = order[f]
            to_left, to_right = a, 0
            for i in range(a, b):
                row = column[i]
                if goes_left[row]:
                    column[to_left] = row
                    to_left += 1
                else:
                    spare[to_right] = row
                    to_right += 1
            for i in range(to_right):
                column[to_left + i] = spare[i]
        feature[v], threshold[v], left[v] = best_f, best_t, n_nodes
        first[n_nodes], last[n_nodes] = a, a + best
        first[n_nodes + 1], last[n_nodes + 1] = a + best, b
        depth[n_nodes] = depth[v] + 1
        depth[n_nodes + 1] = depth[v] + 1
        n_nodes += 2
        v += 1
    return v, n_nodes, used


@compiled()
def leaf_values(y, n_classes, rows, left, first, last):
    """Exact mean of the targets, or shares of the classes, in every leaf; shape (n_nodes, max(n_classes, 1)).

    Parameters
    ----------
    rows : int32 array of shape (n_rows,)
        ``order[0]`` of `grow_at_own_values`, whose other parameters and results these are.
    """
    value = np.zeros((left.shape[0], max(n_classes, 1)))
    for v in range(left.shape[0]):
        if left[v] < 0:
            for i in range(first[v], last[v]):
                target = y[rows[i]]
                if n_classes > 0:
                    value[v, np.int64(target)] += 1.0
                else:
                    value[v, 0] += target
            for k in range(value.shape[1]):
                value[v, k] /= last[v] - first[v]
    return value
