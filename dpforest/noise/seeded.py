"""Reproducible noise for simulations and tests. Never for a deployment: who knows the seed knows the noise."""

from __future__ import annotations

import math

import numpy as np

from dpforest.noise.base import Noise, Shape, check_scale

# Draws that are held at once.
_AT_ONCE = 1 << 15


class Seeded(Noise):
    """Vectorised NumPy samplers behind one seed.

    No generator goes into compiled code: Numba runs Python to look into one and passes over what that raises, so that
    an interrupt at that moment leaves it with pointers to anywhere.

    Parameters
    ----------
    seed : int, SeedSequence or None
        Entropy; the same seed gives the same noise.

    Examples
    --------
    >>> Seeded(7).discrete_laplace(2.0, 3).tolist() == Seeded(7).discrete_laplace(2.0, 3).tolist()
    True
    """

    def __init__(self, seed: int | np.random.SeedSequence | None = None) -> None:
        self._rng = np.random.default_rng(seed)

    def discrete_laplace(self, scale: float, shape: Shape) -> np.ndarray:
        check_scale(scale)
        return _geometric_differences(self._rng, int(np.prod(shape)), float(scale)).reshape(shape)

    def discrete_laplace_share(self, scale: float, shares: int, shape: Shape) -> np.ndarray:
        check_scale(scale)
        first, second = (self._rng.negative_binomial(1 / shares, -math.expm1(-1 / scale), shape) for _ in range(2))
        return np.asarray(first - second, dtype=np.int64)

    def discrete_gaussian(self, sigma: float, shape: Shape) -> np.ndarray:
        check_scale(sigma)
        # Rejection from the discrete Laplace distribution (Canonne, Kamath, Steinke 2020, algorithm 3).
        size = int(np.prod(shape))
        out = np.empty(size, dtype=np.int64)
        t = math.floor(sigma) + 1
        filled = 0
        while filled < size:
            wanted = int((size - filled) * 1.6) + 16
            y = _geometric_differences(self._rng, wanted, float(t))
            accept = self._rng.random(wanted) < np.exp(-((np.abs(y) - sigma**2 / t) ** 2) / (2 * sigma**2))
            kept = y[accept][: size - filled]
            out[filled : filled + kept.size] = kept
            filled += kept.size
        return out.reshape(shape)

    def permute_and_flip(self, scores: np.ndarray, scale: float) -> np.ndarray:
        return _largest_with_exponential_noise(self._rng, scores, float(scale))

    def exponential_mechanism(self, scores: np.ndarray, scale: float) -> np.ndarray:
        return np.argmax(scores + self._rng.gumbel(scale=scale, size=scores.shape), axis=1)

    def bernoulli(self, probability: float, size: int) -> np.ndarray:
        return self._rng.random(size) < probability

    def sample(self, population: int, size: int) -> np.ndarray:
        return self._rng.choice(population, size, replace=False)

    def generator(self) -> np.random.Generator:
        return self._rng


def _geometric_differences(rng: np.random.Generator, size: int, scale: float) -> np.ndarray:
    """Differences of two geometric variables, which are two-sided geometric (Ghosh et al. 2012).

    The whole part of an exponential variable with mean ``scale`` is geometric: ``P[k or more] = exp(-k / scale)``.
    """
    numbers = np.empty(size, dtype=np.int64)
    for start in range(0, size, _AT_ONCE):
        part = numbers[start : start + _AT_ONCE]
        pairs = (scale * rng.standard_exponential((len(part), 2))).astype(np.int64)
        np.subtract(pairs[:, 0], pairs[:, 1], out=part)
    return numbers


def _largest_with_exponential_noise(rng: np.random.Generator, scores: np.ndarray, scale: float) -> np.ndarray:
    """Row-wise index of the largest ``score + Exponential(scale)``; the noise is stored for some rows at a time."""
    picked = np.empty(len(scores), dtype=np.int64)
    rows = max(1, _AT_ONCE // max(scores.shape[1], 1))
    for start in range(0, len(scores), rows):
        noised = rng.standard_exponential((len(scores[start : start + rows]), scores.shape[1]))
        noised *= scale
        noised += scores[start : start + rows]
        picked[start : start + rows] = noised.argmax(axis=1)
    return picked
