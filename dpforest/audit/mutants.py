"""Faults on purpose: an audit that does not find them could have found nothing."""

from __future__ import annotations

import numpy as np

from dpforest.noise import Noise
from dpforest.noise.base import Shape


class HalvedNoise(Noise):
    """The mutant: half the noise that a mechanism asks for.

    Parameters
    ----------
    noise : Noise
        Where it comes from.
    """

    def __init__(self, noise: Noise) -> None:
        self._noise = noise

    def discrete_laplace(self, scale: float, shape: Shape) -> np.ndarray:
        return self._noise.discrete_laplace(scale / 2, shape)

    def discrete_laplace_share(self, scale: float, shares: int, shape: Shape) -> np.ndarray:
        return self._noise.discrete_laplace_share(scale / 2, shares, shape)

    def discrete_gaussian(self, sigma: float, shape: Shape) -> np.ndarray:
        return self._noise.discrete_gaussian(sigma / 2, shape)

    def permute_and_flip(self, scores: np.ndarray, scale: float) -> np.ndarray:
        return self._noise.permute_and_flip(scores, scale / 2)

    def exponential_mechanism(self, scores: np.ndarray, scale: float) -> np.ndarray:
        return self._noise.exponential_mechanism(scores, scale / 2)

    def bernoulli(self, probability: float, size: int) -> np.ndarray:
        return self._noise.bernoulli(probability, size)

    def sample(self, population: int, size: int) -> np.ndarray:
        return self._noise.sample(population, size)

    def generator(self) -> np.random.Generator:
        return self._noise.generator()
