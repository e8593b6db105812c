"""How well scores tell members from others, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from dpforest.errors import DPForestError

FALSE_POSITIVES = (0.01, 0.001)
_DRAWS = 200
_THRESHOLDS = 3000
# Others that must be taken for members before a rate of true positives means something.
_LEAST_FALSE = 5
_ENDS = (2.5, 97.5)


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95 per cent interval.

    Parameters
    ----------
    value : float
        The figure.
    low, high : float
        Ends of the interval.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Rates:
    """What an attack reaches.

    Parameters
    ----------
    area : Estimate
        Under the curve of true against false positives: the chance that a member's score is above another's.
    balanced_accuracy : Estimate
        At the threshold that does best on the other half of the groups.
    true_positives : mapping of float to Estimate or None
        By false positive rate; None where others are too few to tell.
    members, others : int
        Scores of each kind.
    """

    area: Estimate
    balanced_accuracy: Estimate
    true_positives: dict[float, Estimate | None]
    members: int
    others: int


def rates(scores: np.ndarray, is_member: np.ndarray, groups: np.ndarray, seed: int = 0) -> Rates:
    """Rates of an attack, with intervals by bootstrap over groups.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        High where the attack takes a record for a member.
    is_member : ndarray of bool, shape (n,)
    groups : ndarray of integers, shape (n,)
        What is independent: the model that a score is about, or the record where there is one model.
    seed : int
        Of the bootstrap.

    Raises
    ------
    DPForestError
        There are no members, or no others, or a score is NaN.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> is_member = np.arange(2000) % 2 == 0
    >>> found = rates(rng.normal(size=2000) + 2.0 * is_member, is_member, np.arange(2000) // 20)
    >>> found.area.low < found.area.value < found.area.high, round(found.area.value, 1)
    (True, 0.9)
    """
    if not len(scores) or is_member.all() or not is_member.any():
        raise DPForestError("an attack is measured on members and on others: one of them is missing")
    if np.isnan(scores).any():
        raise DPForestError("a score of an attack is NaN")
    _, group = np.unique(groups, return_inverse=True)
    n_groups = int(group.max()) + 1
    curve = _Curve(scores, is_member, group)
    rng = np.random.default_rng(seed)
    resampled = [curve.figures(np.bincount(rng.integers(n_groups, size=n_groups), minlength=n_groups))
             for _ in range(_DRAWS)]  # fmt: skip
    values = curve.figures(np.ones(n_groups))
    low, high = np.nanpercentile(np.array(resampled), _ENDS, axis=0)
    area, accuracy, *reached = (Estimate(*map(float, each)) for each in zip(values, low, high, strict=True))
    others = int((~is_member).sum())
    at = {rate: each if others * rate >= _LEAST_FALSE else None
          for rate, each in zip(FALSE_POSITIVES, reached, strict=True)}  # fmt: skip
    return Rates(area, accuracy, at, int(is_member.sum()), others)


def mean_estimate(values: np.ndarray) -> Estimate:
    """Mean of independent values, with its interval by bootstrap."""
    rng = np.random.default_rng(0)
    resampled = [values[rng.integers(len(values), size=len(values))].mean() for _ in range(_DRAWS)]
    return Estimate(float(values.mean()), *map(float, np.percentile(resampled, _ENDS)))


class _Curve:
    """Counts of members and of others by threshold and group, so that a weight a group gives all figures by sums."""

    def __init__(self, scores: np.ndarray, is_member: np.ndarray, group: np.ndarray) -> None:
        order = np.argsort(-scores, kind="stable")
        # Scores that are equal are decided by one threshold, and far from the top a few thresholds stand for many.
        ends = np.flatnonzero(np.append(np.diff(scores[order]) != 0, True))
        if len(ends) > 2 * _THRESHOLDS:
            thinned = np.linspace(_THRESHOLDS, len(ends) - 1, _THRESHOLDS).astype(np.int64)
            ends = np.append(ends[:_THRESHOLDS], ends[np.unique(thinned)])
        place = np.empty(len(scores), dtype=np.int64)
        place[order] = np.searchsorted(ends, np.arange(len(scores)))
        shape = (len(ends), int(group.max()) + 1)
        self._members, self._others = (
            csr_array((kind.astype(np.float64), (place, group)), shape=shape) for kind in (is_member, ~is_member)
        )
        # At random: the order of groups may say who is a member.
        self._half = np.random.default_rng(0).permutation(shape[1]) % 2 == 1

    def figures(self, weights: np.ndarray) -> Sequence[float]:
        """Area, balanced accuracy, and true positives at each of `FALSE_POSITIVES`."""
        true, false = self._shares(weights)
        area = float(np.sum(np.diff(false) * (true[1:] + true[:-1]) / 2))
        # Between two thresholds a coin decides.
        reached = np.interp(FALSE_POSITIVES, false, true)
        return [area, self._accuracy(weights), *reached]

    def _shares(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        true, false = (np.cumsum(kind @ weights) for kind in (self._members, self._others))
        with np.errstate(invalid="ignore"):
            return np.append(0.0, true / true[-1]), np.append(0.0, false / false[-1])

    def _accuracy(self, weights: np.ndarray) -> float:
        accuracies = []
        for chooses in (self._half, ~self._half):
            true, false = self._shares(weights * chooses)
            best = int(np.argmax(true - false))
            true, false = self._shares(weights * ~chooses)
            accuracies.append((1 + true[best] - false[best]) / 2)
        return float(np.mean(accuracies))
