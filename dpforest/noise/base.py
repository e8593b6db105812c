"""What a mechanism asks of a noise source."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

Shape = int | tuple[int, ...]


class Noise(ABC):
    """A source of privacy noise.

    Only mechanisms draw from it. All samplers return integers, so that no low-order bits of a
    floating-point number can betray the data (Mironov 2012).
    """

    @abstractmethod
    def discrete_laplace(self, scale: float, shape: Shape) -> np.ndarray:
        """Two-sided geometric noise, P(k) proportional to ``exp(-|k| / scale)``; int64."""

    @abstractmethod
    def discrete_gaussian(self, sigma: float, shape: Shape) -> np.ndarray:
        """Discrete Gaussian noise, P(k) proportional to ``exp(-k^2 / (2 sigma^2))``; int64."""

    @abstractmethod
    def permute_and_flip(self, scores: np.ndarray, scale: float) -> np.ndarray:
        """Row-wise index of the largest ``score + Exponential(scale)``.

        Parameters
        ----------
        scores : ndarray of int64, shape (n_draws, n_candidates)
        scale : float
            Mean of the exponential noise, in units of the score.

        Returns
        -------
        ndarray of int64, shape (n_draws,)
        """

    @abstractmethod
    def exponential_mechanism(self, scores: np.ndarray, scale: float) -> np.ndarray:
        """Row-wise draw with probability proportional to ``exp(score / scale)``; shapes as above."""

    @abstractmethod
    def generator(self) -> np.random.Generator:
        """Randomness that is no privacy noise: shuffles, subsampling, random thresholds."""
