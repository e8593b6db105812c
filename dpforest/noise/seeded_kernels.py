"""Loops of the seeded samplers, compiled; loaded when the first noise is drawn, as Numba takes long to import."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True)
def geometric_differences(rng: np.random.Generator, size: int, scale: float) -> np.ndarray:
    """Differences of two geometric variables, which are two-sided geometric (Ghosh et al. 2012).

    The whole part of an exponential variable with mean ``scale`` is geometric: ``P[k or more] = exp(-k / scale)``.
    """
    drawn = np.empty(size, dtype=np.int64)
    for i in range(size):
        drawn[i] = np.int64(scale * rng.standard_exponential()) - np.int64(scale * rng.standard_exponential())
    return drawn


@njit(cache=True)
def largest_with_exponential_noise(rng: np.random.Generator, scores: np.ndarray, scale: float) -> np.ndarray:
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
