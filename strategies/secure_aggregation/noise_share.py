"""Room that a client's share of the noise takes in a secure sum.

How large the share must be, and what it costs that a sum of discrete Gaussians is not quite one:
`dpforest.mechanisms.gaussian`.
"""

from __future__ import annotations

import math


def noise_tail(share: float, draws: int, failure: float) -> int:
    """What no draw of a client's noise exceeds in absolute value, but for a small chance.

    Add it to the clip bound for `Terms.largest_value`.

    Parameters
    ----------
    share : float
        Standard deviation of each draw.
    draws : int
        Of all clients and rounds together.
    failure : float
        Chance that one of them exceeds the result. A discrete Gaussian has the tails 2 exp(-m^2 / (2 s^2)) of a
        continuous one, since by Poisson summation no shift of exp(-z^2 / (2 s^2)) has a larger sum over the integers.
    """
    return math.ceil(share * math.sqrt(2 * math.log(2 * draws / failure)))
