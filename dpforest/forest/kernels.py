"""Numba kernels that walk rows down trees."""

from __future__ import annotations

import numpy as np
from numba import njit

_BLOCK = 128


@njit(cache=True, nogil=True)
def leaves_of(X, offsets, depths, feature, threshold, left):
    """Leaf of every row in every tree.

    Leaves point at themselves with an infinite threshold, so that all rows of a block take the same number of
    steps and the inner loop has no branch.

    Returns
    -------
    int32 array of shape (n_rows, n_trees)
        Global node indices.
    """
    n_rows = X.shape[0]
    n_trees = offsets.shape[0] - 1
    leaves = np.empty((n_rows, n_trees), dtype=np.int32)
    node = np.empty(_BLOCK, dtype=np.int32)
    for start in range(0, n_rows, _BLOCK):
        size = min(_BLOCK, n_rows - start)
        for tree in range(n_trees):
            node[:] = offsets[tree]
            for _ in range(depths[tree]):
                for i in range(size):
                    v = node[i]
                    node[i] = left[v] + (X[start + i, feature[v]] > threshold[v])
            for i in range(size):
                leaves[start + i, tree] = node[i]
    return leaves


@njit(cache=True, nogil=True)
def sum_of_leaf_values(X, offsets, depths, feature, threshold, left, value):
    """Sum over all trees of the reached leaves' values; float64 array of shape (n_rows, n_outputs)."""
    n_rows = X.shape[0]
    n_outputs = value.shape[1]
    total = np.zeros((n_rows, n_outputs), dtype=np.float64)
    node = np.empty(_BLOCK, dtype=np.int32)
    for start in range(0, n_rows, _BLOCK):
        size = min(_BLOCK, n_rows - start)
        for tree in range(offsets.shape[0] - 1):
            node[:] = offsets[tree]
            for _ in range(depths[tree]):
                for i in range(size):
                    v = node[i]
                    node[i] = left[v] + (X[start + i, feature[v]] > threshold[v])
            for i in range(size):
                v = node[i]
                for k in range(n_outputs):
                    total[start + i, k] += value[v, k]
    return total


@njit(cache=True, nogil=True)
def sums_to_root(offsets, left, leaf_rows):
    """Fill every inner node with the sum of its children, in place; children come after their parent."""
    for tree in range(offsets.shape[0] - 1):
        for v in range(offsets[tree + 1] - 1, offsets[tree] - 1, -1):
            if left[v] >= 0:
                for k in range(leaf_rows.shape[1]):
                    leaf_rows[v, k] = leaf_rows[left[v], k] + leaf_rows[left[v] + 1, k]


@njit(cache=True, nogil=True)
def node_depths(offsets, left):
    """Depth of every node below its root; int32 array of shape (n_nodes,)."""
    depth = np.zeros(left.shape[0], dtype=np.int32)
    for v in range(left.shape[0]):
        if left[v] >= 0:
            depth[left[v]] = depth[v] + 1
            depth[left[v] + 1] = depth[v] + 1
    return depth
