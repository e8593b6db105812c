"""One client's vector among others, bounded in length and in whole numbers: what a whole client adds to a sum.

Proof. The unit is a client's whole data; neighbours differ in that one client's data are replaced by nothing, its place
stays, and its vector is then 0. Let ``u`` be *any* function of the client's own rows and of what was released before
(also where it subtracts the rows' own mean, divides by their own deviation, ranks them among each other, or weighs
classes: all of that happens inside ``u``, and nothing of it is sent).

* `unit_vector` sends ``v = u / |u|``, and 0 for ``u = 0``. So ``|v| <= 1``, and the sum over clients moves by at most
  1 in L2 norm.
* `clipped_vector` sends ``v = u min(1, c / |u|)``, so ``|v| <= c``, and the sum moves by at most c. Of several vectors
  in one release, ``u`` is all of them behind one another.

In whole numbers: a vector of length at most 1 (or c) is multiplied by ``units`` (``units / c``) and every coordinate
truncated towards zero. As ``|trunc(x)| <= |x|`` in each coordinate, the norm never grows, and the squared norm of what
is sent, a whole number, is at most ``units^2`` wherever floating point was exact. It is computed in whole numbers, and
coordinates step towards zero until it is (`clipped_vector`), so that floating point does not matter. A ``u`` with a NaN
or an infinity is sent as 0. Sums of whole numbers are exact.

With noise of `DiscreteGaussianSums` for a squared sensitivity of ``units^2``, by one party or in shares, a release is
mu-GDP as `dpforest.mechanisms.gaussian` proves, and adaptive rounds compose to ``mu^2 = sum mu_b^2``. To replace a
client's data by *other* data instead of by nothing moves a sum by up to twice as much.
"""

from __future__ import annotations

import math

import numpy as np

from dpforest.mechanisms.whole import whole_numbers


def unit_vector(vector: np.ndarray, units: int) -> np.ndarray:
    """The direction of a client's vector in whole numbers.

    Parameters
    ----------
    vector : ndarray of float
        Any numbers.
    units : int
        Largest L2 norm of the result; at most 2 ** 26.

    Returns
    -------
    ndarray of int64, shape of ``vector``

    Examples
    --------
    >>> import numpy as np
    >>> unit_vector(np.array([3.0, 4.0]), units=100).tolist()
    [60, 80]
    """
    return clipped_vector(vector, 0.0, units**2)


def clipped_vector(vector: np.ndarray, clip: float, squared_units: int) -> np.ndarray:
    """A client's vector, shortened to a length, in whole numbers: ``clip`` becomes the root of ``squared_units``.

    Parameters
    ----------
    vector : ndarray of float
        Any numbers.
    clip : float
        From 0.
    squared_units : int
        Largest squared L2 norm of the result; at most 2 ** 52.

    Returns
    -------
    ndarray of int64, shape of ``vector``

    Examples
    --------
    >>> import numpy as np
    >>> clipped_vector(np.array([3.0, 4.0]), clip=1.0, squared_units=10_000).tolist()
    [60, 80]
    """
    whole = whole_numbers(_scaled(vector, clip, math.sqrt(squared_units)), math.isqrt(squared_units), towards_zero=True)
    while int((whole**2).sum()) > squared_units:
        whole -= np.sign(whole)
    return whole


def _scaled(vector: np.ndarray, clip: float, units: float) -> np.ndarray:
    vector = np.asarray(vector, dtype=np.float64)
    largest = float(np.abs(vector).max(initial=0.0))
    if not 0 < largest < np.inf:  # also NaN
        return np.zeros(vector.shape)
    parts = vector / largest  # so that no square overflows or vanishes
    length = float(np.sqrt((parts**2).sum()))
    return parts * (units / max(length, clip / largest))
