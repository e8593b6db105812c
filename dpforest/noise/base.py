"""What a mechanism asks of a noise source."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from dpforest.errors import DPForestError

Shape = int | tuple[int, ...]
# Of a scale or sigma. What 64 bits cannot hold is then 4000 scales away, which no draw ever is.
LARGEST_SCALE = 2.0**50


def check_scale(scale: float) -> None:
    """Refuse noise that does not fit 64 bits: a draw that is cut off there would show the number beneath it.

    Parameters
    ----------
    scale : float
        Of the noise, in units of what is released.

    Raises
    ------
    DPForestError
    """
    if not scale <= LARGEST_SCALE:
        raise DPForestError(
            f"noise of scale {scale:.3g} is above {LARGEST_SCALE:.3g} and would leave nothing: give a release a larger "
            "part of epsilon"
        )


class Noise(ABC):
    """A source of privacy noise.

    Only mechanisms and samplers of units draw from it. All draws are integers, so that no low-order bits of a
    floating-point number can betray the data (Mironov 2012).
    """

    @abstractmethod
    def discrete_laplace(self, scale: float, shape: Shape) -> np.ndarray:
        """Two-sided geometric noise, P(k) proportional to ``exp(-|k| / scale)``; int64 of ``shape``.

        Raises
        ------
        DPForestError
            By `check_scale`.
        """

    @abstractmethod
    def discrete_laplace_share(self, scale: float, shares: int, shape: Shape) -> np.ndarray:
        """Noise of which so many independent draws add up to `discrete_laplace`; int64 of ``shape``.

        A difference of two negative binomial numbers of ``1 / shares`` failures each and ratio ``q = exp(-1 / scale)``:
        their generating functions are ``((1 - q) / (1 - q z))^(1 / shares)``, so that those of all parties multiply to
        that of a geometric number, and two-sided geometric noise is a difference of two of these.

        Raises
        ------
        DPForestError
            By `check_scale`.
        """

    @abstractmethod
    def discrete_gaussian(self, sigma: float, shape: Shape) -> np.ndarray:
        """Discrete Gaussian noise, P(k) proportional to ``exp(-k^2 / (2 sigma^2))``; int64 of ``shape``.

        Raises
        ------
        DPForestError
            By `check_scale`.
        """

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
    def bernoulli(self, probability: float, size: int) -> np.ndarray:
        """Independent draws that are true with a probability, or with less of it by at most 2^-53; bool of (size,).

        For samples whose secrecy a proof of amplification needs. Less is covered too: a sample with probability p' < p
        is one with p from which units are dropped by a coin, so its hockey-stick divergences, which are jointly convex,
        are at most p' / p of those.
        """

    @abstractmethod
    def sample(self, population: int, size: int) -> np.ndarray:
        """Different numbers below ``population``, every set of them equally likely; int64 of (size,).

        For samples whose secrecy a proof of amplification needs.
        """

    @abstractmethod
    def generator(self) -> np.random.Generator:
        """Randomness that no proof needs to be secret: shuffles, parts of the rows, random thresholds."""
