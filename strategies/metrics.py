"""The metrics: what each is called, where it shows, and how it follows from sums that clients can add up."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from dpforest.errors import DPForestError
from dpforest.schema import MOST_ROWS, Schema

log = logging.getLogger(__name__)
Sums = Mapping[str, list[float]]

# Cells of the histogram of probabilities from which clients' ROC curves are put together.
SCORE_CELLS = 1000
# No probability counts as smaller in a log loss.
_LEAST_PROBABILITY = 1e-15
# Relative room for the rounding of sums, and for leaves that lie a little outside a target's range.
_ROUNDING, _LEAF_ROOM = 1e-6, 1e-3


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
    log_loss = float(-np.log(np.clip(share, _LEAST_PROBABILITY, 1.0)).sum())
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


def check_sums(sums: Sums, schema: Schema) -> None:
    """Hold a client's statistics against what any rows of the schema and any predictions can add up to.

    Raises
    ------
    DPForestError
        Names what is wrong.
    """
    classes = len(schema.classes)
    expected = sum_sizes(classes)
    found = {name: len(values) for name, values in sums.items()}
    if found != expected:
        raise DPForestError(f"the evaluation reports {found}, expected {expected}")
    if not all(np.isfinite(values).all() for values in sums.values()):
        raise DPForestError("the evaluation holds NaN or infinity")
    rows = _check_counts(sums["confusion"] if classes else sums["moments"][:1])
    if classes:
        _check_classification(sums, rows, classes)
    else:
        assert schema.target_range is not None
        _check_regression(sums, rows, *schema.target_range)


def _check_counts(counts: list[float]) -> float:
    if min(counts) < 0 or sum(counts) < 1:
        raise DPForestError("the evaluation counts no test rows, or fewer than none")
    if sum(counts) > MOST_ROWS or any(count % 1 for count in counts):
        raise DPForestError(f"the evaluation counts {sum(counts):g} test rows; whole numbers up to {MOST_ROWS:g} count")
    return sum(counts)


def _check_classification(sums: Sums, rows: float, classes: int) -> None:
    most = -math.log(_LEAST_PROBABILITY) * rows
    if not 0 <= sums["log_loss"][0] <= most * (1 + _ROUNDING):
        raise DPForestError(f"the log loss {sums['log_loss'][0]:g} of {rows:g} rows must lie from 0 to {most:g}")
    if "scores" in sums:
        _check_counts(sums["scores"])
        of_scores, of_classes = (np.reshape(sums[name], (classes, -1)).sum(axis=1) for name in ("scores", "confusion"))
        if (of_scores != of_classes).any():
            raise DPForestError("the evaluation's histograms of scores are not of the rows that it counts")


def _check_regression(sums: Sums, n: float, low: float, high: float) -> None:
    _, y, yy, p, pp, yp = sums["moments"]
    squared, absolute = sums["errors"]
    room = _LEAF_ROOM * (high - low)
    largest = max(abs(low), abs(high)) + room
    slack = _ROUNDING * n * largest**2
    inside = all(n * (low - room) <= total <= n * (high + room) for total in (y, p))
    inside &= all(0 <= square <= n * largest**2 + slack for square in (yy, pp))
    inside &= 0 <= squared <= 4 * n * largest**2 + slack and 0 <= absolute <= 2 * n * largest * (1 + _ROUNDING)
    # By the bounds above nothing here overflows.
    if not (
        inside
        and all(total**2 / n <= square + slack for total, square in ((y, yy), (p, pp)))
        and abs(squared - (yy - 2 * yp + pp)) <= slack
        and abs(p - y) <= absolute + _ROUNDING * n * largest
        and absolute**2 / n <= squared + slack
    ):
        raise DPForestError(
            f"the evaluation's sums cannot be those of {n:g} targets and predictions in [{low:g}, {high:g}]"
        )


def add_sums(parts: Iterable[Sums]) -> dict[str, list[float]]:
    """The sums of several clients together."""
    total: dict[str, list[float]] = {}
    for part in parts:
        for name, values in part.items():
            before = total.get(name, [0.0] * len(values))
            total[name] = [a + b for a, b in zip(before, values, strict=True)]
    return total


def sum_sizes(n_classes: int) -> dict[str, int]:
    """How many numbers each of a client's sums has; of targets for ``n_classes`` 0."""
    if not n_classes:
        return {"moments": 6, "errors": 2}
    scores = {"scores": 2 * SCORE_CELLS} if n_classes == 2 else {}
    return {"confusion": n_classes**2, "log_loss": 1, **scores}


