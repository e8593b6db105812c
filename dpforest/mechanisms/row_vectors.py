"""Sums of bounded vectors of rows, added up in floating point, as the whole numbers that secure sums are made of.

Proof. The unit is one row; let it add a vector of length at most c to a sum over a client's rows, as the gradient of a
row's loss does once it is clipped to c. The sum is multiplied by ``units / c`` and every coordinate truncated towards
zero. Two sums that differ in one row are at most ``units`` apart before; truncation moves two numbers apart by less
than 1, and so does adding up in floating point: in double precision, in blocks of 2^14 rows or fewer, in any order,
``K`` blocks are off by at most ``2^14 K (2^14 + K) / 2^53`` of c in a coordinate (each addition is off by one part
of 2^53 of what was added so far). That is no more than 1/2 of ``c / units`` up to ``2^37 / units`` rows, 2 million for
the usual ``units`` of 2^16. So the whole numbers of neighbours are at most ``units + 2 sqrt(d)`` apart in L2 norm, d
being the number of coordinates (Minkowski), and `squared_norm` is the square of that, rounded up. All further rows of
other clients are in both sums. Cutting coordinates off at a public number moves two of them no further apart.

With noise of `DiscreteGaussianSums` for that squared sensitivity, by one party or in shares, a release is mu-GDP as
`dpforest.mechanisms.gaussian` proves. The vectors of a release may follow from what was released before (gradients at
weights that noised gradients have led to): T adaptive releases compose to ``mu^2 = T mu_1^2`` (Dong, Roth, Su 2022,
corollary 3.3).

Single precision, which simulations use, is off by 2^29 times as much: up to a millionth of c.
"""

from __future__ import annotations

import math

import numpy as np

from dpforest.mechanisms.whole import LARGEST, whole_numbers


def squared_norm(units: int, width: int) -> int:
    """Largest squared distance between `whole_sum` of neighbours.

    Parameters
    ----------
    units : int
        What the length of a row's vector becomes in whole numbers.
    width : int
        Coordinates of a vector.
    """
    return math.ceil((units + 2 * math.sqrt(width)) ** 2)


def whole_sum(total: np.ndarray, clip: float, units: int, largest: int = LARGEST) -> np.ndarray:
    """A sum over rows in whole numbers; a NaN becomes 0.

    Parameters
    ----------
    total : ndarray of float
        Of vectors of length at most ``clip``.
    clip : float
    units : int
        What ``clip`` becomes.
    largest : int
        What no number exceeds in size.

    Returns
    -------
    ndarray of int64, shape of ``total``
    """
    return whole_numbers(np.asarray(total, dtype=np.float64) * (units / clip), min(largest, LARGEST), towards_zero=True)
