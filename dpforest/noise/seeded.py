"""Reproducible noise for simulations and tests. Never for a deployment: who knows the seed knows the noise."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from dpforest.noise.base import Noise, Shape, check_scale


class Seeded(Noise):
    """Vectorised NumPy samplers behind one seed.

    Parameters
    ----------
    seed : int, SeedSequence or None
        Entropy; the same seed gives the same noise.
    """

    def __init__(self, seed: int | np.random.SeedSequence | None = None) -> None:
        self._rng = np.random.default_rng(seed)

    def discrete_laplace(self, scale: float, shape: Shape) -> np.ndarray:
        check_scale(scale)
        return _geometric_differences(self._rng, int(np.prod(shape)), float(scale)).reshape(shape)

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


@njit(cache=True)
def _geometric_differences(rng: np.random.Generator, size: int, scale: float) -> np.ndarray:
    """Differences of two geometric variables, which are two-sided geometric (Ghosh et al. 2012).

    The whole part of an exponential variable with mean ``scale`` is geometric: ``P[k or more] = exp(-k / scale)``.
    """
    drawn = np.empty(size, dtype=np.int64)
    for i in range(size):
        drawn[i] = np.int64(scale * rng.standard_exponential()) - np.int64(scale * rng.standard_exponential())
    return drawn


@njit(cache=True)
def _largest_with_exponential_noise(rng: np.random.Generator, scores: np.ndarray, scale: float) -> np.ndarray:
    """Row-wise index of the largest ``score + Exponential(scale)``, without storing the noise."""
    picked = np.empty(scores.shape[0], dtype=np.int64)
    for i in range(scores.shape[0]):
        row = scores[i]
        best, largest = 0, -np.inf
        for k in range(row.shape[0]):
            noised = row[k] + scale * rng.standard_exponential()
            if noised > largest:
                best, largest = k, noised
        picked[i] = best
    return picked
