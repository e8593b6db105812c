"""Growing the private regression trees of one client.

*Splits.* A target y in the public range [a, b] becomes the direction ``u(y) = (cos t, sin t)``, ``t = pi (y - a) /
(b - a)``. The score of a candidate is ``|sum of u left| + |sum of u right|``: rows that agree add up, rows that differ
cancel. Around a mean, ``|sum u|`` falls by half the variance of t a row, so it is an impurity, bounded where variance
is not.

Proof of its sensitivity. A row lies in one child of every candidate. There ``| |s + u| - |s| | <= |u| <= 1`` (triangle
inequality), so with the number of rows added, which is the same for all candidates and changes no choice, the score
rises by between 0 and 2. Directions are rounded towards zero to multiples of 1 / DIRECTION_UNIT, which shortens them,
and norms are rounded down: ``floor(x + d) - floor(x)`` lies in [0, 2 DIRECTION_UNIT] for d in it. So the integer score
is monotone with sensitivity ``2 DIRECTION_UNIT``, which is what `dpforest.mechanisms.Selection` asks for. Norms are
capped where their squares would leave 64 bits (`regression_kernels.capped_norm`), for every number of rows: ``min(x,
cap)`` changes by no more than x does, in the same direction.

Against the sum of squares ``(sum y)^2 / n`` of targets in [-B, B], whose rise lies in (-3 B^2, B^2], a spread of
4 B^2: near a mean, a gain in variance counts ``pi^2 / 4 = 2.5`` times as much at the same epsilon. A quarter turn
instead of a half, whose sensitivity is 1 (inner products are never negative), has half of that.

*Leaves.* With ``z = (y - a) / (b - a)`` rounded to multiples of 1 / TARGET_UNIT, a row adds ``(z, 1 - z)`` to the two
sums of one leaf. Both are non-negative and add up to 1, so the L1 sensitivity is TARGET_UNIT in integers, half of
that of (count, sum). Their sum is the number of records and the first one's share of it is the mean.

Leaves hold disjoint rows, as the nodes of one depth do: `dpforest.growers.budget` says how that composes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from dpforest.errors import DPForestError
from dpforest.forest import Forest, concatenate
from dpforest.forest import kernels as forest_kernels
from dpforest.forest.codec import fill_inner_nodes
from dpforest.growers import kernels
from dpforest.growers.budget import TreePlan, plan
from dpforest.growers.candidates import GridCandidates, rows_of_trees
from dpforest.growers.regression_kernels import DIRECTION_UNIT, direction_scores, sums_by_node
from dpforest.growers.settings import (
    Bins,
    Depth,
    GrowerSettings,
    Growth,
    LeafShare,
    ResolvedSettings,
    SharedBelow,
    Trees,
)
from dpforest.ledger import Entry, Ledger
from dpforest.mechanisms import whole_numbers
from dpforest.noise import Noise
from dpforest.schema import Schema, check_range
from dpforest.settings import Auto, Says, Settings

TARGET_UNIT = 4096
SCORE_SENSITIVITY = 2 * DIRECTION_UNIT
_USELESS = -(1 << 50)
# What is taken for granted, in shares of the target range, when a node is shrunk towards its parent: the standard
# deviation of records in a node, and of node means around their parent's. Fixed public numbers.
_RECORD_SD = 0.2
_NODE_SD = 0.1
_ROOT_SD = 0.5
# Doublings of rows times epsilon (about 4,000) from which a private choice of splits beats a random one.
_CHOOSING_PAYS = 12.0

TargetClip = Annotated[tuple[float, float] | None, Says("be two finite numbers, low and high")]


@dataclass(frozen=True)
class RegressionSettings(Settings):
    """How a client grows regression trees.

    Parameters
    ----------
    selection
        The private draw among all candidates of a node.
    depth
        Levels of splits; ``auto`` follows from the budget and the public number of rows.
    leaf_share
        Share of the budget for the leaves. Where the budget is too small to tell good splits from bad ones, nearly all
        of it: then splits are as good as random, and a filter or an average over clients has to choose.
    target_clip
        Public range, inside the schema's, to which targets are clipped before anything is computed. A narrow one costs
        the tails and saves noise.
    """

    explained_by: ClassVar[tuple[type[Settings], ...]] = (GrowerSettings,)

    selection: Literal["permute_and_flip", "exponential"] = "permute_and_flip"
    bins: Bins = 16
    depth: Depth | Auto = "auto"
    shared_below: SharedBelow | Auto | None = "auto"
    depth_growth: Growth = 1.0
    leaf_share: LeafShare | Auto = "auto"
    trees: Trees = 1
    tree_rows: Literal["split_budget", "disjoint"] = "split_budget"
    target_clip: TargetClip = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.target_clip is not None:
            object.__setattr__(self, "target_clip", tuple(map(float, self.target_clip)))

    def splits(self) -> GrowerSettings:
        """What these settings share with those of classification trees."""
        names = ("selection", "bins", "depth", "shared_below", "depth_growth", "leaf_share", "trees", "tree_rows")
        given = {name: getattr(self, name) for name in names}
        if self.leaf_share == "auto":
            del given["leaf_share"]
        return GrowerSettings(**given)


@dataclass(frozen=True)
class ResolvedRegression:
    """Settings with nothing left open: the shape of the trees, and the range of their targets."""

    splits: ResolvedSettings
    target_range: tuple[float, float]


def resolve_regression(settings: RegressionSettings, epsilon: float, rows: int, schema: Schema) -> ResolvedRegression:
    """Fill in ``auto`` from public numbers: the budget and the order of magnitude of the rows.

    The rule was fitted on validation rows of the appliances data; it never sees the true row count.

    Raises
    ------
    DPForestError
        The schema is of a classification, or ``target_clip`` reaches outside its target range.
    """
    if schema.target_range is None:
        raise DPForestError(f"target {schema.target!r} is a class: regression trees need a target_range")
    low, high = settings.target_clip or schema.target_range
    if not schema.target_range[0] <= low < high <= schema.target_range[1]:
        raise DPForestError(
            f"target_clip [{low:g}, {high:g}] must lie inside the schema's target_range "
            f"[{schema.target_range[0]:g}, {schema.target_range[1]:g}], with low < high"
        )
    check_range("target_clip", low, high)
    doublings = math.log2(max(1.0, rows * min(epsilon, 1e6 / rows) / settings.trees))
    random_splits = doublings < _CHOOSING_PAYS
    plain: dict[str, Any] = {**settings.splits().__dict__, "smoothing": "none"}
    if settings.depth == "auto":
        fitted = 0.6 * doublings if random_splits else 4 + 1.4 * (doublings - 13.3)
        plain["depth"] = max(1, min(12, round(fitted)))
    if settings.shared_below == "auto":
        plain["shared_below"] = None if random_splits else max(0, round(doublings - 13.3))
    if settings.leaf_share == "auto":
        plain["leaf_share"] = 0.95 if random_splits else 0.15
    return ResolvedRegression(ResolvedSettings(**plain), (low, high))


def planned_regression_entries(resolved: ResolvedRegression, epsilon: float, schema: Schema) -> list[Entry]:
    """Everything that growing will release, for `Ledger.require` and for showing before a run."""
    return [entry for tree in _plans(resolved, epsilon, schema) for entry in tree.entries]


def grow_regressor(
    X: np.ndarray,
    y: np.ndarray,
    schema: Schema,
    resolved: ResolvedRegression,
    epsilon: float,
    ledger: Ledger,
    noise: Noise,
) -> Forest:
    """Grow one client's trees; all that leaves this function is covered by the ledger.

    Parameters
    ----------
    X : ndarray of float32 or float64, shape (n_rows, n_features)
        Rows inside the schema's bounds; there may be none.
    y : ndarray of float64, shape (n_rows,)
        Targets; those outside ``resolved.target_range`` are clipped to it. How many is not released.
    schema : Schema
        Public description of the rows.
    resolved : ResolvedRegression
        See `resolve_regression`.
    epsilon : float
        Budget of this call; ``inf`` grows the same trees without noise.
    ledger : Ledger
        Is asked for the whole plan before a row is read.
    noise : Noise
        Source of all randomness.

    Returns
    -------
    Forest
        With ``output="target"``: means in the unit of the target, and estimated records as weights.

    Raises
    ------
    BudgetExceeded
        The ledger has less than ``epsilon`` left.
    DPForestError
        A target is no finite number.
    """
    plans = _plans(resolved, epsilon, schema)
    ledger.require(entry for tree in plans for entry in tree.entries)
    y = np.asarray(y, dtype=np.float64)
    if not np.isfinite(y).all():
        raise DPForestError("a target is no finite number: drop or fill such rows first")
    low, high = resolved.target_range
    share = (np.clip(y, low, high) - low) / (high - low)
    return concatenate(
        [
            _grow(X[part], share[part], schema, resolved, tree_plan, ledger, noise)
            for tree_plan, part in zip(plans, rows_of_trees(resolved.splits, len(y), noise), strict=True)
        ]
    )


def _plans(resolved: ResolvedRegression, epsilon: float, schema: Schema) -> list[TreePlan]:
    return plan(
        resolved.splits,
        epsilon,
        schema.n_features,
        SCORE_SENSITIVITY,
        leaf_sensitivity=TARGET_UNIT,
        leaves_hold="sums of targets and their complements",
    )


def _grow(
    X: np.ndarray,
    share: np.ndarray,
    schema: Schema,
    resolved: ResolvedRegression,
    tree_plan: TreePlan,
    ledger: Ledger,
    noise: Noise,
) -> Forest:
    """A complete tree, level by level: one private choice a group of nodes, then the noised sums of the leaves."""
    settings = resolved.splits
    candidates = GridCandidates(X, schema, settings.bins)
    # Columns: the direction and the target, in integers; sorted by node like the codes.
    angle = np.pi * share
    values = np.empty((len(share), 3), dtype=np.int32)
    values[:, 0] = whole_numbers(DIRECTION_UNIT * np.cos(angle), DIRECTION_UNIT, towards_zero=True)
    values[:, 1] = whole_numbers(DIRECTION_UNIT * np.sin(angle), DIRECTION_UNIT, towards_zero=True)
    values[:, 2] = whole_numbers(TARGET_UNIT * share, TARGET_UNIT)
    starts = np.array([0, len(share)], dtype=np.int64)
    features, thresholds = [], []
    for level, (choice, entry) in enumerate(tree_plan.choices):
        n_nodes = 1 << level
        n_groups = settings.groups_at(level)
        group = np.arange(n_nodes) * n_groups // n_nodes
        codes = candidates.codes(starts, group, n_groups)
        scores = direction_scores(codes, values, starts, group, n_groups, candidates.n_thresholds + 1)
        scores[~candidates.useful(n_groups)] = _USELESS
        picked = choice.release(scores.reshape(n_groups, -1), entry, ledger, noise)[group]
        feature, split = np.divmod(picked, candidates.n_thresholds)
        features.append(feature)
        thresholds.append(candidates.thresholds_of(group, feature, split))
        positions, starts = kernels.child_positions(codes, starts, feature, split)
        routed = np.empty_like(values)
        kernels.route_rows(values, positions, routed)
        values = routed
        if level + 1 < settings.depth:
            candidates.route(positions, feature, split)
    sums = np.empty((len(starts) - 1, 2), dtype=np.int64)
    sums[:, 0] = sums_by_node(values[:, 2:], starts)[:, 0]
    sums[:, 1] = TARGET_UNIT * np.diff(starts) - sums[:, 0]
    noised = tree_plan.counts.release(sums, tree_plan.count_entries[0], ledger, noise) / TARGET_UNIT
    return _finish(
        schema, resolved, np.concatenate(features), np.concatenate(thresholds), noised, tree_plan.counts.epsilon
    )


def _finish(
    schema: Schema,
    resolved: ResolvedRegression,
    feature: np.ndarray,
    threshold: np.ndarray,
    leaf_sums: np.ndarray,
    leaf_epsilon: float,
) -> Forest:
    """A complete tree in breadth-first order (children of i: 2i + 1, 2i + 2) whose leaves are means; post-processing.

    From the root down, every node's own mean is blended with its parent's. Its weight is that of the best linear
    estimate when node means vary around their parent's by `_NODE_SD`, records inside a node by `_RECORD_SD`, and the
    noise of both sums is what their epsilon says.
    """
    n_inner, n_leaves = len(feature), len(leaf_sums)
    n_nodes = n_inner + n_leaves
    offsets = np.array([0, n_nodes], dtype=np.int64)
    left = np.concatenate([2 * np.arange(n_inner) + 1, np.full(n_leaves, -1)]).astype(np.int32)
    sums = np.zeros((n_nodes, 3))
    sums[n_inner:, :2] = leaf_sums
    sums[n_inner:, 2] = 1
    forest_kernels.sums_to_root(offsets, left, sums)
    records = np.maximum(sums[:, 0] + sums[:, 1], 0.0)
    own = np.clip(sums[:, 0] / np.maximum(records, 1e-12), 0.0, 1.0)
    noise_variance = 0.0 if math.isinf(leaf_epsilon) else 2.0 / leaf_epsilon**2
    noise_of_sum = noise_variance * sums[:, 2]
    mean = np.full(n_nodes, 0.5)
    for first in 2 ** np.arange(n_nodes.bit_length()) - 1:  # of each depth
        at = np.arange(first, 2 * first + 1)
        above, spread = (0.5, _ROOT_SD) if first == 0 else (mean[(at - 1) // 2], _NODE_SD)
        n = records[at]
        uncertain = n * _RECORD_SD**2 + noise_of_sum[at] * (own[at] ** 2 + (1 - own[at]) ** 2)
        weight = n * n * spread**2 / np.maximum(n * n * spread**2 + uncertain, 1e-12)
        mean[at] = weight * own[at] + (1 - weight) * above
    low, high = resolved.target_range
    value = np.zeros((n_nodes, 1))
    value[n_inner:, 0] = low + mean[n_inner:] * (high - low)
    leaf_records = np.concatenate([np.zeros(n_inner), records[n_inner:]])
    tree = Forest(
        schema=schema,
        output="target",
        offsets=offsets,
        feature=np.concatenate([feature, np.full(n_leaves, -1)]).astype(np.int32),
        threshold=np.concatenate([threshold, np.zeros(n_leaves)]),
        left=left,
        value=value,
        weight=leaf_records,
        base=np.zeros(1),
        owners=("",),
    )
    fill_inner_nodes(tree)
    return tree
