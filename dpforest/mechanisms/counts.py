"""Counts of records with discrete Laplace noise.

Proof. Let a record add at most ``sensitivity`` to the L1 norm of a vector of counts (a record lies in one
cell of a histogram: 1). For neighbouring inputs n and n' and any integer output o,
``P[n + Z = o] / P[n' + Z = o] = exp((|o - n'|_1 - |o - n|_1) / scale) <= exp(sensitivity / scale)``
by the triangle inequality, so ``scale = sensitivity / epsilon`` gives pure epsilon-differential privacy
(Ghosh, Roughgarden, Sundararajan 2012). Noise and counts are integers: the output has no floating-point leak.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpforest.ledger import ALL_ROWS, Entry, Ledger
from dpforest.noise import Noise, check_scale


@dataclass(frozen=True)
class DiscreteLaplaceCounts:
    """Release integer counts under pure differential privacy.

    Parameters
    ----------
    epsilon : float
        Cost of one release; ``inf`` adds no noise.
    sensitivity : int
        Largest change of the counts in L1 norm when one record is added or removed.

    Raises
    ------
    DPForestError
        The noise does not fit 64 bits.
    """

    epsilon: float
    sensitivity: int = 1

    def __post_init__(self) -> None:
        check_scale(self.scale)

    @property
    def scale(self) -> float:
        """Of the noise."""
        return self.sensitivity / self.epsilon if self.epsilon else math.inf

    @property
    def variance(self) -> float:
        """Of the noise of one count."""
        if math.isinf(self.epsilon):
            return 0.0
        # Of the two-sided geometric distribution with ratio q = exp(-1 / scale): 2 q / (1 - q)^2.
        rate = self.epsilon / self.sensitivity
        return 2 * math.exp(-rate) / math.expm1(-rate) ** 2

    def entry(self, what: str, rows: str = ALL_ROWS, times: int = 1, note: str = "") -> Entry:
        """The ledger line of such a release, for plans."""
        return Entry(
            what,
            "discrete Laplace",
            epsilon=self.epsilon,
            rows=rows,
            times=times,
            note=note,
            sensitivity=self.sensitivity,
            scale=self.scale,
        )

    def release(self, counts: np.ndarray, entry: Entry, ledger: Ledger, noise: Noise) -> np.ndarray:
        """Charge ``entry`` and return noised counts.

        Parameters
        ----------
        counts : ndarray of integers
            True counts; may hold several disjoint groups of records.
        entry : Entry
            From `entry`.

        Returns
        -------
        ndarray of int64, shape of ``counts``
            May be negative; clipping is free.
        """
        ledger.charge(entry)
        return self.draw(counts, noise)

    def draw(self, counts: np.ndarray, noise: Noise) -> np.ndarray:
        """Noised counts, int64 in the shape of ``counts``, under an entry that has been charged already (one entry,
        many disjoint nodes).
        """
        exact = np.asarray(counts, dtype=np.int64)
        if math.isinf(self.epsilon):
            return exact.copy()
        return exact + noise.discrete_laplace(self.scale, exact.shape)
