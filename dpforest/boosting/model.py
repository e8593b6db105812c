"""A finished model as an ordinary forest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpforest.forest import Forest
from dpforest.forest.codec import fill_inner_nodes
from dpforest.own_rows import OwnRows
from dpforest.schema import Schema


@dataclass(frozen=True)
class CompleteTrees:
    """Complete trees of one depth, in breadth-first order.

    Parameters
    ----------
    feature, threshold : ndarray of shape (n_trees, 2 ** depth - 1)
        See `Questions.of`.
    weights : ndarray of float64, shape (n_trees, 2 ** depth, n_outputs)
    records : ndarray, shape (n_trees, 2 ** depth)
        Estimated records of each leaf, at least 0.
    """

    feature: np.ndarray
    threshold: np.ndarray
    weights: np.ndarray
    records: np.ndarray

    def nodes(self, first: int) -> tuple[np.ndarray, ...]:
        """Roots of the trees, and feature, threshold, left child, value and weight of all nodes, as in `Forest`.

        Parameters
        ----------
        first : int
            Number of the first node.
        """
        n_trees, n_inner = self.feature.shape
        n_nodes = 2 * n_inner + 1
        roots = first + np.arange(n_trees, dtype=np.int64) * n_nodes
        feature = np.full((n_trees, n_nodes), -1, dtype=np.int32)
        feature[:, :n_inner] = self.feature
        threshold = np.zeros((n_trees, n_nodes))
        threshold[:, :n_inner] = self.threshold
        left = np.full((n_trees, n_nodes), -1, dtype=np.int32)
        left[:, :n_inner] = roots[:, None] + 2 * np.arange(n_inner) + 1
        value = np.zeros((n_trees, n_nodes, self.weights.shape[2]))
        value[:, n_inner:] = self.weights
        weight = np.zeros((n_trees, n_nodes))
        weight[:, n_inner:] = self.records
        return (
            roots,
            feature.ravel(),
            threshold.ravel(),
            left.ravel(),
            value.reshape(-1, value.shape[2]),
            weight.ravel(),
        )


def score_scale(y: np.ndarray, schema: Schema) -> np.ndarray:
    """Targets from -1 to 1 along their public range, as scores are.

    Parameters
    ----------
    schema : Schema
        With a target range.
    """
    low, high = schema.target_range or (0.0, 0.0)
    return (y - low) * (2 / (high - low)) - 1


def forest_of(
    trees: Sequence[CompleteTrees],
    base: np.ndarray,
    schema: Schema,
    sets: np.ndarray,
    provenance: Mapping[str, Any],
    own: OwnRows | None = None,
) -> Forest:
    """Trees of several depths as one forest.

    Parameters
    ----------
    base : ndarray of shape (n_outputs,)
        Score before the first tree; of a regression between -1 and 1, as are the weights.
    own : OwnRows, optional
        Where trees ask rows on their person's own scale.
    """
    parts, n_nodes = [], 0
    for each in trees:
        parts.append(each.nodes(n_nodes))
        n_nodes += len(parts[-1][1])
    roots, feature, threshold, left, value, weight = (np.concatenate(part) for part in zip(*parts, strict=True))
    if schema.target_range is not None:
        low, high = schema.target_range
        value *= (high - low) / 2
        base = low + (base + 1) * ((high - low) / 2)
    forest = Forest(
        schema=schema,
        output="logit" if schema.is_classification else "target_sum",
        offsets=np.append(roots, n_nodes),
        feature=feature,
        threshold=threshold,
        left=left,
        value=value,
        weight=weight,
        base=base,
        owners=("",) * len(roots),
        provenance=provenance,
        sets=sets,
        own=own,
    )
    fill_inner_nodes(forest)
    return forest
