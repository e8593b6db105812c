"""Sums of integer vectors with discrete Gaussian noise.

Proof. Let a record add a vector of integers of L2 norm at most ``Delta`` to the sums, and let every sum get discrete
Gaussian noise of parameter ``sigma``, P(k) proportional to ``exp(-k^2 / (2 sigma^2))``. No exact composition is known
for it, but it is a function of continuous Gaussian noise up to a factor beyond any meaning. Take ``r = 3`` and
``sigma_1^2 = sigma^2 - r^2``. Release ``z = x + N(0, sigma_1^2)`` for every (integer) sum x, which is mu-GDP with
``mu = Delta / sigma_1`` (Dong, Roth, Su 2022). Round each z at random to an integer y with probability
``rho_r(y - z) / rho_r(Z - z)``, ``rho_s(u) = exp(-u^2 / (2 s^2))``: post-processing, so still mu-GDP. By Poisson
summation ``rho_r(Z - z)`` lies within a factor 1 +- e of ``r sqrt(2 pi)`` with ``e = 2 sum_k exp(-2 pi^2 r^2 k^2) <
2e-77``, and the integral of ``rho_sigma_1(z - x) rho_r(y - z)`` over z is a multiple of ``rho_sigma(y - x)``. So y has
the discrete Gaussian's probabilities up to a factor exp(+-2e) a number (the argument is that of Peikert 2010, theorem
3.1). Over D numbers, adaptively chosen or not, (epsilon, delta) becomes (epsilon + 4 D e, delta exp(2 D e)): for
a billion numbers that is epsilon + 1e-67, far below what floating-point accounting can show. So the ledger is charged
``Delta / sqrt(sigma^2 - 9)`` and not the slightly smaller ``Delta / sigma``. (Canonne, Kamath, Steinke 2020, theorem 4,
show that ``Delta / sigma`` is right for concentrated differential privacy.)

*Shares.* Where ``n`` parties each add a share of parameter ``s = sigma / sqrt(n) >= 3`` and only the sum is seen, the
probabilities differ from those of one discrete Gaussian by a factor exp(+-tau) a number at most, ``tau = 10 sum_{k < n}
exp(-2 pi^2 s^2 k / (k + 1)) <= 10 (n - 1) exp(-pi^2 s^2)`` (Kairouz, Liu, Steinke 2021, corollary 12): 3e-38 (n - 1).
Over D numbers, (epsilon, delta) becomes, by going over to the other distribution and back,
``P'(A) <= e^(D tau) P(A) <= e^(D tau) (e^epsilon Q(A) + delta) <= e^(epsilon + 2 D tau) Q'(A) + e^(D tau) delta``. For
a billion numbers of a thousand parties that is epsilon + 6e-26, again nothing. Where some parties may be missing, or
may take their own noise off the sum, ``n`` is how many are left for certain; shares of others that did stay are added
to what is protected already, which is post-processing.

Pure epsilon comes from `DiscreteLaplaceCounts`, with the L1 norm.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np

from dpforest.errors import DPForestError
from dpforest.ledger import ALL_ROWS, Entry
from dpforest.mechanisms.base import Cost, Mechanism, of_sum
from dpforest.noise import Noise, check_scale

_ROUNDING_VARIANCE = 9.0
# Noise of a party that leaves no trace of the grid of whole numbers.
_LEAST_SHARE = 16.0
# Largest scale of whole numbers: their sums then fit 64 bits.
_LARGEST_UNIT = 2**24


@dataclass(frozen=True)
class DiscreteGaussianSums(Mechanism):
    """Release sums of integer vectors under Gaussian differential privacy.

    Parameters
    ----------
    sigma : float
        Parameter (all but the standard deviation) of the noise of a sum, above 3; 0 adds no noise.
    squared_sensitivity : int
        Largest squared L2 norm of what one record adds.
    shares : int
        How many parties add a share of the noise to their part of a sum that nobody sees alone. The cost is that of
        the sum. `release` gives one party's part.

    Raises
    ------
    DPForestError
        A share of the noise is below 3: scale the sums up. Or the noise does not fit 64 bits.

    Examples
    --------
    >>> import numpy as np
    >>> from dpforest.ledger import Budget, Ledger
    >>> from dpforest.noise import Seeded
    >>> sums = DiscreteGaussianSums(sigma=20.0, squared_sensitivity=25)
    >>> noised = sums.release(np.array([100, 200]), sums.entry("sums"), Ledger(Budget(2.0, 1e-6)), Seeded(0))
    >>> round(sums.cost.mu, 4)  # a little more than 5 / 20, since the noise is discrete
    0.2529
    """

    sigma: float
    squared_sensitivity: int
    shares: int = 1

    def __post_init__(self) -> None:
        check_scale(self.sigma)
        if self.shares < 1 or self.squared_sensitivity < 1:
            raise DPForestError(
                f"shares {self.shares} and squared sensitivity {self.squared_sensitivity} must be 1 or more"
            )
        if self.sigma != 0 and not (self.share**2 >= _ROUNDING_VARIANCE and self.sigma**2 > _ROUNDING_VARIANCE):
            raise DPForestError(
                f"discrete Gaussian noise of {self.share:.3g} a party is below 3: scale the values up before rounding"
            )

    @classmethod
    def for_mu(cls, mu: float, squared_sensitivity: int, shares: int = 1) -> Self:
        """The least noise that costs at most ``mu``; none for ``inf``."""
        sigma = 0.0 if math.isinf(mu) else math.sqrt(squared_sensitivity / mu**2 + _ROUNDING_VARIANCE)
        return cls(sigma, squared_sensitivity, shares)

    @property
    def mu(self) -> float:
        """Cost of one release (Gaussian differential privacy)."""
        if self.sigma == 0:
            return math.inf
        return math.sqrt(self.squared_sensitivity / (self.sigma**2 - _ROUNDING_VARIANCE))

    @property
    def share(self) -> float:
        """Parameter of one party's noise."""
        return self.sigma / math.sqrt(self.shares)

    @property
    def variance(self) -> float:
        """Of one party's noise."""
        return self.share**2

    def tail(self, chance: float, draws: int = 1) -> float:
        """What the sum of so many draws of one party's noise exceeds, in absolute value, with at most this chance.

        A discrete Gaussian is subgaussian like the continuous one of its parameter, ``E exp(t Z) <= exp(t^2 share^2 /
        2)``, since by Poisson summation no shift of ``exp(-z^2 / (2 share^2))`` has a larger sum over the integers.
        """
        return self.share * math.sqrt(2 * draws * math.log(2 / chance))

    @property
    def cost(self) -> Cost:
        sensitivity = math.sqrt(self.squared_sensitivity)
        return Cost("discrete Gaussian", mu=self.mu, sensitivity=sensitivity, scale=self.sigma)

    def entry(self, what: str, rows: str = ALL_ROWS, times: int = 1, note: str = "") -> Entry:
        return super().entry(what, rows, times, of_sum(note, self.shares))

    def _noised(self, values: np.ndarray, noise: Noise) -> np.ndarray:
        """Noised sums, int64 in the shape of ``values``."""
        exact = np.asarray(values, dtype=np.int64)
        if self.sigma == 0:
            return exact.copy()
        return exact + noise.discrete_gaussian(self.share, exact.shape)


def scaled_sums(
    unit: int, squared_sensitivity: Callable[[int], int], mu: float, shares: int
) -> tuple[int, DiscreteGaussianSums]:
    """A scale for whole numbers, doubled until a share of the noise covers their grid, and the mechanism.

    Parameters
    ----------
    unit : int
        Smallest scale.
    squared_sensitivity : callable of int to int
        Largest squared L2 norm of what one record adds at a scale.
    mu : float
        What one release may cost; ``inf`` for no noise.
    shares : int
        How many parties share the noise.

    Raises
    ------
    DPForestError
        There is so little noise that no whole numbers show it.
    """
    while True:
        # Without noise there is no share to wait for.
        needed = squared_sensitivity(unit) / (mu * _LEAST_SHARE) ** 2 / shares
        if needed >= 1 or math.isinf(mu):
            return unit, DiscreteGaussianSums.for_mu(mu, squared_sensitivity(unit), shares)
        if unit >= _LARGEST_UNIT:
            raise DPForestError("epsilon is so large that whole numbers cannot show its noise: use inf for no noise")
        unit *= 2
