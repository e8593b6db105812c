"""Growing the private classification trees of one client."""

from __future__ import annotations

import numpy as np

from dpforest.forest import Forest, concatenate
from dpforest.forest.codec import fill_inner_nodes
from dpforest.growers import kernels
from dpforest.growers.budget import TreePlan, plan
from dpforest.growers.candidates import Bounds, candidates_of, rows_of_trees
from dpforest.growers.noisy_counts import grow_by_noisy_counts
from dpforest.growers.settings import ResolvedSettings
from dpforest.ledger import Entry, Ledger
from dpforest.noise import Noise
from dpforest.schema import Schema

# Levels up to this depth keep their histograms, so that a child's is its parent's minus its sibling's. Deeper
# nodes hold so few rows that counting is cheaper than subtracting.
_DEEPEST_KEPT_LEVEL = 6
# Below every real score (at least 0) and far from the limits of 64-bit integers even with noise.
_USELESS = -(1 << 50)


def planned_entries(settings: ResolvedSettings, epsilon: float, schema: Schema) -> list[Entry]:
    """Everything that growing will release, for `Ledger.require` and for showing before a run.

    Parameters
    ----------
    settings : ResolvedSettings
        With nothing left on ``auto``.
    epsilon : float
        Total budget.
    schema : Schema
        Public description of the rows.

    Returns
    -------
    list of Entry
        In the order of the releases.
    """
    plans = plan(settings, epsilon, schema.n_features, kernels.SCORE_UNIT)
    return [entry for tree in plans for entry in tree.entries]


def grow_classifier(
    X: np.ndarray,
    y: np.ndarray,
    schema: Schema,
    settings: ResolvedSettings,
    epsilon: float,
    ledger: Ledger,
    noise: Noise,
    bounds: Bounds | None = None,
) -> Forest:
    """Grow one client's trees; all that leaves this function is covered by the ledger.

    Parameters
    ----------
    X : ndarray of float32 or float64, shape (n_rows, n_features)
        Rows inside the schema's bounds (`Schema.check_matrix`); there may be none.
    y : ndarray of integers, shape (n_rows,)
        Class indices.
    schema : Schema
        Public description of the rows.
    settings : ResolvedSettings
        See `dpforest.growers.resolve`.
    epsilon : float
        Budget of this call; ``inf`` grows the same trees without noise.
    ledger : Ledger
        Is asked for the whole plan before a row is read.
    noise : Noise
        Source of all randomness.
    bounds : Bounds, optional
        Where random thresholds lie; the schema's bounds by default.

    Returns
    -------
    Forest
        With ``output="counts"``: noised class counts in the leaves.

    Raises
    ------
    BudgetExceeded
        The ledger has less than ``epsilon`` left.
    """
    plans = plan(settings, epsilon, schema.n_features, kernels.SCORE_UNIT)
    ledger.require(entry for tree in plans for entry in tree.entries)
    bounds = bounds or Bounds.of(schema)
    y = np.asarray(y).astype(np.uint8 if schema.n_outputs <= 256 else np.uint16)
    trees = []
    for tree_plan, part in zip(plans, rows_of_trees(settings, len(y), noise), strict=True):
        tree_X, tree_y = X[part], y[part]
        if settings.selection == "noisy_counts":
            tree = grow_by_noisy_counts(tree_X, tree_y, schema, settings, tree_plan, ledger, noise, bounds)
        else:
            tree = _grow_by_selection(tree_X, tree_y, schema, settings, tree_plan, ledger, noise, bounds)
        trees.append(tree)
    return concatenate(trees)


def _grow_by_selection(
    X: np.ndarray,
    y: np.ndarray,
    schema: Schema,
    settings: ResolvedSettings,
    tree_plan: TreePlan,
    ledger: Ledger,
    noise: Noise,
    bounds: Bounds,
) -> Forest:
    """A complete tree, level by level: one private choice a group of nodes, then noised leaf counts.

    The score of a candidate is the sum over the group's nodes v and their two children of
    ``sqrt(sum_c n_c^2)``, in units of ``1 / SCORE_UNIT`` and rounded down a child. A row lies in one child of one
    node; there it raises one coordinate of a count vector by 1, so the norm rises by at least 0 and, by the triangle
    inequality, at most ``|e_c| = 1``. Rounding down to multiples of ``1 / SCORE_UNIT`` keeps both bounds, since
    ``floor(a + d) - floor(a)`` lies in [0, SCORE_UNIT] for 0 <= d <= SCORE_UNIT. So the score is monotone with
    sensitivity SCORE_UNIT, and one choice a group on disjoint rows costs its epsilon once a depth.
    """
    candidates = candidates_of(X, schema, settings, bounds, noise)
    starts = np.array([0, len(y)], dtype=np.int64)
    n_bins = candidates.n_thresholds + 1
    histograms = np.empty((0, schema.n_outputs, n_bins, schema.n_features), dtype=np.int32)
    chosen_feature: list[np.ndarray] = []
    chosen_threshold: list[np.ndarray] = []
    for level, (choice, entry) in enumerate(tree_plan.choices):
        n_nodes = 1 << level
        n_groups = settings.groups_at(level)
        group = np.arange(n_nodes) * n_groups // n_nodes
        codes = candidates.codes(starts, group, n_groups)
        if candidates.fixed and level <= _DEEPEST_KEPT_LEVEL:
            scores, histograms = kernels.level_scores_by_difference(codes, y, starts, histograms, group, n_groups)
        else:
            scores = kernels.level_scores(codes, y, starts, group, n_groups, schema.n_outputs, n_bins)
        np.putmask(scores, ~candidates.useful(n_groups), _USELESS)
        picked = choice.release(scores.reshape(n_groups, -1), entry, ledger, noise)[group]
        feature, split = np.divmod(picked, candidates.n_thresholds)
        chosen_feature.append(feature)
        chosen_threshold.append(candidates.thresholds_of(group, feature, split))
        positions, starts = kernels.child_positions(codes, starts, feature, split)
        y = kernels.route_labels(y, positions)
        if level + 1 < settings.depth:
            candidates.route(positions, feature, split)
    leaf_counts = kernels.class_counts(y, starts, schema.n_outputs)
    noised = tree_plan.counts.release(leaf_counts, tree_plan.count_entries[0], ledger, noise)
    return _complete_tree(schema, np.concatenate(chosen_feature), np.concatenate(chosen_threshold), noised)


def _complete_tree(schema: Schema, feature: np.ndarray, threshold: np.ndarray, leaf_counts: np.ndarray) -> Forest:
    """A complete binary tree in breadth-first order: the children of node i are 2i + 1 and 2i + 2."""
    n_inner, n_leaves = len(feature), len(leaf_counts)
    n_nodes = n_inner + n_leaves
    value = np.zeros((n_nodes, schema.n_outputs))
    value[n_inner:] = leaf_counts
    weight = np.zeros(n_nodes)
    weight[n_inner:] = np.maximum(leaf_counts, 0).sum(axis=1)
    tree = Forest(
        schema=schema,
        output="counts",
        offsets=np.array([0, n_nodes], dtype=np.int64),
        feature=np.concatenate([feature, np.full(n_leaves, -1)]).astype(np.int32),
        threshold=np.concatenate([threshold, np.zeros(n_leaves)]),
        left=np.concatenate([2 * np.arange(n_inner) + 1, np.full(n_leaves, -1)]).astype(np.int32),
        value=value,
        weight=weight,
        base=np.zeros(schema.n_outputs),
        owners=("",),
    )
    fill_inner_nodes(tree)
    return tree
