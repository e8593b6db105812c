"""Reproducible noise for simulations and tests. Never for a deployment: who knows the seed knows the noise."""

from __future__ import annotations

import math
from functools import cache
from types import ModuleType

import numpy as np

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
        return _kernels().geometric_differences(self._rng, int(np.prod(shape)), float(scale)).reshape(shape)

    def discrete_gaussian(self, sigma: float, shape: Shape) -> np.ndarray:
        check_scale(sigma)
        # Rejection from the discrete Laplace distribution (Canonne, Kamath, Steinke 2020, algorithm 3).
        size = int(np.prod(shape))
        out = np.empty(size, dtype=np.int64)
        t = math.floor(sigma) + 1
        filled = 0
        while filled < size:
            wanted = int((size - filled) * 1.6) + 16
            y = _kernels().geometric_differences(self._rng, wanted, float(t))
            accept = self._rng.random(wanted) < np.exp(-((np.abs(y) - sigma**2 / t) ** 2) / (2 * sigma**2))
            kept = y[accept][: size - filled]
            out[filled : filled + kept.size] = kept
            filled += kept.size
        return out.reshape(shape)

    def permute_and_flip(self, scores: np.ndarray, scale: float) -> np.ndarray:
        return _kernels().largest_with_exponential_noise(self._rng, scores, float(scale))

    def exponential_mechanism(self, scores: np.ndarray, scale: float) -> np.ndarray:
        return np.argmax(scores + self._rng.gumbel(scale=scale, size=scores.shape), axis=1)

    def generator(self) -> np.random.Generator:
        return self._rng


@cache
def _kernels() -> ModuleType:
    # At the first draw: a node imports this package for every message, also for those that draw nothing seeded.
    from dpforest.noise import seeded_kernels

    return seeded_kernels
