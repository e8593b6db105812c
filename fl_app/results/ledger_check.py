"""Holding what a run claims against its ledgers, which are counted again by independent means."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from dpforest import __version__
from dpforest.errors import DPForestError, one_line, printable
from dpforest.ledger import ROUNDING, Entry, Ledger, rounded_up
from dpforest.ledger.recount import WAYS, Recount, recount
from fl_app.results.finished import read_privacy
from fl_app.terminal.tables import columns

# Ledgers of one run that are not the same: each is composed anew, which may take seconds.
_MOST_LEDGERS = 100
# Below it a difference says nothing: root finders end there.
_NEGLIGIBLE = 1e-9
_KNOWN = frozenset(field.name for field in fields(Entry))


@dataclass(frozen=True)
class Claim:
    """What a run says of a client, or of itself, and what its ledgers cost by independent means.

    Parameters
    ----------
    name : str
        "client 0", or "run".
    epsilon, delta : float
        As claimed; epsilon is ``inf`` where nothing is.
    budget : float
        Epsilon that could be spent.
    recount : Recount
        Of the client, or of the client that costs most.
    """

    name: str
    epsilon: float
    delta: float
    budget: float
    recount: Recount

    @property
    def difference(self) -> float:
        """How much less than claimed is proven; negative where the claim is too small."""
        if math.isinf(self.epsilon):
            return math.inf if math.isfinite(self.recount.epsilon) else 0.0
        return self.epsilon - self.recount.epsilon

    @property
    def holds(self) -> bool:
        """Whether the independent value does not exceed the claim, nor a claim the budget."""
        if math.isinf(self.epsilon):
            return True
        return _is_within(self.recount.epsilon, self.epsilon) and _is_within(self.epsilon, self.budget)

    @property
    def verdict(self) -> str:
        """In a few words."""
        if math.isinf(self.epsilon):
            return "nothing is claimed"
        if self.holds:
            return "holds"
        return "EXCEEDS ITS BUDGET" if _is_within(self.recount.epsilon, self.epsilon) else "EXCEEDS THE CLAIM"


@dataclass(frozen=True)
class LedgerCheck:
    """All claims of a run; the last is the run's own."""

    claims: list[Claim]
    written_by: str

    @property
    def holds(self) -> bool:
        """Whether no claim is exceeded."""
        return all(claim.holds for claim in self.claims)

    @cached_property
    def remarks(self) -> list[str]:
        """What else a reader has to know."""
        found = [
            f"{claim.name}: by sensitivity and scale, more was spent than is written down for {what!r}"
            for claim in self.claims[:-1]
            for what in claim.recount.underpaid
        ]
        if any(math.isinf(claim.recount.epsilon) for claim in self.claims):
            found.append("what goes out unprotected, or without noise, costs infinity")
        notes = {(way, note) for claim in self.claims for way, note in claim.recount.notes.items()}
        found += [f"{way} is left out: {note}" for way, note in sorted(notes, key=lambda each: WAYS.index(each[0]))]
        if self.written_by != __version__:
            found.append(f"the run was made by dpforest {self.written_by or '(older)'}, this is {__version__}")
        return [one_line(remark) for remark in found]

    def table(self) -> str:
        """One line a claim: what is claimed, what each way says, and by how much the claim is above the smallest."""
        used = [way for way in WAYS if any(way in claim.recount.values for claim in self.claims)]
        header = ["", "claimed epsilon", "delta", *used, "claimed - smallest", ""]
        return columns(header, [list(self._cells(claim, used)) for claim in self.claims])

    def _cells(self, claim: Claim, ways: list[str]) -> Iterator[str]:
        yield claim.name
        yield rounded_up(claim.epsilon)
        yield rounded_up(claim.delta)
        yield from (rounded_up(claim.recount.values[way]) if way in claim.recount.values else "-" for way in ways)
        yield "-" if math.isinf(claim.epsilon) else f"{claim.difference:+.2g}"
        yield claim.verdict


def check_ledgers(folder: Path) -> LedgerCheck:
    """Count the ledgers of a run folder again.

    Raises
    ------
    DPForestError
        It has no ledgers, or they are damaged or of another version.
    """
    privacy = read_privacy(folder)
    ledgers = {client: _read_ledger(client, plain) for client, plain in privacy["clients"].items()}
    if not ledgers:
        raise DPForestError(f"{folder / 'privacy.json'} has no ledger: nothing was asked of any client")
    delta = float(privacy["delta"])
    counted: dict[tuple[tuple[Entry, ...], float], Recount] = {}

    def cost(ledger: Ledger, delta: float) -> Recount:
        key = ledger.entries, delta
        if key not in counted:
            if len(counted) >= _MOST_LEDGERS:
                raise DPForestError(f"{folder} has more than {_MOST_LEDGERS} different ledgers: they take too long")
            counted[key] = recount(ledger.entries, delta)
        return counted[key]

    claims = [
        Claim(printable(f"client {client}"), float(privacy["clients"][client]["epsilon"]), ledger.budget.delta,
              ledger.budget.epsilon, cost(ledger, ledger.budget.delta))
        for client, ledger in ledgers.items()
    ]  # fmt: skip
    worst = max((cost(ledger, delta) for ledger in ledgers.values()), key=lambda each: each.epsilon)
    budget = max(ledger.budget.epsilon for ledger in ledgers.values())
    # What says that it holds claims its epsilon; what says "none" claims nothing, whatever stands there.
    claimed = float(privacy["epsilon"]) if privacy.get("holds", True) else math.inf
    claims.append(Claim("run", claimed, delta, budget, worst))
    return LedgerCheck(claims, str(privacy.get("dpforest", "")))


def _is_within(epsilon: float, bound: float) -> bool:
    return epsilon <= bound * (1 + ROUNDING) + _NEGLIGIBLE


def _read_ledger(client: str, plain: Mapping[str, Any]) -> Ledger:
    unknown = {key for entry in plain["entries"] for key in entry} - _KNOWN
    if unknown:
        raise DPForestError(
            f"ledger of client {client}: this version (dpforest {__version__}) does not know what {min(unknown)!r} of "
            "a release means: use the version that made the run"
        )
    try:
        return Ledger.from_dict(plain)
    except DPForestError as error:
        raise DPForestError(f"ledger of client {client}: {error}: use the version that made the run") from error
