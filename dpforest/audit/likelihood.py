"""How much likelier a release is with a record than without it, for who knows all else: the best test there is.

It takes the noise to be what the mechanism says. Where it is not, the test is only less good than it could be, and what
it proves holds all the same, since errors are counted.
"""

from __future__ import annotations

import math
from functools import lru_cache, singledispatch

import numpy as np

from dpforest.mechanisms import DiscreteGaussianSums, DiscreteLaplaceCounts, GaussianSums, Mechanism, Selection

_HARMLESS = 1e-9  # variance of no noise, relative to a squared step


@singledispatch
def log_ratio(mechanism: Mechanism, output: np.ndarray, inside: np.ndarray, outside: np.ndarray) -> float:
    """Log of the likelihood of what was drawn with the record, over that without it.

    Of a mechanism that is not known here, the gain in closeness to the values with the record, in units of its noise.

    Parameters
    ----------
    mechanism : Mechanism
    output : ndarray
        What went out.
    inside, outside : ndarray
        The values that the mechanism would have been given with the record, and without it.
    """
    scale = mechanism.cost.scale or 1.0
    gain = np.abs(output - outside) - np.abs(output - inside)
    return float(gain.sum() / scale) if np.shape(output) == np.shape(inside) else 0.0


@log_ratio.register
def _(mechanism: DiscreteLaplaceCounts, output: np.ndarray, inside: np.ndarray, outside: np.ndarray) -> float:
    moved = inside != outside
    if math.isinf(mechanism.epsilon):
        return _of_bare(output[moved], inside[moved], outside[moved])
    gain = np.abs(output[moved] - outside[moved]) - np.abs(output[moved] - inside[moved])
    return float(gain.sum() / mechanism.scale)


@log_ratio.register
def _(mechanism: DiscreteGaussianSums, output: np.ndarray, inside: np.ndarray, outside: np.ndarray) -> float:
    return _gaussian(output, inside, outside, mechanism.sigma)


@log_ratio.register
def _(mechanism: GaussianSums, output: np.ndarray, inside: np.ndarray, outside: np.ndarray) -> float:
    return _gaussian(output, inside, outside, mechanism.deviation)


@log_ratio.register
def _(mechanism: Selection, output: np.ndarray, inside: np.ndarray, outside: np.ndarray) -> float:
    groups = np.flatnonzero((inside != outside).any(axis=1))
    of_kind = _log_chance_of_exponential if mechanism.kind == "exponential" else _log_chance_of_permute_and_flip
    total = 0.0
    for group in groups.tolist():
        if math.isinf(mechanism.epsilon):
            total += _of_bare(output[group], inside[group].argmax(), outside[group].argmax())
            continue
        scale = mechanism.scale
        total += of_kind(inside[group], int(output[group]), scale) - of_kind(outside[group], int(output[group]), scale)
    return total


@singledispatch
def divergence(mechanism: Mechanism, inside: np.ndarray, outside: np.ndarray) -> float:
    """Mean of `log_ratio` with the record less that without it, by the values alone: how far a record can be seen.

    Of a mechanism that is not known here, what values move in units of its noise.
    """
    return float(np.abs(np.asarray(inside, dtype=np.float64) - outside).sum() / (mechanism.cost.scale or 1.0))


@divergence.register
def _(mechanism: DiscreteLaplaceCounts, inside: np.ndarray, outside: np.ndarray) -> float:
    moved = np.abs(np.asarray(inside, dtype=np.float64) - outside)
    if math.isinf(mechanism.epsilon):
        return float(moved.any()) / _HARMLESS
    # With Y of one-sided chances p^y, |X - k| is k + 2 p^k E[Y] on average, and E[Y] where k is 0.
    p = math.exp(-1 / mechanism.scale)
    return float(2 * (moved + 2 * p * np.expm1(-moved / mechanism.scale) / (1 - p**2)).sum() / mechanism.scale)


@divergence.register
def _(mechanism: DiscreteGaussianSums, inside: np.ndarray, outside: np.ndarray) -> float:
    return _divergence_of_gaussian(inside, outside, mechanism.sigma)


