"""From the run's total epsilon to the noise of one step."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

from scipy.optimize import brentq

from dpforest.errors import DPForestError
from dpforest.ledger import Budget, Entry, renyi_epsilon, rounded_up, total_epsilon

Accountant = Literal["pld", "rdp"]
MULTIPLIER = "noise-multiplier"
_SMALLEST, _LARGEST = 1e-3, 1e6
_PRECISION = 1e-4


def noise_multiplier(budget: Budget, entries: Callable[[float], list[Entry]], accountant: Accountant) -> float:
    """Smallest noise multiplier (to 4 digits) with which a run's releases fit the budget.

    Parameters
    ----------
    budget : Budget
    entries : callable of float to list of Entry
        What a run releases with a noise multiplier.
    accountant : {"pld", "rdp"}
        Privacy loss distributions, or the looser but customary Renyi accountant.

    Raises
    ------
    DPForestError
        The budget has no delta, or no multiplier reaches its epsilon.
    """
    if math.isinf(budget.epsilon):
        return 0.0
    if not budget.delta:
        raise DPForestError(
            "privacy.delta is 0, but Gaussian noise needs one: set it well below 1 / rows (or 1 / clients), "
            "such as 1e-5"
        )

    def excess(total: Callable[[list[Entry], float], float]) -> Callable[[float], float]:
        def of(log_z: float) -> float:
            ratio = total(entries(math.exp(log_z)), budget.delta) / budget.epsilon
            return math.log(min(max(ratio, 1e-100), 1e100))

        return of

    total = renyi_epsilon if accountant == "rdp" or any(entry.fixed_size for entry in entries(1.0)) else total_epsilon
    exact = excess(total)
    low, high = math.log(_SMALLEST), math.log(_LARGEST)
    # Without amplification the total has a closed form, and is a good place to search downwards from.
    plain = excess(lambda releases, delta: total_epsilon([replace(r, sampling=1.0) for r in releases], delta))
    if plain(low) > 0 >= plain(high):
        start = _root(plain, low, high)
        high = start if exact(start) <= 0 else high
    if exact(high) > 0:
        raise DPForestError(
            f"no noise multiplier up to {_LARGEST:g} brings the run to epsilon {rounded_up(budget.epsilon)} at delta "
            f"{rounded_up(budget.delta)} with accountant={accountant}: raise epsilon or delta, or lower rounds"
        )
    # Little noise is slow to account for, so the search comes from above.
    low = high
    while low > math.log(_SMALLEST) and exact(low) <= 0:
        high, low = low, low - math.log(2)
    return math.exp(_root(exact, low, high) if exact(low) > 0 else high)


def read_multiplier(config: Mapping[str, Any]) -> float:
    """The noise multiplier that a server announces.

    Raises
    ------
    DPForestError
        It is no number from 0.
    """
    multiplier = config.get(MULTIPLIER)
    if isinstance(multiplier, bool) or not isinstance(multiplier, int | float) or not 0 <= multiplier < math.inf:
        raise DPForestError(f"the server announces the noise multiplier {multiplier!r}; expected a number from 0")
    return float(multiplier)


def _root(excess: Callable[[float], float], low: float, high: float) -> float:
    """The logarithm at which the excess becomes 0, on its safe side."""
    root = float(brentq(excess, low, high, xtol=_PRECISION / 4))
    while excess(root) > 0:
        root += _PRECISION / 4
    return root
