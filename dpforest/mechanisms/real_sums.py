"""Sums of bounded real vectors with Gaussian noise, for networks.

Proof. Let neighbours' sums be at most ``sensitivity`` apart in L2 norm. Independent Gaussian noise of standard
deviation ``sensitivity / mu`` on every coordinate is then mu-GDP (Dong, Roth, Su 2022, theorem 2.7). Where the unit is
in the sum with probability ``sampling`` only, drawn anew and kept secret each time, the ledger accounts for the sampled
Gaussian mechanism (`dpforest.ledger.accounting`).

In a simulation (a `Seeded` source) the noise is a continuous Gaussian in single precision. In a deployment the
low-order bits of floating-point noise could betray the data (Mironov 2012), so the sum is put on a grid of integers,
``2^20`` steps to one sensitivity, and a discrete Gaussian is drawn. Rounding moves each of the d coordinates by at
most 1/2 of a step, and adding up 65,536 rows or fewer in double precision was off by no more than that (``n^2 / 2^53``
of the sensitivity, in any order), so two neighbouring sums end up at most ``2^20 + 2 sqrt(d)`` steps apart, and the
noise is scaled to that. Sums that are exact (`baselines.mlp.inputs.row_sums`) have no such limit. A discrete Gaussian
of parameter sigma costs ``Delta / sqrt(sigma^2 - 9)``, up to a factor beyond any meaning
(`dpforest.mechanisms.gaussian`), so ``sigma^2 = ((2^20 + 2 sqrt(d)) / mu)^2 + 9``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dpforest.errors import DPForestError
from dpforest.mechanisms.base import Cost, Mechanism
from dpforest.mechanisms.whole import LARGEST, whole_numbers
from dpforest.noise import Noise, Seeded

# Steps of the integer grid per unit of sensitivity, in deployment.
_STEPS = 2**20
_ROUNDING_VARIANCE = 9.0


@dataclass(frozen=True)
class GaussianSums(Mechanism):
    """Release sums of real vectors under Gaussian differential privacy.

    Parameters
    ----------
    sensitivity : float
        Largest Euclidean distance between the sums of neighbours, above 0.
    mu : float
        Cost of a release in which the unit takes part; ``inf`` adds no noise.
    sampling : float
        Probability with which the unit takes part.
    fixed_size : bool
        Samples have a fixed size; ``mu`` and ``sensitivity`` then are for replacing a unit.

    Raises
    ------
    DPForestError
        The sensitivity or mu is no positive number.

    Examples
    --------
    >>> GaussianSums(sensitivity=1.0, mu=0.5).cost.scale
    2.0
    """

    sensitivity: float
    mu: float
    sampling: float = 1.0
    fixed_size: bool = False

    def __post_init__(self) -> None:
        if not (0 < self.sensitivity < math.inf and self.mu > 0):
            raise DPForestError(f"sensitivity {self.sensitivity} and mu {self.mu} must be positive numbers")

    def part(self, share: float) -> GaussianSums:
        """The mechanism of a part that takes a share of the squared mu of such a release; see `Paid.draw_parts`."""
        return replace(self, mu=math.sqrt(share) * self.mu)

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise of a coordinate."""
        return self.sensitivity / self.mu

    @property
    def cost(self) -> Cost:
        kind = ""
        if self.sampling < 1:
            kind = " on samples of fixed size" if self.fixed_size else " on Poisson samples"
        return Cost(
            f"Gaussian{kind}",
            mu=self.mu,
            sampling=self.sampling,
            fixed_size=self.fixed_size,
            sensitivity=self.sensitivity,
            scale=self.deviation,
        )

    def _noised(self, values: np.ndarray, noise: Noise) -> np.ndarray:
        """The sums with noise; any float type in, the same out."""
        if math.isinf(self.mu):
            return values
        if isinstance(noise, Seeded):
            draw = noise.generator().standard_normal(values.shape, dtype=np.float32)
            return values + (draw * np.float32(self.deviation)).astype(values.dtype)
        steps_per_unit = _STEPS / self.sensitivity
        grid = whole_numbers(values.astype(np.float64) * steps_per_unit, LARGEST)
        sigma = math.hypot((_STEPS + 2 * math.sqrt(values.size)) / self.mu, math.sqrt(_ROUNDING_VARIANCE))
        return ((grid + noise.discrete_gaussian(sigma, values.shape)) / steps_per_unit).astype(values.dtype)