@divergence.register
def _(mechanism: GaussianSums, inside: np.ndarray, outside: np.ndarray) -> float:
    return _divergence_of_gaussian(inside, outside, mechanism.deviation)


@divergence.register
def _(mechanism: Selection, inside: np.ndarray, outside: np.ndarray) -> float:
    groups = np.flatnonzero((inside != outside).any(axis=1))
    if math.isinf(mechanism.epsilon):
        return float((inside[groups].argmax(axis=1) != outside[groups].argmax(axis=1)).any()) / _HARMLESS
    of_kind = _log_chance_of_exponential if mechanism.kind == "exponential" else _log_chance_of_permute_and_flip
    total = 0.0
    for group in groups.tolist():
        with_it, without = (
            np.array([of_kind(scores[group], pick, mechanism.scale) for pick in range(scores.shape[1])])
            for scores in (inside, outside)
        )
        total += float(((np.exp(with_it) - np.exp(without)) * (with_it - without)).sum())
    return total


def noise_deviation(mechanism: Mechanism) -> float:
    """Standard deviation of the noise on each number that is let through, of all parties; 0 of none, or of a choice."""
    if isinstance(mechanism, GaussianSums):
        return mechanism.deviation
    if isinstance(mechanism, DiscreteGaussianSums):
        return mechanism.sigma
    return math.sqrt(mechanism.variance) if isinstance(mechanism, DiscreteLaplaceCounts) else 0.0


def _gaussian(output: np.ndarray, inside: np.ndarray, outside: np.ndarray, deviation: float) -> float:
    moved = np.asarray(inside, dtype=np.float64) - outside
    if not moved.any():
        return 0.0
    variance = deviation**2 or _HARMLESS * float((moved**2).sum())
    return float((moved * (output - outside - moved / 2.0)).sum() / variance)


def _divergence_of_gaussian(inside: np.ndarray, outside: np.ndarray, deviation: float) -> float:
    squared = float(((np.asarray(inside, dtype=np.float64) - outside) ** 2).sum())
    return squared / (deviation**2 or _HARMLESS * squared) if squared else 0.0


def _of_bare(output: np.ndarray, inside: np.ndarray, outside: np.ndarray) -> float:
    """Of a release without noise: certain where the two differ."""
    if np.array_equal(inside, outside):
        return 0.0
    return 1.0 / _HARMLESS if np.array_equal(output, inside) else -1.0 / _HARMLESS


def _log_chance_of_exponential(scores: np.ndarray, picked: int, scale: float) -> float:
    relative = (scores - scores.max()) / scale
    return float(relative[picked] - np.log(np.exp(relative).sum()))


def _log_chance_of_permute_and_flip(scores: np.ndarray, picked: int, scale: float) -> float:
    return _log_chance_by_gaps(((scores.max() - scores) / scale).tobytes(), picked)


@lru_cache(maxsize=4096)
def _log_chance_by_gaps(gaps_as_bytes: bytes, picked: int) -> float:
    """``P(i) = exp(-g_i) int_0^1 prod_{j != i} (1 - exp(-g_j) u) du`` with ``g`` what a score lacks to the best.

    The exponential noise must lift candidate i to the best one, and ``-log u`` beyond it, above all others.
    """
    gaps = np.frombuffer(gaps_as_bytes)
    others = np.delete(gaps, picked)
    others, times = np.unique(others[others < 40.0], return_counts=True)
    nodes, weights = _nodes()
    logs = (times * np.log1p(-np.exp(-others) * nodes[:, None])).sum(axis=1)
    return float(-gaps[picked] + np.log(np.exp(logs) @ weights))


@lru_cache(maxsize=1)
def _nodes() -> tuple[np.ndarray, np.ndarray]:
    """Points and weights between 0 and 1, closer together near 0, where a product of many factors lives."""
    points, weights = np.polynomial.legendre.leggauss(6)
    ends = np.concatenate([[0.0], 2.0 ** -np.arange(16, -1, -1.0)])
    middle, half = (ends[1:] + ends[:-1]) / 2, (ends[1:] - ends[:-1]) / 2
    return (middle[:, None] + half[:, None] * points).ravel(), (half[:, None] * weights).ravel()
