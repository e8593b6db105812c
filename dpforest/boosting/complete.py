"""Complete trees as a forest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dpforest.forest import Forest
from dpforest.forest.codec import fill_inner_nodes
from dpforest.own_rows import FARTHEST, STEPS, OwnRows
from dpforest.schema import Schema

# Depth of the tree that holds a straight line: it has a leaf for each step of a standardised value.
_LINE_DEPTH = 6


def complete_forest(
    schema: Schema,
    feature: np.ndarray,
    threshold: np.ndarray,
    value: np.ndarray,
    weight: np.ndarray,
    base: np.ndarray,
    provenance: Mapping[str, Any],
    sets: np.ndarray,
    own: OwnRows | None = None,
) -> Forest:
    """Trees of one depth, whose leaves are added up.

    Parameters
    ----------
    feature, threshold : ndarray of shape (n_trees, n_inner)
        What each inner node asks, in breadth-first order.
    value : ndarray of shape (n_trees, n_inner + 1, n_outputs)
        Of the leaves.
    weight : ndarray of shape (n_trees, n_inner + 1)
    """
    n_trees, n_inner = feature.shape
    n_nodes = 2 * n_inner + 1
    first = np.arange(n_trees, dtype=np.int64)[:, None] * n_nodes
    node_feature = np.full((n_trees, n_nodes), -1, dtype=np.int32)
    node_feature[:, :n_inner] = feature
    node_threshold = np.zeros((n_trees, n_nodes))
    node_threshold[:, :n_inner] = threshold
    left = np.full((n_trees, n_nodes), -1, dtype=np.int32)
    left[:, :n_inner] = first + 2 * np.arange(n_inner) + 1
    node_value = np.zeros((n_trees, n_nodes, schema.n_outputs))
    node_value[:, n_inner:] = value
    node_weight = np.zeros((n_trees, n_nodes))
    node_weight[:, n_inner:] = weight
    forest = Forest(
        schema=schema,
        output="logit" if schema.is_classification else "target_sum",
        offsets=np.arange(n_trees + 1, dtype=np.int64) * n_nodes,
        feature=node_feature.ravel(),
        threshold=node_threshold.ravel(),
        left=left.ravel(),
        value=node_value.reshape(-1, schema.n_outputs),
        weight=node_weight.ravel(),
        base=base,
        owners=("",) * n_trees,
        provenance=provenance,
        sets=sets,
        own=own,
    )
    fill_inner_nodes(forest)
    return forest


def lines(slopes: np.ndarray, first: int, rows: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Trees that hold a straight line each, exact at the steps of standardised values (`OwnRows.steps`).

    Parameters
    ----------
    slopes : ndarray of shape (n_columns, n_outputs)
        What each column adds to a score for 1 of its value.
    first : int
        Feature of the first column.
    rows : float
        In each tree; its leaves share them like a normal distribution.

    Returns
    -------
    feature, threshold, value, weight : ndarray
        As `complete_forest` takes them.
    """
    n, leaves = len(slopes), 1 << _LINE_DEPTH
    points = -FARTHEST + np.arange(leaves) / STEPS
    between = (points[:-1] + points[1:]) / 2
    order = np.concatenate(
        [(2 * np.arange(1 << level) + 1) * (1 << (_LINE_DEPTH - 1 - level)) - 1 for level in range(_LINE_DEPTH)]
    )
    threshold = between.astype(np.float32).astype(np.float64)[order]
    bell = np.exp(-(points**2) / 2)
    return (
        np.repeat(first + np.arange(n)[:, None], leaves - 1, axis=1),
        np.tile(threshold, (n, 1)),
        points[None, :, None] * slopes[:, None, :],
        np.tile(rows * bell / bell.sum(), (n, 1)),
    )
