"""How the two numbers of a guarantee are printed and bounded."""

from __future__ import annotations

import math
from decimal import ROUND_UP, Context, Decimal

from dpforest.errors import DPForestError

# Shares of a budget are sums of floating-point numbers: a total that is this close to the budget (relatively) is it.
ROUNDING = 1e-9
# No delta from here on says anything, whatever the number of records.
LARGEST_DELTA = 1e-3


def rounded_up(cost: float, digits: int = 6) -> str:
    """An epsilon, mu or delta in so many significant digits, never less than it is.

    Rounding to the nearest would print 1.00049 as 1, which claims more than is proven. What lies above a shorter number
    by no more than `ROUNDING`, as sums of shares do, is that number.

    Parameters
    ----------
    cost : float
        From 0.
    digits : int
        Significant ones, at most.

    Returns
    -------
    str
        A number, or ``inf``.

    Examples
    --------
    >>> rounded_up(1.00049, 4), rounded_up(0.1 + 0.2)
    ('1.001', '0.3')
    """
    if not 0 < cost < math.inf:
        return f"{cost:g}"
    up = Context(prec=digits, rounding=ROUND_UP).plus(Decimal(cost) * (1 - Decimal(ROUNDING)))
    return f"{float(up):.{digits}g}"


def check_delta_for(delta: float, records: int | None, what: str = "records") -> None:
    """Refuse a delta at which whole records may be published within the guarantee.

    To publish each of n records with probability delta is (0, delta)-private, and shows one of them with a probability
    near n delta: a guarantee that says something has a delta well below 1 / n.

    Parameters
    ----------
    delta : float
        From 0.
    records : int or None
        Public number of ``what``; None where nobody has said it: then `LARGEST_DELTA` alone is the bound.
    what : str
        What is counted, for the sentence.

    Raises
    ------
    DPForestError
    """
    if delta >= LARGEST_DELTA:
        bound = f"{LARGEST_DELTA:g}, the most for any number of {what}"
    elif records is not None and delta * records >= 1:
        bound = f"1 / {records} {what}"
    else:
        return
    raise DPForestError(
        f"delta {delta:g} is not below {bound}, so that it would allow to publish a whole one: set it well below, such "
        "as 1e-6"
    )


def json_number(value: float) -> float | str:
    """A cost as JSON holds it: ``"inf"`` where it is infinite, for which JSON has no number.

    Parameters
    ----------
    value : float
        From 0.

    Returns
    -------
    float or str
        ``inf`` as text, all else as it is.

    Examples
    --------
    >>> json_number(float("inf")), json_number(0.5)
    ('inf', 0.5)
    """
    return "inf" if math.isinf(value) else value