def count_rows(sums: Sums) -> int:
    """The rows that the sums are of."""
    return int(sum(sums["confusion"]) if "confusion" in sums else sums["moments"][0])


def confusion_matrix(sums: Sums) -> list[list[int]]:
    """Rows are true classes, columns predicted ones."""
    return [[int(x) for x in row] for row in _counts(sums)]


class Kind(Enum):
    """What a metric needs: classes, exactly two of them (it is about the second), or a target that is a number."""

    CLASSES = "confusion"
    TWO_CLASSES = "scores"
    TARGET = "moments"


class FromNoised(Enum):
    """What a metric is computed from where sums are noised."""

    ALL = "all sums"
    OCCURRING = "the classes that stand out from the noise"


@dataclass(frozen=True)
class Metric:
    """A metric of test rows. Each is in metrics.json, rounds.csv, clients.csv, results.csv, on screen and in reports.

    Parameters
    ----------
    name : str
        Its key in files.
    label : str
        Its name in tables and figures.
    kind : Kind
    compute : callable of sums to float or None
        None where it is not defined.
    more_is_better : bool
    is_primary : bool
        Whether it is the score of its kind, by which methods are compared.
    of_clients : bool
        Whether clients are compared by it.
    heading : str
        A shorter label, for columns of wide tables.
    log : str
        How the line of a round has it, as a format; nothing for not at all.
    against_epsilon, over_rounds : bool
        Whether a figure has a panel of it.
    from_noised : FromNoised, optional
        What of noised sums it is computed from; None where it cannot be (`noised_summary`).
    limits : (float, float)
        What it may be, to which it is clipped where sums are noised.
    """

    name: str
    label: str
    kind: Kind
    compute: Callable[[Sums], float | None]
    more_is_better: bool = True
    is_primary: bool = False
    of_clients: bool = False
    heading: str = ""
    log: str = ""
    against_epsilon: bool = False
    over_rounds: bool = False
    from_noised: FromNoised | None = None
    limits: tuple[float, float] = (-math.inf, math.inf)

    @property
    def sign(self) -> int:
        """What to multiply it with so that more is better."""
        return 1 if self.more_is_better else -1


def metrics_of(*kinds: Kind) -> list[Metric]:
    """The metrics of some kinds (of all if none is given), in the order of tables."""
    return [metric for metric in METRICS if not kinds or metric.kind in kinds]


def primary_metric(names: Container[str]) -> Metric:
    """The score among some names of metrics, by which methods are compared; that of targets if there is none."""
    primary = [metric for metric in METRICS if metric.is_primary]
    return next((metric for metric in primary if metric.name in names), primary[-1])


def client_metric(primary: Metric) -> Metric:
    """The metric by which clients are compared, where methods are by another."""
    of_targets = primary.kind is Kind.TARGET
    return next(metric for metric in METRICS if metric.of_clients and (metric.kind is Kind.TARGET) == of_targets)


def summarize(sums: Sums) -> dict[str, float]:
    """The metrics that are defined for these sums, by name."""
    kinds = [kind for kind in Kind if kind.value in sums]
    found = {metric.name: metric.compute(sums) for kind in kinds for metric in metrics_of(kind)}
    return {name: float(value) for name, value in found.items() if value is not None}


def _counts(sums: Sums) -> np.ndarray:
    flat = np.array(sums["confusion"])
    return flat.reshape(2 * [math.isqrt(len(flat))])


def _accuracy(sums: Sums) -> float:
    counts = _counts(sums)
    return np.trace(counts) / counts.sum()


def _balanced_accuracy(sums: Sums) -> float:
    """Mean recall of the classes that occur."""
    counts = _counts(sums)
    true = counts.sum(axis=1)
    return (np.diag(counts)[true > 0] / true[true > 0]).mean()


def _macro_f1(sums: Sums) -> float:
    """Mean F1 of the classes that occur."""
    counts = _counts(sums)
    true = counts.sum(axis=1)
    return (2 * np.diag(counts) / np.maximum(true + counts.sum(axis=0), 1))[true > 0].mean()


