"""What all mechanisms share: a cost of their own, a ledger line made from it, and releases that are paid for first.

A mechanism draws under lines that it made itself and no others: a line says what the noise of its mechanism costs, so
under another mechanism's line the ledger would show a cost that was never paid.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from typing import Protocol

import numpy as np

from dpforest.errors import BudgetExceeded, DPForestError
from dpforest.ledger import ALL_ROWS, Entry, Ledger
from dpforest.noise import Noise

_ROUNDING = 1e-9


@dataclass(frozen=True)
class Cost:
    """What one release of a mechanism costs and why: the part of an `Entry` that the mechanism alone decides.

    Parameters
    ----------
    mechanism : str
        Its name in the ledger.
    epsilon : float
        Of a pure release.
    mu : float
        Of a Gaussian one.
    sampling : float
        Share of the units that a secret sample takes.
    fixed_size : bool
        Whether such samples have a fixed size.
    sensitivity : float
        How far one unit moves what is released.
    scale : float
        Of the noise.
    """

    mechanism: str
    epsilon: float = 0.0
    mu: float = 0.0
    sampling: float = 1.0
    fixed_size: bool = False
    sensitivity: float = 0.0
    scale: float = 0.0

    @classmethod
    def of(cls, entry: Entry) -> Cost:
        """The cost of one release of a ledger line."""
        return cls(**{field.name: getattr(entry, field.name) for field in fields(cls)})


def of_sum(note: str, shares: int) -> str:
    """The note of a ledger line, which says so where the noise of a sum is that of several parties."""
    if shares == 1:
        return note
    words = f"cost of the sum with the noise of {shares} parties"
    return f"{note}; {words}" if note else words


class Mechanism(ABC):
    """Noise between the data and what goes out; charges a ledger before it draws."""

    @property
    @abstractmethod
    def cost(self) -> Cost:
        """Of one release."""

    @abstractmethod
    def _noised(self, values: np.ndarray, noise: Noise) -> np.ndarray:
        """What goes out instead of the values."""

    def entry(self, what: str, rows: str = ALL_ROWS, times: int = 1, note: str = "") -> Entry:
        """The ledger line of ``times`` such releases, for plans and for `release`."""
        return Entry(what, rows=rows, times=times, note=note, **vars(self.cost))

    def charge(self, entry: Entry, ledger: Ledger) -> Paid:
        """Write a line into the ledger, and draw its releases later.

        Parameters
        ----------
        entry : Entry
            From `entry`.

        Raises
        ------
        BudgetExceeded
            It would exceed the budget; nothing is written.
        DPForestError
            The line is another mechanism's; nothing is written.
        """
        self._check_own(entry)
        ledger.charge(entry)
        return Paid(self, ledger, entry.times, entry.what)

    def resume(self, entry: Entry, ledger: Ledger, done: int) -> Paid:
        """What is left of a line that an earlier message has charged, after ``done`` of its releases.

        Raises
        ------
        DPForestError
            The line is another mechanism's, or is not in the ledger.
        """
        self._check_own(entry)
        if entry not in ledger.entries:
            raise DPForestError(f"ledger entry {entry.what!r} has not been charged: charge it before drawing")
        return Paid(self, ledger, entry.times - done, entry.what)

    def release(self, values: np.ndarray, entry: Entry, ledger: Ledger, noise: Noise) -> np.ndarray:
        """Charge a line and draw all its releases at once; see `charge`.

        Parameters
        ----------
        values : ndarray
            With ``entry.times`` above 1, as many arrays one behind the other, in each of which a record may change
            as much as the mechanism allows; each may hold several disjoint groups of records.
        """
        return self.charge(entry, ledger).draw(values, noise, entry.times)

    def _check_own(self, entry: Entry) -> None:
        if Cost.of(entry) != self.cost:
            raise DPForestError(
                f"ledger entry {entry.what!r} says {Cost.of(entry)}, but this mechanism is {self.cost}: "
                "make the entry with the mechanism that releases"
            )


class Witness(Protocol):
    """Who stands where noise is drawn, for audits: it sees what goes into a mechanism and decides what comes out."""

    def draw(self, what: str, mechanism: Mechanism, values: np.ndarray, noise: Noise) -> np.ndarray:
        """What goes out instead of the values under the ledger line ``what``."""


_WITNESS: ContextVar[Witness | None] = ContextVar("witness", default=None)


@contextmanager
def witnessed(witness: Witness) -> Iterator[None]:
    """Let an audit witness all draws of this thread.

    Parameters
    ----------
    witness : Witness
        Is asked in the place of the mechanism.

    Yields
    ------
    None
    """
    token = _WITNESS.set(witness)
    try:
        yield
    finally:
        _WITNESS.reset(token)


class Paid:
    """Releases that a ledger has been charged for; made by `Mechanism.charge` and `Mechanism.resume`.

    Parameters
    ----------
    mechanism : Mechanism
        That draws.
    ledger : Ledger
        That was charged.
    left : int
        Releases that were paid for.
    what : str
        The ledger's words for them.
    """

    def __init__(self, mechanism: Mechanism, ledger: Ledger, left: int, what: str) -> None:
        self.mechanism = mechanism
        self._ledger = ledger
        self._left = left
        self._what = what

    @property
    def left(self) -> int:
        """Releases that have not been drawn yet."""
        return self._left

    def draw(self, values: np.ndarray, noise: Noise, times: int = 1) -> np.ndarray:
        """Noised values of ``times`` releases.

        Raises
        ------
        BudgetExceeded
            Fewer are left of what was paid for.
        """
        self._take(times)
        return self._draw(self.mechanism, values, noise)

    def draw_parts(self, parts: Sequence[tuple[Mechanism, np.ndarray, Noise]]) -> list[np.ndarray]:
        """One Gaussian release in parts, each with a mechanism of its own: together they cost what was paid.

        Gaussian releases with mu_1 ... mu_k are together one with ``sqrt(sum mu_i^2)`` (Dong, Roth, Su 2022).

        Raises
        ------
        BudgetExceeded
            They cost more, or nothing is left.
        """
        paid = self.mechanism.cost
        if any(part.cost.epsilon for part, _, _ in parts) or paid.epsilon:
            raise DPForestError("only Gaussian releases have parts")
        if sum(part.cost.mu**2 for part, _, _ in parts) > paid.mu**2 * (1 + _ROUNDING):
            raise BudgetExceeded(f"the parts of a release cost more than the mu of {paid.mu:.6g} that was paid for it")
        self._take(1)
        return [self._draw(part, values, noise) for part, values, noise in parts]

    def _draw(self, mechanism: Mechanism, values: np.ndarray, noise: Noise) -> np.ndarray:
        witness = _WITNESS.get()
        if witness is None:
            return mechanism._noised(values, noise)
        return witness.draw(self._what, mechanism, values, noise)

    def _take(self, times: int) -> None:
        if not 1 <= times <= self._left:
            raise BudgetExceeded(f"{times} releases were asked for, and {self._left} of those paid for are left")
        self._left -= times
        self._ledger.note_release()
