"""Complete trees as a forest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpforest.forest import Forest
from dpforest.forest.codec import fill_inner_nodes
from dpforest.own_rows import FARTHEST, RANKS, STEPS, OwnRows
from dpforest.schema import Schema

# Feature, threshold, value and weight of trees of one depth, as `complete_forest` takes them.
Trees = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


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


@dataclass(frozen=True)
class Line:
    """How a tree holds a straight line over one column: a leaf for each value that the column has.

    Parameters
    ----------
    points : ndarray of shape (2 ** depth,)
        The values, increasing; the last ones may be beyond all that the column has.
    chances : ndarray of the same shape
        Part of the rows that have each value, about.
    """

    points: np.ndarray
    chances: np.ndarray

    @classmethod
    def of_z(cls) -> Line:
        """Of standardised values (`OwnRows.steps`), which are about normal."""
        points = -FARTHEST + np.arange(64) / STEPS
        chances = np.exp(-(points**2) / 2)
        return cls(points, chances / chances.sum())

    @classmethod
    def of_ranks(cls) -> Line:
        """Of ranks."""
        return cls((np.arange(RANKS) + 0.5) / RANKS, np.full(RANKS, 1 / RANKS))

    def trees(self, slopes: np.ndarray, first: int, rows: float) -> Trees:
        """A tree a column, as `complete_forest` takes them: feature, threshold, value, weight.

        Parameters
        ----------
        slopes : ndarray of shape (n_columns, n_outputs)
            What each column adds to a score for 1 of its value.
        first : int
            Feature of the first column.
        rows : float
            In each tree.
        """
        n, leaves = len(slopes), len(self.points)
        depth = leaves.bit_length() - 1
        between = ((self.points[:-1] + self.points[1:]) / 2).astype(np.float32).astype(np.float64)
        order = [(2 * np.arange(1 << level) + 1) * (1 << (depth - 1 - level)) - 1 for level in range(depth)]
        return (
            np.repeat(first + np.arange(n)[:, None], leaves - 1, axis=1),
            np.tile(between[np.concatenate(order)], (n, 1)),
            self.points[None, :, None] * slopes[:, None, :],
            np.tile(rows * self.chances, (n, 1)),
        )


def linear_forest(
    own: OwnRows, slopes: np.ndarray, offset: np.ndarray, ranks: bool, provenance: Mapping[str, Any]
) -> Forest:
    """A linear model of rows on a person's own scale, as a forest with the same predictions.

    Parameters
    ----------
    slopes : ndarray of shape (n_columns, n_classes)
        Of standardised values, or of ranks.
    offset : ndarray of shape (n_classes,)
    """
    line, first = (Line.of_ranks(), 0) if ranks else (Line.of_z(), len(own.columns))
    no_sets = np.zeros((0, 0), dtype=bool)
    return complete_forest(own.standardized, *line.trees(slopes, first, 1.0), offset, provenance, no_sets, own)
