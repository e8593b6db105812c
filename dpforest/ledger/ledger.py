"""The ledger of one data owner."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dpforest.errors import BudgetExceeded, DPForestError
from dpforest.guarantee import OWNER_ONLY, RECORD_UNIT, Guarantee, Trust, Unit
from dpforest.ledger.accounting import check_delta, gaussian_mu, total_epsilon
from dpforest.ledger.entries import Entry, singles
from dpforest.ledger.numbers import ROUNDING, json_number, rounded_up


@dataclass(frozen=True)
class Budget:
    """What may be spent in all.

    Parameters
    ----------
    epsilon : float
        Positive; ``inf`` means that nothing is protected.
    delta : float
        0 for pure differential privacy, else below 1.

    Examples
    --------
    >>> Budget(epsilon=1.0, delta=1e-6).epsilon
    1.0
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        if isinstance(self.epsilon, bool) or not isinstance(self.epsilon, int | float):
            raise DPForestError(f"epsilon {self.epsilon!r} must be a positive number (or inf for no privacy)")
        if math.isnan(self.epsilon) or self.epsilon <= 0:
            raise DPForestError(f"epsilon {self.epsilon} must be positive (use inf for a run without privacy)")
        if isinstance(self.delta, bool) or not isinstance(self.delta, int | float):
            raise DPForestError(f"delta {self.delta!r} must be a number from 0, below 1")
        if self.delta != 0:
            check_delta(self.delta)


class Ledger:
    """Collects what was released about one data owner and refuses what exceeds the budget.

    Parameters
    ----------
    budget : Budget
        The total over the whole run.
    unit : str
        The privacy unit and its neighbours.
    trust : str
        Who must be trusted for the guarantee to hold.

    Examples
    --------
    >>> import numpy as np
    >>> from dpforest.mechanisms import DiscreteLaplaceCounts
    >>> from dpforest.noise import Seeded
    >>> ledger, counts = Ledger(Budget(epsilon=1.0)), DiscreteLaplaceCounts(epsilon=0.4)
    >>> noised = counts.release(np.array([30, 70]), counts.entry("class counts"), ledger, Seeded(0))
    >>> ledger.guarantee().epsilon, len(ledger.entries)
    (0.4, 1)
    """

    def __init__(self, budget: Budget, unit: str = RECORD_UNIT, trust: str = OWNER_ONLY) -> None:
        self.budget = budget
        self.unit = Unit.of(unit)
        self.trust = Trust.of(trust)
        self._entries: list[Entry] = []
        self._releases = 0

    @property
    def entries(self) -> tuple[Entry, ...]:
        """What has been released so far."""
        return tuple(self._entries)

    @property
    def releases(self) -> int:
        """How many times a mechanism has drawn under this ledger since it was made or read."""
        return self._releases

    def note_release(self) -> None:
        """Count a release; mechanisms call this when they draw."""
        self._releases += 1

    def require(self, planned: Iterable[Entry]) -> None:
        """Refuse a plan that would exceed the budget, before any data is touched.

        Raises
        ------
        BudgetExceeded
            The entries so far and the planned ones cost more than the budget.
        """
        protected = [e for e in (*self._entries, *planned) if e.protected]
        allowed = self.budget.epsilon * (1 + ROUNDING)
        # Plain addition is enough most of the time, and quick.
        if all(e.epsilon for e in protected) and total_epsilon(protected, 0.0) <= allowed:
            return
        would = total_epsilon(protected, self.budget.delta)
        if would > allowed:
            raise BudgetExceeded(
                f"the planned releases would bring epsilon to {rounded_up(would)}, the budget is "
                f"{rounded_up(self.budget.epsilon)}: "
                "raise the budget, or release less"
            )

    def charge(self, entry: Entry) -> None:
        """Write one protected release; mechanisms call this before they release anything.

        The same release again, round after round, is one line with more ``times``.

        Raises
        ------
        BudgetExceeded
            It would exceed the budget; nothing is written.
        """
        self.require([entry])
        last = self._entries[-1] if self._entries else None
        if last is not None and last.single == entry.single:
            self._entries[-1] = replace(last, times=last.times + entry.times)
        else:
            self._entries.append(entry)

    def unprotected(self, what: str, why: str) -> None:
        """Write down that something about the data went out without protection."""
        self._entries.append(Entry(what, "none", protected=False, note=why))

    def copy(self) -> Ledger:
        """Another ledger with the same lines."""
        same = Ledger(self.budget, self.unit, self.trust)
        same._entries = [*self._entries]
        return same

    def includes(self, earlier: Ledger) -> bool:
        """Whether all that an earlier state of the ledger had is still there."""
        return singles(earlier._entries) <= singles(self._entries)

    def guarantee(self) -> Guarantee:
        """What has been proven about everything released so far."""
        unprotected = any(not e.protected for e in self._entries)
        # An infinite budget is reason enough by itself; with something unprotected, what it left bare is named too.
        reasons = tuple(dict.fromkeys(e.what for e in self._entries if not e.is_noised)) if unprotected else ()
        epsilon = total_epsilon([e for e in self._entries if e.protected], self.budget.delta)
        return Guarantee(math.inf if reasons else epsilon, self.budget.delta, self.unit, self.trust, reasons)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        guarantee = self.guarantee()
        return {
            "budget": {"epsilon": json_number(self.budget.epsilon), "delta": self.budget.delta},
            "unit": self.unit,
            "trust": self.trust,
            "guarantee": str(guarantee),
            "epsilon": json_number(guarantee.epsilon),
            "delta": guarantee.delta,
            "entries": [entry.to_dict() for entry in self._entries],
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Ledger:
        """Read `to_dict` back; totals are computed anew and never believed.

        Raises
        ------
        DPForestError
            The data is no ledger.
        """
        try:
            budget = Budget(float(plain["budget"]["epsilon"]), float(plain["budget"]["delta"]))
            ledger = cls(budget, str(plain["unit"]), str(plain["trust"]))
            ledger._entries = [Entry.from_dict(entry) for entry in plain["entries"]]
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise DPForestError(f"not a ledger: {error}") from error
        return ledger


def spendable_mu(budget: Budget) -> float:
    """What Gaussian releases may cost together, as mu; infinite for no noise. Raises as `gaussian_mu`.

    Parameters
    ----------
    budget : Budget
        With a delta.

    Returns
    -------
    float
        The largest mu.
    """
    # The last digits of the solved mu are not to decide whether the budget is kept.
    return gaussian_mu(budget.epsilon, budget.delta) * (1 - 1e-9)
