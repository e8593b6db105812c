"""From floating-point numbers to the whole numbers that mechanisms add up: the only way there.

Proof. `whole` maps every float, NaN and the infinities included, to an integer of size at most ``largest``: a NaN
becomes 0, all else is first clipped to ``[-largest, largest]``, where rounding to a neighbouring whole number cannot
leave that interval because its ends are whole and rounding is monotone. ``largest`` is at most `LARGEST`, so that the
float is exactly the integer that it is converted to. A conversion of a float that no integer holds would otherwise
give any number at all (on most machines the smallest one), and one record could move a sum by 2 ** 63. Callers round
the part of each record for itself, before any sum: sums of integers are exact, so one record more or less moves a sum
by exactly its own part, whatever the others are.
"""

from __future__ import annotations

import numpy as np

from dpforest.compiled import compiled

LARGEST = 1 << 53


@compiled(inline="always")
def whole(number: float, largest: int, towards_zero: bool) -> np.int64:
    """One float as an integer of size at most ``largest``.

    Parameters
    ----------
    number : float
        Any, also NaN and the infinities.
    largest : int
        From 0 to `LARGEST`.
    towards_zero : bool
        Drop what comes after the point; else round to the nearest, ties to even.

    Returns
    -------
    int64
    """
    if np.isnan(number):
        return np.int64(0)
    inside = min(max(number, -np.float64(largest)), np.float64(largest))
    return np.int64(np.trunc(inside) if towards_zero else np.rint(inside))


@compiled()
def _whole_flat(numbers: np.ndarray, largest: int, towards_zero: bool) -> np.ndarray:
    out = np.empty(numbers.shape[0], dtype=np.int64)
    for i in range(numbers.shape[0]):
        out[i] = whole(numbers[i], largest, towards_zero)
    return out


def whole_numbers(numbers: np.ndarray, largest: int, towards_zero: bool = False) -> np.ndarray:
    """`whole` of every float of an array.

    Parameters
    ----------
    numbers : ndarray of float
        One record's part in each cell: not yet a sum over records.
    largest : int
        What no result exceeds in size; at most `LARGEST`.
    towards_zero : bool
        Drop what comes after the point; else round to the nearest.

    Returns
    -------
    ndarray of int64, shape of ``numbers``
    """
    if not 0 <= largest <= LARGEST:
        raise ValueError(f"largest {largest} must lie from 0 to {LARGEST}")
    numbers = np.asarray(numbers, dtype=np.float64)
    return _whole_flat(np.ascontiguousarray(numbers).ravel(), largest, towards_zero).reshape(numbers.shape)
