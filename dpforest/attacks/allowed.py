"""What a guarantee allows any attacker who wants to know whether a record was there.

Whatever such an attacker does with what (epsilon, delta)-differential privacy protects, its true positive rate at a
false positive rate a is at most ``min(1, delta + e^epsilon a, 1 - e^-epsilon (1 - delta - a))`` (Kairouz, Oh and
Viswanath 2015, theorem 2.1): the first is the definition for the event "it says yes", the second for "it says no".
The area under the curve is that of this line of two corners.
"""

from __future__ import annotations

import math

import numpy as np


def most_true_positives(false_positives: np.ndarray | float, epsilon: float, delta: float = 0.0) -> np.ndarray:
    """Largest true positive rate at these false positive rates.

    Parameters
    ----------
    false_positives : array-like
        From 0 to 1.
    epsilon : float
        ``inf`` allows everything.
    delta : float

    Returns
    -------
    ndarray of float64, shape of ``false_positives``
        From 0 to 1.

    Examples
    --------
    >>> most_true_positives([0.0, 0.01, 0.1], epsilon=1.0).round(3).tolist()
    [0.0, 0.027, 0.272]
    """
    rate = np.asarray(false_positives, dtype=np.float64)
    if math.isinf(epsilon):
        return np.ones_like(rate)
    with np.errstate(over="ignore"):
        by_yes = delta + np.exp(min(epsilon, 700.0)) * rate
    by_no = 1 - math.exp(-epsilon) * (1 - delta - rate)
    return np.clip(np.minimum(by_yes, by_no), 0.0, 1.0)


def most_area(epsilon: float, delta: float = 0.0) -> float:
    """Largest area under the curve of true against false positives.

    Parameters
    ----------
    epsilon : float
        From 0; ``inf`` allows everything.
    delta : float
        From 0, below 1.

    Returns
    -------
    float
        From 0.5 to 1.

    Examples
    --------
    >>> round(most_area(1.0), 4)
    0.7311
    """
    if math.isinf(epsilon):
        return 1.0
    corner = (1 - delta) / (1 + math.exp(min(epsilon, 700.0)))
    at = np.array([0.0, corner, 1 - delta, 1.0])
    reached = most_true_positives(at, epsilon, delta)
    return float(np.sum(np.diff(at) * (reached[1:] + reached[:-1]) / 2))
