"""One line of the ledger."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any

from dpforest.errors import DPForestError

ALL_ROWS = "all"
# The test part of a client's rows. What every other line is about is the training part: no record is in both.
TEST_ROWS = "test"
# Beyond it the rounding of a sum of so many small costs would show.
_MOST_TIMES = 10**9


def rows_slice(family: str, part: int | str) -> str:
    """Name one of the disjoint parts of a client's rows.

    Entries about different parts of one ``family`` compose in parallel, since a record lies in one
    part only; entries about ``ALL_ROWS`` and about different families add up.

    Parameters
    ----------
    family : str
        What divides the rows.
    part : int or str
        Which of its parts.

    Returns
    -------
    str
        For `Entry.rows`.

    Examples
    --------
    >>> rows_slice("tree", 3) != rows_slice("tree", 4)
    True
    """
    return f"{family}/{part}"


@dataclass(frozen=True)
class Entry:
    """One release, or one named fact that went out unprotected.

    Parameters
    ----------
    what : str
        What was released, in words.
    mechanism : str
        The mechanism that protected it.
    epsilon : float
        Cost of one such release under pure differential privacy; 0 where `mu` is given.
    mu : float
        Sensitivity over standard deviation of a Gaussian release (Dong, Roth, Su 2022); 0 if pure.
    times : int
        How many such releases, composed one after another.
    rows : str
        ``ALL_ROWS`` (of training), a part of them named by `rows_slice`, or ``TEST_ROWS``.
    sampling : float
        Probability with which the privacy unit takes part in such a Gaussian release, drawn anew and kept secret
        each time; 1 if it always does.
    fixed_size : bool
        The sample has a fixed size (drawn without replacement) instead of one independent draw a unit (Poisson).
        `mu` then is for replacing a unit: twice that for adding one.
    protected : bool
        False if no mechanism stands between the data and what went out.
    note : str
        Why the cost is what it is.
    sensitivity, scale : float
        For who checks the cost: how far one unit moves what is noised at most (L1 norm under Laplace noise, L2 under
        Gaussian, the score of a choice), and the noise's parameter (scale, or sigma), both in the units in which the
        noise is drawn. 0 where they are not the same for all ``times``, or there is no noise.
    """

    what: str
    mechanism: str
    epsilon: float = 0.0
    mu: float = 0.0
    times: int = 1
    rows: str = ALL_ROWS
    sampling: float = 1.0
    fixed_size: bool = False
    protected: bool = True
    note: str = ""
    sensitivity: float = 0.0
    scale: float = 0.0

    def __post_init__(self) -> None:
        for name in ("epsilon", "mu", "sensitivity", "scale"):
            value = getattr(self, name)
            if math.isnan(value) or value < 0:
                raise DPForestError(f"ledger entry {self.what!r}: {name} {value} must be 0 or more")
        if self.epsilon and self.mu:
            raise DPForestError(f"ledger entry {self.what!r}: give epsilon (pure) or mu (Gaussian), not both")
        if self.rows not in (ALL_ROWS, TEST_ROWS) and "/" not in self.rows:
            raise DPForestError(
                f"ledger entry {self.what!r}: rows {self.rows!r} must be {ALL_ROWS!r}, {TEST_ROWS!r} or from rows_slice"
            )
        if not 0 < self.sampling <= 1:
            raise DPForestError(f"ledger entry {self.what!r}: sampling {self.sampling} must be above 0, at most 1")
        if self.sampling < 1 and (self.epsilon or self.rows != ALL_ROWS):
            raise DPForestError(
                f"ledger entry {self.what!r}: sampling is only accounted for Gaussian noise on all rows"
            )
        if isinstance(self.times, bool) or not isinstance(self.times, int) or not 1 <= self.times <= _MOST_TIMES:
            raise DPForestError(
                f"ledger entry {self.what!r}: times must be a whole number from 1 to {_MOST_TIMES:,}, "
                f"not {str(self.times)[:40]}"
            )
        if self.protected and not self.epsilon and not self.mu:
            raise DPForestError(f"ledger entry {self.what!r}: a protected release costs epsilon or mu")

    @property
    def single(self) -> Entry:
        """The line of one such release."""
        return self if self.times == 1 else replace(self, times=1)

    @property
    def is_noised(self) -> bool:
        """Whether a mechanism with a finite cost stands between the data and what went out."""
        return self.protected and math.isfinite(self.epsilon) and math.isfinite(self.mu)

    def to_dict(self) -> dict[str, Any]:
        """Plain data; infinite costs as the string ``"inf"``, since JSON has none."""
        plain = {**self.__dict__}
        for name in ("epsilon", "mu"):
            if math.isinf(plain[name]):
                plain[name] = "inf"
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Entry:
        """Read `to_dict` back.

        Raises
        ------
        DPForestError
            A key is unknown or a value is of the wrong kind.
        """
        try:
            # Forests that were saved before entries had a sensitivity and a scale are still read.
            given = {"sensitivity": 0.0, "scale": 0.0, **plain}
            return _checked(*[given[name] for name in _NAMES])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise DPForestError(f"not a ledger entry: {error!r}") from error


def not_covered(entries: Iterable[Entry], by: Iterable[Entry]) -> list[Entry]:
    """What of some entries, with how many times, is not among others: as multisets of single releases.

    Entries are the same if they name the same release, mechanism and rows and cost the same up to rounding; notes,
    sensitivities and scales are words to the reader. Nothing is composed, so that it takes no time to find out.

    Parameters
    ----------
    entries : iterable of Entry
        That should be covered.
    by : iterable of Entry
        That cover them.

    Returns
    -------
    list of Entry
        What is left over.
    """
    stock: dict[tuple[Any, ...], list[tuple[Entry, list[int]]]] = {}
    for entry in by:
        stock.setdefault(_kind(entry), []).append((entry, [entry.times]))
    missing = []
    for entry in entries:
        left = entry.times
        for other, there in stock.get(_kind(entry), ()):
            if left and _costs_the_same(entry, other):
                taken = min(left, there[0])
                left, there[0] = left - taken, there[0] - taken
        if left:
            missing.append(replace(entry, times=left))
    return missing


def _kind(entry: Entry) -> tuple[Any, ...]:
    return entry.what, entry.mechanism, entry.rows, entry.fixed_size, entry.protected


def _costs_the_same(one: Entry, other: Entry) -> bool:
    # Another machine may round the last digits of a cost otherwise.
    return all(
        math.isclose(getattr(one, name), getattr(other, name), rel_tol=1e-9) for name in ("epsilon", "mu", "sampling")
    )


_NAMES = tuple(field.name for field in fields(Entry))


@lru_cache(maxsize=4096, typed=True)  # the clients of a run write the same lines, and send them again in every round
def _checked(
    what: Any,
    mechanism: Any,
    epsilon: Any,
    mu: Any,
    times: Any,
    rows: Any,
    sampling: Any,
    fixed_size: Any,
    protected: Any,
    note: Any,
    sensitivity: Any,
    scale: Any,
) -> Entry:
    """The entry of these values, which nobody has looked at yet."""
    return Entry(
        what=_text(what),
        mechanism=_text(mechanism),
        epsilon=_cost(epsilon),
        mu=_cost(mu),
        times=times,
        rows=_text(rows),
        sampling=_cost(sampling),
        fixed_size=bool(fixed_size),
        protected=_flag(protected),
        note=_text(note),
        sensitivity=_finite(sensitivity),
        scale=_finite(scale),
    )


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > 2000:
        raise TypeError(f"expected a short text, got {type(value).__name__}")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"expected true or false, got {value!r}")
    return value


def _cost(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TypeError(f"expected a cost, got {value!r}")
    return float(value)


def _finite(value: Any) -> float:
    if not math.isfinite(number := _cost(value)):
        raise ValueError(f"expected a finite number, got {value!r}")
    return number


def singles(entries: Iterable[Entry]) -> Counter[Entry]:
    """How many times each release is in some lines, `Entry.times` apart.

    Parameters
    ----------
    entries : iterable of Entry
        Lines of a ledger.

    Returns
    -------
    Counter of Entry
        Each with ``times`` of 1, and how often it is there.
    """
    found: Counter[Entry] = Counter()
    for entry in entries:
        found[entry.single] += entry.times
    return found
