"""Gaussian noise on a sum of bounded contributions."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpforest.mechanisms.whole import LARGEST, whole_numbers
from dpforest.noise import Noise, Seeded

# Steps of the integer grid per unit of sensitivity, in deployment.
_STEPS = 2**20


@dataclass(frozen=True)
class GaussianSum:
    """Adds Gaussian noise of standard deviation ``multiplier * sensitivity`` to every coordinate of a sum.

    Its cost is ``mu = 1 / multiplier``; the caller charges it, since it may be subsampled and repeated.

    In a simulation (a `Seeded` source) the noise is a continuous Gaussian. In a deployment the low-order bits of
    floating-point noise could betray the data (Mironov 2012), so the sum is put on a grid of integers and a discrete
    Gaussian is drawn (Canonne, Kamath, Steinke 2020), which has the cost of the continuous one. Each of the d
    coordinates is rounded by at most 1/2 of a step, and adding up 65,536 rows or fewer in double precision was off by
    no more than that (``n^2 / 2^53`` of the sensitivity, in any order), so two neighbouring sums end up at most ``steps
    + 2 sqrt(d)`` grid steps apart, where ``steps`` are those of one sensitivity: the noise is scaled to that. Sums that
    are exact (`baselines.mlp.inputs.row_sums`) have no such limit.

    Parameters
    ----------
    sensitivity : float
        Largest Euclidean distance between the sums of neighbours.
    multiplier : float
        Standard deviation over sensitivity; 0 for no noise.
    """

    sensitivity: float
    multiplier: float

    def release(self, total: np.ndarray, noise: Noise) -> np.ndarray:
        """The sum with noise; any float type in, the same out."""
        if not self.multiplier:
            return total
        if isinstance(noise, Seeded):
            draw = noise.generator().standard_normal(total.shape, dtype=np.float32)
            return total + (draw * np.float32(self.multiplier * self.sensitivity)).astype(total.dtype)
        steps_per_unit = _STEPS / self.sensitivity
        grid = whole_numbers(total.astype(np.float64) * steps_per_unit, LARGEST)
        sigma = self.multiplier * (_STEPS + 2 * math.sqrt(total.size))
        return ((grid + noise.discrete_gaussian(sigma, total.shape)) / steps_per_unit).astype(total.dtype)
