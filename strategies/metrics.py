"""Metrics from sums that clients can add up: confusion matrices and moments."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

Sums = Mapping[str, list[float]]

# Cells of the histogram of probabilities from which clients' ROC curves are put together.
SCORE_CELLS = 1000


def classification_sums(y: np.ndarray, probability: np.ndarray) -> dict[str, list[float]]:
    """A client's additive statistics of class predictions.

    Parameters
    ----------
    y : ndarray of int64, shape (n_rows,)
        True classes.
    probability : ndarray of shape (n_rows, n_classes)

    Returns
    -------
    dict
        ``confusion`` (n_classes^2, true class by predicted) and ``log_loss`` (one sum, in nats); of two classes also
        ``scores`` (2 x SCORE_CELLS: histograms of the second class's probability, among rows of each class).
    """
    n_classes = probability.shape[1]
    predicted = np.argmax(probability, axis=1)
    confusion = np.bincount(y * n_classes + predicted, minlength=n_classes**2)
    share = probability[np.arange(len(y)), y] / np.maximum(probability.sum(axis=1), 1e-15)
    log_loss = float(-np.log(np.clip(share, 1e-15, 1.0)).sum())
    sums = {"confusion": confusion.astype(float).tolist(), "log_loss": [log_loss]}
    if n_classes == 2:
        score = probability[:, 1] / np.maximum(probability.sum(axis=1), 1e-15)
        cell = np.clip((score * SCORE_CELLS).astype(np.int64), 0, SCORE_CELLS - 1)
        sums["scores"] = np.bincount(y * SCORE_CELLS + cell, minlength=2 * SCORE_CELLS).astype(float).tolist()
    return sums


def regression_sums(y: np.ndarray, predicted: np.ndarray) -> dict[str, list[float]]:
    """A client's additive statistics of target predictions: moments of target and prediction, and errors."""
    error = predicted - y
    moments = [len(y), y.sum(), (y**2).sum(), predicted.sum(), (predicted**2).sum(), (y * predicted).sum()]
    errors = [(error**2).sum(), np.abs(error).sum()]
    return {"moments": [float(x) for x in moments], "errors": [float(x) for x in errors]}


def add_sums(parts: Iterable[Sums]) -> dict[str, list[float]]:
    """The sums of several clients together."""
    total: dict[str, list[float]] = {}
    for part in parts:
        for name, values in part.items():
            before = total.get(name, [0.0] * len(values))
            total[name] = [a + b for a, b in zip(before, values, strict=True)]
    return total


def summarize(sums: Sums) -> dict[str, float]:
    """Metrics of sums.

    Returns
    -------
    dict
        For classes: accuracy, balanced_accuracy (mean recall of the classes that occur), macro_f1 (over the same),
        log_loss; of two classes also precision, recall and f1 of the second, and roc_auc where both occur, by
        scikit-learn (probabilities in one cell of 1 / SCORE_CELLS count as equal). For targets: mse, mae, r2, pearson.
    """
    if "confusion" in sums:
        summary = _classification(np.array(sums["confusion"]), sums["log_loss"][0])
        return summary | (_binary(sums) if "scores" in sums else {})
    return _regression(*sums["moments"], *sums["errors"])


def confusion_matrix(sums: Sums) -> list[list[int]]:
    """Rows are true classes, columns predicted ones."""
    flat = np.array(sums["confusion"]).astype(int)
    n_classes = math.isqrt(len(flat))
    return [[int(x) for x in row] for row in flat.reshape(n_classes, n_classes)]


def _classification(flat: np.ndarray, log_loss: float) -> dict[str, float]:
    n_classes = math.isqrt(len(flat))
    confusion = flat.reshape(n_classes, n_classes)
    n = confusion.sum()
    true, predicted, right = confusion.sum(axis=1), confusion.sum(axis=0), np.diag(confusion)
    occurs = true > 0
    recall = right[occurs] / true[occurs]
    f1 = 2 * right[occurs] / (true[occurs] + predicted[occurs])
    return {
        "accuracy": float(right.sum() / n),
        "balanced_accuracy": float(recall.mean()),
        "macro_f1": float(f1.mean()),
        "log_loss": float(log_loss / n),
    }


def _binary(sums: Sums) -> dict[str, float]:
    from sklearn.metrics import precision_recall_fscore_support, roc_auc_score  # slow to import

    true, predicted = [0, 0, 1, 1], [0, 1, 0, 1]
    precision, recall, f1, _ = precision_recall_fscore_support(
        true, predicted, sample_weight=sums["confusion"], average="binary", zero_division=0.0
    )
    summary = {"precision": float(precision), "recall": float(recall), "f1": float(f1)}
    weight = np.array(sums["scores"])
    filled = np.flatnonzero(weight)
    label, cell = np.divmod(filled, SCORE_CELLS)
    if len(np.unique(label)) == 2:
        summary["roc_auc"] = float(roc_auc_score(label, cell, sample_weight=weight[filled]))
    return summary


def _regression(
    n: float, y: float, yy: float, p: float, pp: float, yp: float, squared: float, absolute: float
) -> dict[str, float]:
    variance_y, variance_p = yy / n - (y / n) ** 2, pp / n - (p / n) ** 2
    covariance = yp / n - y * p / n**2
    spread = math.sqrt(max(variance_y, 0.0) * max(variance_p, 0.0))
    return {
        "mse": squared / n,
        "mae": absolute / n,
        "r2": 1 - squared / n / variance_y if variance_y > 0 else math.nan,
        "pearson": covariance / spread if spread > 1e-12 else 0.0,
    }


def memorization_rate(accuracies: Mapping[int, Mapping[int, float]]) -> float:
    """Share of clients whose tree scores strictly better on their own test rows than on anyone else's.

    Favero et al. 2024, section V-B.

    Parameters
    ----------
    accuracies : mapping of int to mapping of int to float
        ``accuracies[client][owner]``: accuracy of the owner's tree on the client's rows.
    """
    owners = [owner for owner, row in accuracies.items() if owner in row]
    if not owners:
        return math.nan
    memorized = 0
    for owner in owners:
        own = accuracies[owner][owner]
        others = [row[owner] for client, row in accuracies.items() if client != owner and owner in row]
        memorized += all(own > other for other in others)
    return memorized / len(owners)


def primary_metric(summary: Mapping[str, Any]) -> str:
    """The metric that a table leads with."""
    return "accuracy" if "accuracy" in summary else "r2"
