"""Splits by noised class counts (Favero et al. 2024, algorithms 1 to 3)."""

from __future__ import annotations

import numpy as np

from dpforest.forest import Forest
from dpforest.forest.codec import fill_inner_nodes
from dpforest.growers import kernels
from dpforest.growers.budget import TreePlan
from dpforest.growers.candidates import Bounds
from dpforest.growers.settings import ResolvedSettings
from dpforest.ledger import Ledger
from dpforest.noise import Noise
from dpforest.schema import Schema


def grow_by_noisy_counts(
    X: np.ndarray,
    y: np.ndarray,
    schema: Schema,
    settings: ResolvedSettings,
    tree_plan: TreePlan,
    ledger: Ledger,
    noise: Noise,
    bounds: Bounds,
) -> Forest:
    """Grow one tree; a child's counts are what was noised when its parent was split.

    A node stops at the full depth or when its noised counts are pure. The noised left counts of every candidate are
    clipped at 0, and so are the right ones, which are the parent's minus the left's (both are post-processing).
    """
    n_classes = schema.n_outputs
    X = np.ascontiguousarray(X)
    entries = iter(tree_plan.count_entries)
    entry = next(entries)
    every_node = settings.accounting == "published"
    root = np.bincount(y, minlength=n_classes)[None, :]
    # The published plan is one entry for all nodes: it is charged once, here.
    counts = np.maximum(tree_plan.counts.release(root, entry, ledger, noise), 0)
    nodes = [(np.arange(len(y)), 0)]
    tree = _Growing(n_classes)
    tree.add(counts[0])
    for _ in range(settings.depth):
        open_nodes = [(rows, v) for rows, v in nodes if np.count_nonzero(tree.counts[v]) > 1]
        if not every_node:
            ledger.charge(next(entries))
        if not open_nodes:
            nodes = []
            continue
        thresholds = _thresholds(schema, settings, bounds, len(open_nodes), noise)
        left = np.stack(
            [_left_counts(X, y, rows, t, n_classes) for (rows, _), t in zip(open_nodes, thresholds, strict=True)]
        )
        noised = np.maximum(tree_plan.counts.draw(left, noise), 0)
        nodes = []
        for (rows, v), node_thresholds, node_counts in zip(open_nodes, thresholds, noised, strict=True):
            right = np.maximum(tree.counts[v] - node_counts, 0)
            impurity = _mean_gini(node_counts, right, settings.gini)
            f, b = np.unravel_index(np.argmin(impurity), impurity.shape)
            threshold = node_thresholds[f, b]
            child = tree.split(v, int(f), float(threshold), node_counts[f, b], right[f, b])
            goes_left = X[rows, f] <= threshold
            nodes += [(rows[goes_left], child), (rows[~goes_left], child + 1)]
    return tree.finish(schema)


class _Growing:
    """Node lists of a tree whose nodes are appended breadth first."""

    def __init__(self, n_classes: int) -> None:
        self.feature: list[int] = []
        self.threshold: list[float] = []
        self.left: list[int] = []
        self.counts: list[np.ndarray] = []
        self._n_classes = n_classes

    def add(self, counts: np.ndarray) -> int:
        self.feature.append(-1)
        self.threshold.append(0.0)
        self.left.append(-1)
        self.counts.append(counts)
        return len(self.feature) - 1

    def split(self, node: int, feature: int, threshold: float, left: np.ndarray, right: np.ndarray) -> int:
        self.feature[node], self.threshold[node] = feature, threshold
        self.left[node] = self.add(left)
        self.add(right)
        return self.left[node]

    def finish(self, schema: Schema) -> Forest:
        value = np.array(self.counts, dtype=np.float64)
        tree = Forest(
            schema=schema,
            output="counts",
            offsets=np.array([0, len(self.feature)], dtype=np.int64),
            feature=np.array(self.feature, dtype=np.int32),
            threshold=np.array(self.threshold),
            left=np.array(self.left, dtype=np.int32),
            value=value,
            weight=value.sum(axis=1),
            base=np.zeros(self._n_classes),
            owners=("",),
        )
        fill_inner_nodes(tree)
        return tree


def _thresholds(schema: Schema, settings: ResolvedSettings, bounds: Bounds, n_nodes: int, noise: Noise) -> np.ndarray:
    if settings.candidates == "random":
        return bounds.random_thresholds(n_nodes, settings.thresholds, noise.generator())
    return np.broadcast_to(np.stack(schema.grid(settings.bins)), (n_nodes, schema.n_features, settings.bins - 1))


def _left_counts(X: np.ndarray, y: np.ndarray, rows: np.ndarray, thresholds: np.ndarray, n_classes: int) -> np.ndarray:
    """Class counts at or below each threshold; (n_features, n_thresholds, n_classes)."""
    codes = kernels.bin_rows(X[rows], thresholds.astype(X.dtype))
    histogram = np.zeros((X.shape[1], thresholds.shape[1] + 1, n_classes), dtype=np.int64)
    kernels.count_classes(codes, y[rows], 0, len(rows), histogram)
    return np.cumsum(histogram, axis=1)[:, :-1]


def _mean_gini(left: np.ndarray, right: np.ndarray, mean: str) -> np.ndarray:
    """Average Gini of two children from (non-negative) counts; the last axis are classes."""
    n_left, n_right = left.sum(axis=-1), right.sum(axis=-1)
    gini_left, gini_right = _gini(left, n_left), _gini(right, n_right)
    if mean == "mean":
        return (gini_left + gini_right) / 2
    return (n_left * gini_left + n_right * gini_right) / np.maximum(n_left + n_right, 1)


def _gini(counts: np.ndarray, total: np.ndarray) -> np.ndarray:
    # A child without any count says nothing: its Gini is taken as 1, the upper bound, so that it is never preferred.
    share = counts / np.maximum(total, 1)[..., None]
    return 1.0 - (share**2).sum(axis=-1)
