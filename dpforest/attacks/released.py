"""What a released forest says about single records: counts read back out of it, and thresholds that are theirs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from dpforest.forest import Forest

# Least variance of a count: of rounding.
_ROUNDING = 1 / 12
_STEPS = 25


def class_counts(forest: Forest, balance: float = 0.0) -> np.ndarray:
    """Noised class counts of the leaves, from what the forest publishes; shape (n_nodes, n_classes), 0 elsewhere.

    Smoothed probabilities are ``(n + 1 / K) / (N + 1)`` with N the leaf's ``weight``, which is undone exactly; only
    counts below 0 are lost, as they were cut off. Where `dpforest.growers.balance_votes` took a part of a tree's
    average answer W from each leaf, W is found as the one for which counts come out whole: a leaf in which no class was
    cut off at 0 gives W exactly, once its counts are rounded.

    Parameters
    ----------
    forest : Forest
        With ``output="probability"`` and ``weight``, smoothed by ``laplace``.
    balance : float
        Public setting of the method; 0 where votes were not balanced.
    """
    counts = np.zeros_like(forest.value)
    for owner in dict.fromkeys(forest.owners):
        nodes = nodes_of(forest, trees_of(forest, owner))
        leaves = nodes[forest.is_leaf[nodes]]
        counts[leaves] = _counts_of_client(forest.value[leaves], forest.weight[leaves], balance)
    return counts


def _counts_of_client(answer: np.ndarray, weight: np.ndarray, balance: float) -> np.ndarray:
    n_classes = answer.shape[1]
    if not balance:
        return np.maximum(answer * (weight[:, None] + 1) - 1 / n_classes, 0.0)
    whole = (answer > 0).all(axis=1)
    average = weight @ answer / weight.sum() if weight.sum() else np.full(n_classes, 1 / n_classes)
    for _ in range(_STEPS):
        taken = balance * (average - 1 / n_classes)
        known = answer + taken
        counts = np.maximum(np.round(known * (weight[:, None] + 1) - 1 / n_classes), 0.0)
        if not whole.any():
            total = weight @ np.maximum(known, 0)
            found = total / total.sum() if total.sum() else average
        else:
            exact = (counts[whole] + 1 / n_classes) / (weight[whole, None] + 1)
            found = 1 / n_classes + np.median((exact - answer[whole]) / balance, axis=0)
        if np.allclose(found, average, atol=1e-12):
            break
        average = found
    return np.stack([_counts_of_leaf(row, total, taken) for row, total in zip(answer, weight, strict=True)])


def _counts_of_leaf(answer: np.ndarray, total: float, taken: np.ndarray) -> np.ndarray:
    """Counts of one leaf from its balanced answer, what was taken from each class being known.

    Classes that came out below 0 were cut off there, and the rest divided by its sum: which sum is found by trying how
    many records the classes had that were cut off.
    """
    n_classes = len(answer)
    kept = answer > 0
    if kept.all():
        return np.maximum((answer + taken) * (total + 1) - 1 / n_classes, 0.0)
    share = (~kept).sum() / n_classes
    most = max(0.0, float(np.maximum(taken[~kept], 0).sum()) * (total + 1) - share)
    lost = np.arange(int(min(most, total)) + 1)
    divisor = 1 - taken[kept].sum() - (lost + share) / (total + 1)
    counts = (answer[kept] * divisor[:, None] + taken[kept]) * (total + 1) - 1 / n_classes
    fits = np.abs(counts - np.round(counts)).max(axis=1)
    best = int(np.argmin(fits))
    found = np.zeros(n_classes)
    found[kept] = np.maximum(counts[best], 0.0)
    weights = np.maximum(taken[~kept], 0)
    found[~kept] = lost[best] * weights / weights.sum() if weights.sum() else lost[best] / max(len(weights), 1)
    return found


def leaf_counts(forest: Forest, balance: float = 0.0, smoothing: str = "none") -> np.ndarray:
    """What a forest's leaves say about numbers of records: a column a class, or one column where it says no classes.

    Parameters
    ----------
    forest : Forest
        The released model.
    balance : float
        How far votes were balanced (`dpforest.growers.balance_votes`); 0 is not at all.
    smoothing : str
        ``"laplace"`` where a record was spread over the classes of each leaf, else ``"none"``.

    Returns
    -------
    ndarray of float64, shape (n_nodes, n_classes) or (n_nodes, 1)
        In records; 0 for nodes that are no leaves.
    """
    leaf = forest.is_leaf[:, None]
    if forest.output == "probability" and smoothing == "laplace":
        return class_counts(forest, balance)
    if forest.output in ("probability", "score"):
        return np.where(leaf, forest.value * forest.weight[:, None], 0.0)
    return np.where(leaf, forest.weight[:, None], 0.0)


@dataclass(frozen=True)
class Part:
    """Trees of a forest with the records that may be in them.

    Parameters
    ----------
    trees : ndarray of integers
    X : ndarray of shape (n_records, n_features)
        Everybody who may have been among those that the trees were grown on.
    y : ndarray of shape (n_records,)
    """

    trees: np.ndarray
    X: np.ndarray
    y: np.ndarray


def count_ratios(forest: Forest, counts: np.ndarray, part: Part) -> np.ndarray:
    """Log likelihood ratio of each record of a part being in its trees, by the counts of its leaves; no shadow model.

    The attacker knows who may be in, and that the others are in or out independently: then the count of a leaf without
    the record is about Gaussian, around the share s of those who may be in it that the tree holds, which is read off
    the tree's own total. The variance is that of a sample, and of the noise, which is read off the spread of all counts
    around their expectation. Trees on disjoint rows: one of them, unknown which, has the record.

    Parameters
    ----------
    forest : Forest
        The released model.
    counts : ndarray of shape (n_nodes, n_classes) or (n_nodes, 1)
        As `leaf_counts`.
    part : Part
        Records that may have trained.

    Returns
    -------
    ndarray of float64, shape (n_records,)
        High where the record seems to be in.
    """
    leaves = forest.apply(part.X)[:, part.trees]
    column = part.y.astype(np.int64) if counts.shape[1] > 1 else np.zeros(len(part.y), dtype=np.int64)
    pool = np.zeros_like(counts)
    for tree in range(leaves.shape[1]):
        np.add.at(pool, (leaves[:, tree], column), 1.0)
    ratios, shares = [], []
    for place, tree in enumerate(part.trees):
        own = slice(forest.offsets[tree], forest.offsets[tree + 1])
        is_leaf = forest.is_leaf[own]
        seen, may = counts[own][is_leaf], pool[own][is_leaf]
        share = float(np.clip(seen.sum() / max(len(part.y), 1), 0.0, 1.0))
        sampled = share * (1 - share)
        noise = max(float(np.mean((seen - share * may) ** 2 - sampled * may)), _ROUNDING)
        at = leaves[:, place]
        others = pool[at, column] - 1
        residual = counts[at, column] - share * others
        ratios.append((residual - 0.5) / (sampled * others + noise))
        shares.append(share)
    found = np.array(ratios)
    if len(found) > 1 and sum(shares) <= 1.2:
        weights = np.log(np.maximum(shares, 1e-9) / max(sum(shares), 1e-9))
        return logsumexp(found + weights[:, None], axis=0)
    return found.sum(axis=0)


def own_value_hits(forest: Forest, part: Part) -> np.ndarray:
    """How many thresholds of the trees are, to the last bit, a value of the record; shape (n_records,).

    A threshold counts the less, the more records of the part have that value.

    Parameters
    ----------
    forest : Forest
        The released model.
    part : Part
        Records that may have trained.

    Returns
    -------
    ndarray of float64, shape (n_records,)
        Weighted numbers of such thresholds.
    """
    hits = np.zeros(len(part.y))
    nodes = nodes_of(forest, part.trees)
    inner = nodes[(forest.feature[nodes] >= 0) & (forest.feature[nodes] < forest.schema.n_features)]
    rows = np.asarray(part.X, dtype=np.float32)
    for feature in np.unique(forest.feature[inner]):
        thresholds = np.unique(forest.threshold[inner[forest.feature[inner] == feature]].astype(np.float32))
        values = rows[:, feature]
        same = np.isin(values, thresholds)
        _, which, common = np.unique(values[same], return_inverse=True, return_counts=True)
        hits[same] += 1 / common[which]
    return hits


def trees_of(forest: Forest, owner: str) -> np.ndarray:
    """Numbers of the trees that came from one client."""
    return np.array([tree for tree, whose in enumerate(forest.owners) if whose == owner], dtype=np.int64)


def nodes_of(forest: Forest, trees: np.ndarray) -> np.ndarray:
    """Numbers of all nodes of some trees."""
    return np.concatenate([np.arange(forest.offsets[tree], forest.offsets[tree + 1]) for tree in trees])
