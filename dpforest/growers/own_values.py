"""Trees as FEXT-DP describes them (Oliveira et al., algorithm 1): no guarantee, for comparison only.

The candidates of a node are the data's own values, its leaves hold exact means (or class shares), and epsilon is spent
anew in every split with a sensitivity that is assumed. What such a tree tells is in `UNPROTECTED`: a caller writes it
into its ledger.
"""

from __future__ import annotations

import math

import numpy as np

from dpforest.errors import DPForestError
from dpforest.forest import Forest
from dpforest.forest.codec import fill_inner_nodes
from dpforest.growers.own_value_kernels import grow_at_own_values, leaf_values
from dpforest.schema import Schema

# Noise that is drawn at once, at least.
_DRAWS = 1 << 15
UNPROTECTED = (
    "thresholds are values of records, so a tree prints parts of records",
    "leaf means and record counts carry no noise",
    "epsilon is spent in every split and never added up over nodes, trees and rounds",
    "the sensitivity of the gain is assumed, not proven",
)


def grow_with_own_values(
    X: np.ndarray,
    y: np.ndarray,
    schema: Schema,
    epsilon: float,
    rng: np.random.Generator,
    *,
    sensitivity: float = 1.0,
    sign_as_printed: bool = False,
    depth: int = 40,
    min_leaf: int = 1,
) -> Forest:
    """Grow one tree to purity.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        At least one row; thresholds are its values in single precision.
    y : ndarray of shape (n_rows,)
        Targets, or class indices.
    schema : Schema
    epsilon : float
        Of one split; ``inf`` takes the largest gain.
    rng : Generator
        Is left further on than the tree needed.
    sensitivity : float
        What the exponent divides by, in the unit of the gain: squared units of the target, or bits. The paper does
        not give it.
    sign_as_printed : bool
        Line 11 has ``exp(-epsilon gain / (2 sensitivity))``, which prefers the worst split; False mends the sign.
    depth, min_leaf : int
        Limits that the paper does not give.

    Returns
    -------
    Forest
        With ``output="target"`` or ``"probability"``; weights are exact numbers of records.

    Raises
    ------
    DPForestError
        There are no rows.
    """
    if not len(y):
        raise DPForestError("a tree at the data's own values needs at least one row")
    columns = np.ascontiguousarray(np.asarray(X, dtype=np.float32).T)
    y = np.asarray(y, dtype=np.float64)
    n_classes = len(schema.classes)
    order = np.argsort(columns, axis=1, kind="stable").astype(np.int32)
    strength = (-1.0 if sign_as_printed else 1.0) * (math.inf if math.isinf(epsilon) else epsilon / (2.0 * sensitivity))
    feature, threshold, left, first, last = _grow(columns, y, n_classes, order, strength, depth, min_leaf, rng)
    is_leaf = left < 0
    value = leaf_values(y, n_classes, order[0], left, first, last)
    forest = Forest(
        schema=schema,
        output="probability" if n_classes else "target",
        offsets=np.array([0, len(feature)], dtype=np.int64),
        feature=feature,
        threshold=threshold,
        left=left,
        value=value,
        weight=np.where(is_leaf, last - first, 0).astype(np.float64),
        base=np.zeros(schema.n_outputs),
        owners=("",),
    )
    fill_inner_nodes(forest)
    return forest


def _grow(
    columns: np.ndarray,
    y: np.ndarray,
    n_classes: int,
    order: np.ndarray,
    strength: float,
    depth: int,
    min_leaf: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, ...]:
    """Feature, threshold, left child, first and last row of every node; draws for the kernel, which must not itself."""
    most = 2 * len(y) - 1
    feature, left = np.full(most, -1, dtype=np.int32), np.full(most, -1, dtype=np.int32)
    threshold, depths = np.zeros(most), np.zeros(most, dtype=np.int32)
    first, last = np.zeros(most, dtype=np.int64), np.zeros(most, dtype=np.int64)
    last[0] = len(y)
    done, n_nodes, draws = 0, 1, np.empty(0)
    while True:
        done, n_nodes, used = grow_at_own_values(
            columns, y, n_classes, order, strength, depth, min_leaf,
            feature, threshold, left, depths, first, last, done, n_nodes, draws,
        )  # fmt: skip
        if done == n_nodes:
            return feature[:n_nodes], threshold[:n_nodes], left[:n_nodes], first[:n_nodes], last[:n_nodes]
        wanted = max(_DRAWS, len(columns) * int(last[done] - first[done]))
        draws = np.concatenate([draws[used:], rng.standard_exponential(wanted)])
