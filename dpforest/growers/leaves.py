"""From noised leaf counts to class probabilities: post-processing, free of budget."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpforest.forest import Forest, kernels
from dpforest.forest.codec import fill_inner_nodes
from dpforest.growers.settings import ResolvedSettings


def finish_classifier(counts: Forest, settings: ResolvedSettings, leaf_epsilon: float) -> Forest:
    """Turn a forest of noised counts into one of probabilities.

    Parameters
    ----------
    counts : Forest
        With ``output="counts"``.
    settings : ResolvedSettings
        ``smoothing`` and ``voting`` are used.
    leaf_epsilon : float
        Epsilon of the leaf counts: their noise has standard deviation about ``sqrt(2) / leaf_epsilon``.
    """
    noised = counts.value
    clipped = np.maximum(noised, 0.0)
    total = clipped.sum(axis=1, keepdims=True)
    n_classes = noised.shape[1]
    if settings.smoothing == "shrink":
        probability = _shrunken(counts, np.sqrt(2.0) / leaf_epsilon if np.isfinite(leaf_epsilon) else 0.0)
    elif settings.smoothing == "laplace":
        probability = (clipped + 1.0 / n_classes) / (total + 1.0)
    else:
        probability = np.where(total > 0, clipped / np.maximum(total, 1e-12), 1.0 / n_classes)
    if settings.voting == "hard":
        probability = np.eye(n_classes)[np.argmax(probability, axis=1)]
    weight = np.where(counts.is_leaf, total[:, 0], 0.0)
    finished = replace(counts, output="probability", value=probability, weight=weight)
    fill_inner_nodes(finished)
    return finished


def balance_votes(finished: Forest, counts: Forest, balance: float) -> Forest:
    """Take from every leaf a part of what its trees answer anyway, so that frequent classes do not win by default.

    Where a tree knows little (noise, or rows unlike those it grew on) it answers about the same everywhere: its average
    answer. In a vote of many clients these answers pile up for the frequent classes. With ``W`` the average answer of
    these trees over their records and ``C`` classes, a leaf's answer ``p`` becomes ``max(p - balance (W - 1/C), 0)``,
    normalised. Classes that are equally frequent are left alone. Only released counts are used: post-processing.

    Parameters
    ----------
    finished : Forest
        One client's trees with ``output="probability"``.
    counts : Forest
        The same trees with ``output="counts"``.
    balance : float
        0 (no change) to 1.
    """
    leaf = counts.is_leaf
    # Not clipped cell by cell as `weight` is: the noise of a leaf's cells cancels in part.
    records = np.maximum(counts.value[leaf].sum(axis=1), 0.0)
    if balance == 0 or not records.any():
        return finished
    average = records @ finished.value[leaf] / records.sum()
    answer = np.maximum(finished.value - balance * (average - 1.0 / len(average)), 0.0)
    balanced = replace(finished, value=answer / answer.sum(axis=1, keepdims=True))
    fill_inner_nodes(balanced)
    return balanced


def _shrunken(counts: Forest, leaf_sd: float) -> np.ndarray:
    """Soft-threshold each node's counts by their own noise, then blend from the root down with the parent.

    An inner node's counts are sums of leaves, so their noise has standard deviation ``leaf_sd * sqrt(leaves below)``.
    """
    leaves_below = counts.is_leaf.astype(np.float64)[:, None]
    kernels.sums_to_root(counts.offsets, counts.left, leaves_below)
    # One record is the least that a blend can weigh, so that a tree without noise is smoothed too.
    sd = np.maximum(leaf_sd * np.sqrt(leaves_below), 1.0)
    kept = np.maximum(np.abs(counts.value) - leaf_sd * np.sqrt(leaves_below), 0.0) * (counts.value > 0)
    probability = np.empty_like(kept)
    parent = np.full(counts.n_nodes, -1)
    inner = np.flatnonzero(~counts.is_leaf)
    parent[counts.left[inner]] = inner
    parent[counts.left[inner] + 1] = inner
    for depth in range(int(counts.depths.max()) + 1):
        nodes = np.flatnonzero(counts.depths == depth)
        above = np.full((len(nodes), kept.shape[1]), 1.0 / kept.shape[1]) if depth == 0 else probability[parent[nodes]]
        probability[nodes] = (kept[nodes] + sd[nodes] * above) / (kept[nodes].sum(axis=1, keepdims=True) + sd[nodes])
    return probability
