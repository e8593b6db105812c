"""Means with intervals by bootstrap, and differences of two methods paired over seeds and over clients."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from fl_app.results.text import decimals

FEWEST_SEEDS = 3
ENOUGH_SEEDS = 5  # of fewer an interval may be many times as wide as what they span: it is not shown
_RESAMPLES = 9999


@dataclass(frozen=True)
class Interval:
    """A mean and its 95 per cent bootstrap interval, whose ends are NaN for a single value.

    ``values`` are those that it is of, and ``limits`` between which they may be.
    """

    mean: float
    low: float
    high: float
    n: int
    values: tuple[float, ...] = ()
    limits: tuple[float, float] = (-math.inf, math.inf)

    @property
    def half(self) -> float:
        """Half the width."""
        return (self.high - self.low) / 2

    @property
    def is_range(self) -> bool:
        """Whether what is shown are the least and the greatest value."""
        return self.n < ENOUGH_SEEDS

    @property
    def spread(self) -> tuple[float, float]:
        """The ends to show: those of the interval inside the limits, or of few values the least and the greatest."""
        ends = (min(self.values), max(self.values)) if self.is_range and self.values else (self.low, self.high)
        low, high = np.clip(ends, *self.limits)
        return float(low), float(high)

    @property
    def words(self) -> str:
        """The mean with what is shown of its spread: a range in brackets, an interval behind a sign."""
        low, high = self.spread
        if self.n < 2 or math.isnan(low):
            return decimals(self.mean)
        if self.is_range:
            return f"{decimals(self.mean)} [{decimals(low)} to {decimals(high)}]"
        if (low, high) == (self.low, self.high):
            return f"{decimals(self.mean)} ± {decimals(self.half)}"
        return f"{decimals(self.mean)} -{decimals(self.mean - low)} +{decimals(high - self.mean)}"

    @property
    def is_above_zero(self) -> bool:
        """Whether all of it is."""
        return self.low > 0


def mean_interval(
    values: ArrayLike, weights: ArrayLike | None = None, limits: tuple[float, float] = (-math.inf, math.inf)
) -> Interval:
    """Student's interval of a mean, with the bootstrap's standard error.

    Percentiles of resampled means never leave the range of the values: of three they hold the truth in 3 of 4 cases
    only, however far they are expanded. The standard error has no such end; the bootstrap's is too small by
    sqrt((n - 1) / n), which is made up for (Hesterberg 2015, What Teachers Should Know About the Bootstrap).

    Parameters
    ----------
    values : array-like of float, length n_values
    weights : array-like of float, length n_values, optional
        For a weighted mean; they are drawn together with their values.
    limits : (float, float)
        Between which values may be.

    Returns
    -------
    Interval
    """
    x = np.asarray(values, dtype=float)
    w = np.ones_like(x) if weights is None else np.asarray(weights, dtype=float)
    n = len(x)
    mean, own = float(np.average(x, weights=w)), tuple(x.tolist())
    if n < 2:
        return Interval(mean, math.nan, math.nan, n, own, limits)
    if np.all(x == x[0]):
        return Interval(mean, mean, mean, n, own, limits)

    def weighted(total: np.ndarray, weight: np.ndarray, axis: int = -1) -> np.ndarray:
        return np.asarray(total.sum(axis=axis) / weight.sum(axis=axis))

    error = stats.bootstrap(
        (x * w, w), weighted, paired=True, vectorized=True, n_resamples=_RESAMPLES, method="percentile",
        rng=np.random.default_rng(0),
    ).standard_error  # fmt: skip
    half = float(stats.t.ppf(0.975, n - 1) * math.sqrt(n / (n - 1)) * error)
    return Interval(mean, mean - half, mean + half, n, own, limits)


def over_folds(scores: Mapping[tuple[Any, Any], float]) -> dict[Any, float]:
    """Mean of each seed over its folds, of scores by seed and fold."""
    by_seed: dict[Any, list[float]] = {}
    for (seed, _), score in scores.items():
        by_seed.setdefault(seed, []).append(score)
    return {seed: float(np.mean(several)) for seed, several in by_seed.items()}


@dataclass(frozen=True)
class Difference:
    """How far one method is ahead of another, seed by seed and client by client."""

    seeds: Interval | None
    clients: Interval | None

    @property
    def is_one(self) -> bool:
        """Whether one may be called ahead: all intervals that there are lie above 0, and there are enough seeds."""
        if self.seeds is None or self.seeds.n < FEWEST_SEEDS or not self.seeds.is_above_zero:
            return False
        return self.clients is None or self.clients.is_above_zero


def difference(
    ahead: Mapping[tuple[Any, Any], float],
    behind: Mapping[tuple[Any, Any], float],
    ahead_clients: Mapping[tuple[Any, Any], tuple[float, float]],
    behind_clients: Mapping[tuple[Any, Any], tuple[float, float]],
) -> Difference:
    """Compare two methods on what they have in common.

    Parameters
    ----------
    ahead, behind : mapping of (seed, fold) to float
        Score of each run. Folds of one seed are parts of one evaluation: they make one value.
    ahead_clients, behind_clients : mapping of (run, client) to (float, float)
        Score of each client in each run, and its number of test rows. A client is the same in several runs only if its
        rows are.

    Returns
    -------
    Difference
        ``seeds`` is None without a seed in common, ``clients`` with fewer than two clients in common.
    """
    seeds = over_folds({key: ahead[key] - behind[key] for key in ahead if key in behind})
    by_client: dict[Any, list[tuple[float, float]]] = {}
    for key in ahead_clients:
        if key in behind_clients:
            score, rows = ahead_clients[key]
            by_client.setdefault(key[1], []).append((score - behind_clients[key][0], rows))
    gaps, weights = np.array([np.mean(runs, axis=0) for runs in by_client.values()]).reshape(-1, 2).T
    return Difference(
        mean_interval(list(seeds.values())) if seeds else None,
        mean_interval(gaps, weights) if len(gaps) > 1 and weights.sum() > 0 else None,
    )
