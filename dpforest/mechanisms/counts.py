"""Counts of records with discrete Laplace noise.

Proof. Let a record add at most ``sensitivity`` to the L1 norm of a vector of counts (a record lies in one
cell of a histogram: 1). For neighbouring inputs n and n' and any integer output o,
``P[n + Z = o] / P[n' + Z = o] = exp((|o - n'|_1 - |o - n|_1) / scale) <= exp(sensitivity / scale)``
by the triangle inequality, so ``scale = sensitivity / epsilon`` gives pure epsilon-differential privacy
(Ghosh, Roughgarden, Sundararajan 2012). Noise and counts are integers: the output has no floating-point leak.

*Shares.* Where n parties each add `Noise.discrete_laplace_share` to their part of a sum that nobody sees alone, the sum
has the same noise to the last bit. Where some parties may be missing, or may take their own noise off the sum, n is how
many are left for certain; shares of others that did stay are added to what is protected already, which is
post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpforest.ledger import ALL_ROWS, Entry
from dpforest.mechanisms.base import Cost, Mechanism, of_sum
from dpforest.noise import Noise, check_scale

_LARGEST_RATE = 1000.0  # beyond it there is no noise to speak of, and the hyperbolic sine of a half overflows


@dataclass(frozen=True)
class DiscreteLaplaceCounts(Mechanism):
    """Release integer counts under pure differential privacy.

    Parameters
    ----------
    epsilon : float
        Cost of one release; ``inf`` adds no noise.
    sensitivity : int
        Largest change of the counts in L1 norm when one record is added or removed.
    shares : int
        How many parties add a share of the noise to their part of a sum that nobody sees alone. The cost is that of
        the sum. `release` gives one party's part.

    Raises
    ------
    DPForestError
        The noise does not fit 64 bits.

    Examples
    --------
    >>> import numpy as np
    >>> from dpforest.ledger import Budget, Ledger
    >>> from dpforest.noise import Seeded
    >>> counts = DiscreteLaplaceCounts(epsilon=1.0)
    >>> noised = counts.release(np.array([30, 70]), counts.entry("counts"), Ledger(Budget(1.0)), Seeded(0))
    >>> noised.dtype.name, noised.shape
    ('int64', (2,))
    """

    epsilon: float
    sensitivity: int = 1
    shares: int = 1

    def __post_init__(self) -> None:
        check_scale(self.scale)

    @property
    def scale(self) -> float:
        """Of the noise."""
        return self.sensitivity / self.epsilon if self.epsilon else math.inf

    @property
    def variance(self) -> float:
        """Of one party's noise of one count."""
        if math.isinf(self.epsilon):
            return 0.0
        # Of the two-sided geometric distribution with ratio q = exp(-1 / scale): 2 q / (1 - q)^2.
        rate = self.epsilon / self.sensitivity
        return 2 * math.exp(-rate) / math.expm1(-rate) ** 2 / self.shares

    def tail(self, chance: float, draws: int = 1) -> float:
        """What the sum of so many draws of the noise exceeds, in absolute value, with at most this chance.

        By Markov's inequality for ``exp(t Z)``, whose mean is ``1 / (1 - (sinh(t / 2) / sinh(rate / 2))^2)`` for every
        t below ``rate = 1 / scale``; any t will do, and the best of some is taken. A share's is a root of that mean.
        """
        if math.isinf(self.epsilon):
            return 0.0
        rate = min(1 / self.scale, _LARGEST_RATE)
        t = rate * np.geomspace(1e-4, 0.999, 200)
        of_each = -np.log1p(-((np.sinh(t / 2) / math.sinh(rate / 2)) ** 2))
        return float(((math.log(2 / chance) + draws * of_each) / t).min())

    @property
    def cost(self) -> Cost:
        return Cost("discrete Laplace", epsilon=self.epsilon, sensitivity=self.sensitivity, scale=self.scale)

    def entry(self, what: str, rows: str = ALL_ROWS, times: int = 1, note: str = "") -> Entry:
        return super().entry(what, rows, times, of_sum(note, self.shares))

    def _noised(self, values: np.ndarray, noise: Noise) -> np.ndarray:
        """Noised counts, int64 in the shape of ``values``; may be negative, clipping is free."""
        exact = np.asarray(values, dtype=np.int64)
        if math.isinf(self.epsilon):
            return exact.copy()
        if self.shares > 1:
            return exact + noise.discrete_laplace_share(self.scale, self.shares, exact.shape)
        return exact + noise.discrete_laplace(self.scale, exact.shape)
