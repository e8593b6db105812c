"""Splits by noised class counts (Favero et al. 2024, algorithms 1 to 3)."""

from __future__ import annotations

import numpy as np

from dpforest.forest import Forest
from dpforest.forest.codec import fill_inner_nodes
from dpforest.growers import kernels
from dpforest.growers.budget import TreePlan
from dpforest.growers.candidates import Bounds, candidates_of
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

    Parameters
    ----------
    X : ndarray of float32 or float64, shape (n_rows, n_features)
        Rows of this tree.
    y : ndarray of unsigned integers, shape (n_rows,)
        Class indices.
    tree_plan : TreePlan
        Has been asked for in the ledger.
    bounds : Bounds
        Where random thresholds lie.

    Returns
    -------
    Forest
        One tree, with ``output="counts"``.
    """
    candidates = candidates_of(X, schema, settings, bounds, noise)
    n_classes = schema.n_outputs
    entries = iter(tree_plan.count_entries)
    # The published plan is one entry for all nodes: it is charged once, here, and its queries are drawn one by one.
    every_node = settings.accounting == "published"
    root = np.bincount(y, minlength=n_classes)[None, :]
    paid = tree_plan.counts.charge(next(entries), ledger)
    counts = np.maximum(paid.draw(root, noise), 0)
    starts = np.array([0, len(y)], dtype=np.int64)
    tree = _Growing(counts)
    for _ in range(settings.depth):
        if not every_node:
            paid = tree_plan.counts.charge(next(entries), ledger)
        is_open = np.count_nonzero(counts, axis=1) > 1
        if not is_open.any():
            counts = counts[:0]
            continue
        sizes = np.diff(starts)
        in_open = np.repeat(is_open, sizes)
        candidates.keep(is_open, in_open)
        y, counts = y[in_open], counts[is_open]
        starts = np.concatenate([[0], np.cumsum(sizes[is_open])])
        node = np.arange(len(counts))
        codes = candidates.codes(starts, node, len(node))
        left = kernels.left_counts(codes, y, starts, n_classes, candidates.n_thresholds + 1)
        queries = left.size // n_classes  # published: each of them; else those of one node, as nodes hold disjoint rows
        noised = np.maximum(paid.draw(left, noise, queries if every_node else queries // len(node)), 0)
        noised = noised.reshape(len(node), -1, n_classes)
        picked = kernels.smallest_gini(counts, noised, settings.gini == "weighted")
        feature, split = np.divmod(picked, candidates.n_thresholds)
        left_child = noised[node, picked]
        right_child = np.maximum(counts - left_child, 0)
        counts = np.stack([left_child, right_child], axis=1).reshape(-1, n_classes)
        tree.split(is_open, feature, candidates.thresholds_of(node, feature, split), counts)
        positions, starts = kernels.child_positions(codes, starts, feature, split)
        candidates.route(positions, feature, split)
        y = kernels.route_labels(y, positions)
    return tree.finish(schema)


class _Growing:
    """A tree that grows by whole levels; each list holds one array a level."""

    def __init__(self, root_counts: np.ndarray) -> None:
        self._counts = [root_counts]
        self._feature: list[np.ndarray] = []
        self._threshold: list[np.ndarray] = []
        self._left: list[np.ndarray] = []

    def split(self, is_open: np.ndarray, feature: np.ndarray, threshold: np.ndarray, counts: np.ndarray) -> None:
        """Split the masked nodes of the last level; ``counts`` are of their children, left before right."""
        first_child = sum(len(level) for level in self._counts)
        self._add(is_open, feature, threshold, first_child + 2 * np.arange(len(feature)))
        self._counts.append(counts)

    def _add(self, is_open: np.ndarray, feature: np.ndarray, threshold: np.ndarray, left: np.ndarray) -> None:
        for levels, values, at_leaf in (
            (self._feature, feature, -1),
            (self._threshold, threshold, 0.0),
            (self._left, left, -1),
        ):
            level = np.full(len(is_open), at_leaf, dtype=values.dtype)
            level[is_open] = values
            levels.append(level)

    def finish(self, schema: Schema) -> Forest:
        """The tree; the nodes of the last level are leaves."""
        leaves = np.zeros(len(self._counts[-1]), dtype=bool)
        self._add(leaves, np.empty(0, np.int64), np.empty(0), np.empty(0, np.int64))
        value = np.concatenate(self._counts).astype(np.float64)
        tree = Forest(
            schema=schema,
            output="counts",
            offsets=np.array([0, len(value)], dtype=np.int64),
            feature=np.concatenate(self._feature).astype(np.int32),
            threshold=np.concatenate(self._threshold),
            left=np.concatenate(self._left).astype(np.int32),
            value=value,
            weight=value.sum(axis=1),
            base=np.zeros(schema.n_outputs),
            owners=("",),
        )
        fill_inner_nodes(tree)
        return tree
