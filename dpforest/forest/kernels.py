"""Numba kernels that walk rows down trees."""

from __future__ import annotations

import numpy as np

from dpforest.compiled import compiled

_BLOCK = 256


@compiled()
def _walk_down(rows, root, depth, feature, threshold, left, node):
    """Write the node ``depth`` steps below ``root`` of each row to ``node``.

    Leaves point at themselves with an infinite threshold, so that all rows of a block take the same number of
    steps and the inner loop has no branch. Unsigned indices spare Numba's wrap-around check, half of the time.
    """
    n_rows, n_features = np.uint64(rows.shape[0]), np.uint64(rows.shape[1])
    cells = rows.reshape(-1)
    asked, lefts = feature.view(np.uint32), left.view(np.uint32)
    node[:] = root
    for _ in range(depth):
        for i in range(n_rows):
            v = node[i]
            node[i] = lefts[v] + np.uint32(cells[i * n_features + asked[v]] > threshold[v])


@compiled()
def leaves_of(X, offsets, depths, feature, threshold, left):
    """Leaf of every row in every tree.

    Parameters
    ----------
    X : C-contiguous float array of shape (n_rows, n_features)
    offsets, depths : integer arrays of shape (n_trees + 1,) and (n_trees,)
    feature, left : int32 arrays of shape (n_nodes,)
        At a leaf: any feature, and the leaf itself.
    threshold : float array of shape (n_nodes,)
        Infinite at a leaf.

    Returns
    -------
    int32 array of shape (n_rows, n_trees)
        Global node indices.
    """
    n_rows = X.shape[0]
    n_trees = offsets.shape[0] - 1
    leaves = np.empty((n_rows, n_trees), dtype=np.int32)
    node = np.empty(_BLOCK, dtype=np.uint32)
    for start in range(0, n_rows, _BLOCK):
        rows, out = X[start : start + _BLOCK], leaves[start : start + _BLOCK]
        for tree in range(n_trees):
            _walk_down(rows, offsets[tree], depths[tree], feature, threshold, left, node)
            for i in range(out.shape[0]):
                out[i, tree] = node[i]
    return leaves


@compiled()
def sum_of_leaf_values(X, offsets, depths, feature, threshold, left, value):
    """Sum over all trees of the reached leaves' values; float64 array of shape (n_rows, n_outputs).

    Parameters are those of `leaves_of`, and ``value``, a float array of shape (n_nodes, n_outputs).
    """
    n_rows = X.shape[0]
    total = np.zeros((n_rows, value.shape[1]), dtype=np.float64)
    node = np.empty(_BLOCK, dtype=np.uint32)
    for start in range(0, n_rows, _BLOCK):
        rows, out = X[start : start + _BLOCK], total[start : start + _BLOCK]
        for tree in range(offsets.shape[0] - 1):
            _walk_down(rows, offsets[tree], depths[tree], feature, threshold, left, node)
            for i in range(out.shape[0]):
                row, leaf = out[i], value[node[i]]
                for k in range(row.shape[0]):
                    row[k] += leaf[k]
    return total


@compiled()
def sums_to_root(offsets, left, leaf_rows):
    """Fill every inner node's row of ``leaf_rows``, shape (n_nodes, n_columns), with the sum of its children, in place.

    Children come after their parent.
    """
    for tree in range(offsets.shape[0] - 1):
        for v in range(offsets[tree + 1] - 1, offsets[tree] - 1, -1):
            if left[v] >= 0:
                for k in range(leaf_rows.shape[1]):
                    leaf_rows[v, k] = leaf_rows[left[v], k] + leaf_rows[left[v] + 1, k]


@compiled()
def means_to_root(offsets, left, leaf_rows, weight):
    """Fill every inner node with the mean of the leaves below it by their weights, in place."""
    n_columns = leaf_rows.shape[1]
    sums = np.empty((left.shape[0], n_columns), dtype=np.float64)
    shares = np.empty(left.shape[0], dtype=np.float64)
    for tree in range(offsets.shape[0] - 1):
        for v in range(offsets[tree + 1] - 1, offsets[tree] - 1, -1):
            if left[v] < 0:
                # A tiny weight everywhere keeps the mean of empty leaves defined.
                shares[v] = weight[v] + 1e-9
                for k in range(n_columns):
                    sums[v, k] = leaf_rows[v, k] * shares[v]
            else:
                shares[v] = shares[left[v]] + shares[left[v] + 1]
                for k in range(n_columns):
                    sums[v, k] = sums[left[v], k] + sums[left[v] + 1, k]
                    leaf_rows[v, k] = sums[v, k] / shares[v]


@compiled()
def node_depths(offsets, left):
    """Depth of every node below its root; int32 array of shape (n_nodes,)."""
    depth = np.zeros(left.shape[0], dtype=np.int32)
    for v in range(left.shape[0]):
        if left[v] >= 0:
            depth[left[v]] = depth[v] + 1
            depth[left[v] + 1] = depth[v] + 1
    return depth