def _cohen_kappa(sums: Sums) -> float | None:
    """How far the agreement of true and predicted classes is beyond that of chance (Cohen 1960).

    Not defined where there is nothing but one class, which is predicted always.
    """
    counts = _counts(sums)
    by_chance = counts.sum(axis=1) @ counts.sum(axis=0) / counts.sum()
    beyond = counts.sum() - by_chance
    return (np.trace(counts) - by_chance) / beyond if beyond > 0 else None


def _precision(sums: Sums) -> float:
    _, wrong, _, right = sums["confusion"]
    return right / (right + wrong) if right else 0.0


def _recall(sums: Sums) -> float:
    _, _, missed, right = sums["confusion"]
    return right / (right + missed) if right else 0.0


def _f1(sums: Sums) -> float:
    _, wrong, missed, right = sums["confusion"]
    return 2 * right / (2 * right + wrong + missed) if right else 0.0


def _log_loss(sums: Sums) -> float:
    return sums["log_loss"][0] / sum(sums["confusion"])


def _roc_auc(sums: Sums) -> float | None:
    """Of both classes only; probabilities in one cell of 1 / SCORE_CELLS count as equal."""
    from sklearn.metrics import roc_auc_score  # slow to import

    weight = np.array(sums["scores"])
    filled = np.flatnonzero(weight)
    label, cell = np.divmod(filled, SCORE_CELLS)
    return roc_auc_score(label, cell, sample_weight=weight[filled]) if len(np.unique(label)) == 2 else None


def _variances(sums: Sums) -> tuple[float, float, float]:
    """Of target and prediction, and their covariance."""
    n, y, yy, p, pp, yp = sums["moments"]
    return yy / n - (y / n) ** 2, pp / n - (p / n) ** 2, yp / n - y * p / n**2


def _mse(sums: Sums) -> float:
    return sums["errors"][0] / sums["moments"][0]


def _mae(sums: Sums) -> float:
    return sums["errors"][1] / sums["moments"][0]


def _r2(sums: Sums) -> float | None:
    """Not defined where all targets are the same."""
    variance = _variances(sums)[0]
    return 1 - _mse(sums) / variance if variance > 0 else None


def _pearson(sums: Sums) -> float:
    target, prediction, covariance = _variances(sums)
    spread = math.sqrt(max(target, 0.0) * max(prediction, 0.0))
    return covariance / spread if spread > 1e-12 else 0.0


METRICS = (
    Metric("accuracy", "accuracy", Kind.CLASSES, _accuracy, is_primary=True, of_clients=True, log=".3f",
           against_epsilon=True, over_rounds=True, from_noised=FromNoised.ALL, limits=(0, 1)),
    Metric("balanced_accuracy", "balanced accuracy", Kind.CLASSES, _balanced_accuracy, heading="balanced",
           against_epsilon=True, from_noised=FromNoised.OCCURRING, limits=(0, 1)),
    Metric("macro_f1", "macro F1", Kind.CLASSES, _macro_f1, from_noised=FromNoised.OCCURRING, limits=(0, 1)),
    Metric("precision", "precision", Kind.TWO_CLASSES, _precision, log=".3f"),
    Metric("recall", "recall", Kind.TWO_CLASSES, _recall, log=".3f"),
    Metric("f1", "F1", Kind.TWO_CLASSES, _f1, log=".3f"),
    Metric("roc_auc", "ROC-AUC", Kind.TWO_CLASSES, _roc_auc, log=".3f"),
    Metric("log_loss", "log loss", Kind.CLASSES, _log_loss, more_is_better=False, log=".3f"),
    Metric("cohen_kappa", "Cohen's kappa", Kind.CLASSES, _cohen_kappa),
    Metric("mse", "MSE", Kind.TARGET, _mse, more_is_better=False, of_clients=True, log=".0f", against_epsilon=True,
           over_rounds=True, from_noised=FromNoised.ALL, limits=(0, math.inf)),
    Metric("mae", "MAE", Kind.TARGET, _mae, more_is_better=False, log=".1f", from_noised=FromNoised.ALL,
           limits=(0, math.inf)),
    Metric("r2", "R^2", Kind.TARGET, _r2, is_primary=True, log=".3f", against_epsilon=True,
           from_noised=FromNoised.ALL, limits=(-math.inf, 1)),
    Metric("pearson", "Pearson", Kind.TARGET, _pearson, log=".3f", over_rounds=True),
)  # fmt: skip


