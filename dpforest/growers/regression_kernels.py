"""Numba kernels of the regression growers: scores of public candidates, and the splits of the published method."""

from __future__ import annotations

import numpy as np

from dpforest.compiled import compiled
from dpforest.growers.kernels import floor_root

DIRECTION_UNIT = 256
_LARGEST_NORM = 1 << 30


@compiled(inline="always")
def capped_norm(x, y):
    """``min(floor(sqrt(x^2 + y^2)), _LARGEST_NORM)`` of whole numbers, in exact integer arithmetic.

    A coordinate that reaches the cap makes the norm reach it too, and below the cap ``x^2 + y^2 < 2 ** 61``: nothing
    overflows, whatever the number of rows (4,194,304 rows of one direction make the cap).
    """
    if abs(x) >= _LARGEST_NORM or abs(y) >= _LARGEST_NORM:
        return np.int64(_LARGEST_NORM)
    return min(floor_root(x * x + y * y), np.int64(_LARGEST_NORM))


@compiled()
def direction_scores(codes, directions, starts, group, n_groups, n_bins):
    """Scores of all candidates of one level, summed over the nodes of each group.

    Parameters
    ----------
    codes : uint8 array of shape (n_rows, n_features)
        See `dpforest.growers.kernels`; sorted by node.
    directions : int32 array of shape (n_rows, 2)
        Vectors of length at most `DIRECTION_UNIT`, in the same order.
    starts : int64 array of shape (n_nodes + 1,)
    group : int64 array of shape (n_nodes,)

    Returns
    -------
    int64 array of shape (n_groups, n_features, n_bins - 1)
        ``floor|sum left| + floor|sum right| + DIRECTION_UNIT * rows`` of every node, norms capped by `capped_norm`.
    """
    n_features = codes.shape[1]
    scores = np.zeros((n_groups, n_features, n_bins - 1), dtype=np.int64)
    sums = np.empty((n_bins, n_features, 2), dtype=np.int64)
    for v in range(starts.shape[0] - 1):
        first, last = starts[v], starts[v + 1]
        sums[:] = 0
        whole_x, whole_y = np.int64(0), np.int64(0)
        for i in range(first, last):
            x, y = np.int64(directions[i, 0]), np.int64(directions[i, 1])
            whole_x += x
            whole_y += y
            for f in range(n_features):
                sums[codes[i, f], f, 0] += x
                sums[codes[i, f], f, 1] += y
        of_all = DIRECTION_UNIT * (last - first)
        out = scores[group[v]]
        for f in range(n_features):
            x, y = np.int64(0), np.int64(0)
            for b in range(n_bins - 1):
                x += sums[b, f, 0]
                y += sums[b, f, 1]
                rest_x, rest_y = whole_x - x, whole_y - y
                out[f, b] += of_all + capped_norm(x, y) + capped_norm(rest_x, rest_y)
    return scores


@compiled()
def sums_by_node(values, starts):
    """Sums of the rows of each node; int64 array of shape (n_nodes, n_columns)."""
    sums = np.zeros((starts.shape[0] - 1, values.shape[1]), dtype=np.int64)
    for v in range(starts.shape[0] - 1):
        for i in range(starts[v], starts[v + 1]):
            for k in range(values.shape[1]):
                sums[v, k] += values[i, k]
    return sums
