"""A client's tree as the LDP document describes it; no guarantee.

What the noise covers, and what it does not. Let the tree's splits be fixed and known. A leaf value is a mean of
labels 0 and 1, which one record changes by at most 1, and a record lies in one leaf: Laplace noise of scale 1 /
epsilon covers all leaf values of a round at epsilon (with 10 records a leaf it is ten times more than needed). The
importances are non-negative and add up to 1, so a record can move them by up to 2 in L1 norm: the same noise covers
them at 2 epsilon, not at epsilon. The base prediction is a constant. But the splits are not known: they are chosen on
the raw rows, at values of the rows, and sent as they are. Nothing covers that, so nothing is guaranteed.

Min-max scaling keeps the order of values and so the tree; thresholds are given in the unit of the sensor, as in the
document's example.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

import numpy as np

from dpforest.forest import Forest, feature_importances, pack
from dpforest.growers.own_values import grow_with_own_values
from dpforest.schema import Schema
from strategies.ldp_bagging.settings import LdpBaggingSettings
from strategies.method import ClientTask, Unprotected, Update

SENSITIVITY = 1.0  # assumed by the document for every number
BASE_PREDICTION = 0.0
IMPORTANCES, BASE, NOISE, TIMES = "importances", "base_prediction", "noise", "milliseconds"
STEPS = ("training", "noise", "packing")
# Kinds of noised numbers, rows of the array NOISE; and its columns.
KINDS = ("leaf values", "importances", "base prediction")
NOISE_COLUMNS = ("numbers", "sum of sizes", "largest size", "sum of relative changes", "numbers that are not 0")
UNPROTECTED = {
    "splits are chosen on the raw rows, at values of the rows, and sent as they are": "no noise at all",
    "scaling reads the smallest and largest value of each sensor": "no noise at all",
    "importances have noise for sensitivity 1, and one record can move them by 2 in sum": "covered at 2 epsilon only, "
    "and only for whoever knows the splits already",
    "epsilon is that of each number in a round and never added up over numbers and rounds": "leaf values, given the "
    "splits, are covered at epsilon a round: rounds times epsilon in all",
    "sizes of noise and computing times are sent in clear": "for the report, a researcher's view",
}


@dataclass(frozen=True)
class _Noised:
    values: np.ndarray
    facts: list[float]


def train_published(task: ClientTask[LdpBaggingSettings], X: np.ndarray, y: np.ndarray) -> Update:
    """Grow, noise and pack one tree; names in the ledger what is not covered."""
    settings = task.settings
    rng = task.rng("noise")
    clock = [time.perf_counter()]
    depth = int(settings.depth)
    shares = _labels_as_target(task.schema)
    tree = grow_with_own_values(X, y, shares, math.inf, task.rng("tree"), depth=depth, min_leaf=settings.min_leaf)
    importances = feature_importances(tree)
    clock.append(time.perf_counter())
    leaf = tree.is_leaf
    leaves = _with_laplace(tree.value[leaf, 0], task.budget.epsilon, rng)
    noised = _with_laplace(importances, task.budget.epsilon, rng)
    base = _with_laplace(np.array([BASE_PREDICTION]), task.budget.epsilon, rng)
    clock.append(time.perf_counter())
    packed = pack(_scores(tree, leaves.values, task.schema))
    clock.append(time.perf_counter())
    arrays = {
        **packed,
        IMPORTANCES: noised.values,
        BASE: base.values,
        NOISE: np.array([leaves.facts, noised.facts, base.facts]),
        TIMES: 1000 * np.diff(clock),
    }
    return Update(Unprotected(task.ledger, UNPROTECTED, arrays))


def _labels_as_target(schema: Schema) -> Schema:
    """Labels 0 and 1 as numbers, so that the split criterion is the fall of their variance."""
    return replace(schema, classes=(), target_range=(0.0, 1.0))


def _with_laplace(values: np.ndarray, epsilon: float, rng: np.random.Generator) -> _Noised:
    """Values with the document's noise, of scale sensitivity / epsilon, and how large it is."""
    noise = np.zeros(len(values)) if math.isinf(epsilon) else rng.laplace(0.0, SENSITIVITY / epsilon, len(values))
    size, known = np.abs(noise), values != 0
    relative = float((size[known] / np.abs(values[known])).sum())
    facts = [float(len(values)), float(size.sum()), float(size.max()), relative, float(known.sum())]
    return _Noised(values + noise, facts)


def _scores(tree: Forest, leaf_values: np.ndarray, schema: Schema) -> Forest:
    """The tree with noised leaf values as scores of both classes; numbers of records are not sent."""
    value = np.zeros((tree.n_nodes, 2))
    value[tree.is_leaf] = np.column_stack([1 - leaf_values, leaf_values])
    return replace(tree, schema=schema, output="score", value=value, weight=np.zeros(tree.n_nodes), base=np.zeros(2))