# The share of noised runs whose interval covers the exact metric, but for what is clipped.
COVERAGE = 0.95
# How far a number of rows must be from zero, in deviations of its noise, to be taken for one.
_STANDS_OUT = 3


def noised_summary(sums: Sums, possible: Sequence[Sums]) -> tuple[dict[str, float], dict[str, tuple[float, float]]]:
    """Metrics of noised sums, and where the exact ones lie.

    The noise is symmetric, so the exact sums are the noised ones with noise of its kind once more. The interval has the
    middle `COVERAGE` of the metric over such sums. It is about the noise alone: how far the metric of these test rows
    is from that of other people's is not in it.

    Parameters
    ----------
    sums : mapping of str to list of float
        ``confusion``, or ``moments`` (whose sums over predictions may be 0) and ``errors``.
    possible : sequence of such mappings
        The noised sums, each time with fresh noise.

    Returns
    -------
    metrics : dict of str to float
        Those that the noise does not hide; none where it could be all there is.
    intervals : dict of str to (float, float)
        Of the same.
    """
    name = "confusion" if "confusion" in sums else "moments"
    numbers = np.array([each[name] for each in possible])
    rows = numbers.sum(axis=1) if name == "confusion" else numbers[:, 0]
    if not rows.mean() > _STANDS_OUT * rows.std():
        log.warning("no test metrics: there are too few test rows for the noise that they are protected by")
        return {}, {}
    of = {FromNoised.ALL: (sums, possible)}
    if name == "confusion" and (occurring := _occurring(sums, numbers)) is not None:
        of[FromNoised.OCCURRING] = occurring
    metrics, intervals = {}, {}
    for metric in metrics_of(Kind(name)):
        if metric.from_noised not in of:
            continue
        noised, others = of[metric.from_noised]
        found = [metric.compute(each) for each in (noised, *others)]
        if not all(value is not None and math.isfinite(value) for value in found):
            log.warning("no %s: the noise that the test rows are protected by may be all there is", metric.name)
            continue
        value, *spread = np.clip(np.array(found, dtype=float), *metric.limits)
        low, high = np.quantile(spread, [(1 - COVERAGE) / 2, (1 + COVERAGE) / 2])
        metrics[metric.name], intervals[metric.name] = float(value), (float(low), float(high))
    return metrics, intervals


def _occurring(sums: Sums, possible: np.ndarray) -> tuple[Sums, list[Sums]] | None:
    """The same without the rows of classes that cannot be distinguished from noise; None if no class can."""
    classes = math.isqrt(possible.shape[1])
    rows = possible.reshape(-1, classes, classes).sum(axis=2)
    kept = np.repeat(rows.mean(axis=0) > _STANDS_OUT * rows.std(axis=0), classes)
    if not kept.any():
        return None
    return {"confusion": (np.array(sums["confusion"]) * kept).tolist()}, [
        {"confusion": row} for row in (possible * kept).tolist()
    ]


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


def joint_metrics(parts: Iterable[Sums]) -> dict[str, float]:
    """`summarize` of several clients together; what cannot be computed is left out with a word, and ends nothing."""
    try:
        summary = summarize(add_sums(parts))
    except Exception as error:
        # The clients' sums are checked one by one; a model is not lost to a metric that still cannot be made of them.
        log.warning("no test metrics: %s: %s", type(error).__name__, error)
        return {}
    return finite(summary, "test metrics")


def finite(plain: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Plain data without the numbers that JSON cannot hold; those that are left out are named in the log.

    Numbers of NumPy become Python's, and arrays lists: a method may report any of them.
    """
    kept = {}
    for name, value in _plain(plain).items():
        if isinstance(value, Mapping):
            kept[name] = finite(value, f"{where}: {name}")
        elif _is_finite(value):
            kept[name] = value
        else:
            log.warning("%s: %s is left out, as there is no number for it", where, name)
    return kept


def _plain(value: Any) -> Any:
    """What NumPy has, as Python has it, also inside of lists and mappings."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


def _is_finite(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(map(_is_finite, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)
