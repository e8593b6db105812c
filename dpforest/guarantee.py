"""What a guarantee is about, as values: the privacy unit and its neighbours, whom it trusts, and what holds.

Units and trust models are strings: the sentences that ledgers, files and messages hold. They also carry the values that
code needs, so that nobody has to read a sentence.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

_NONE = "guarantee: none"


class Neighbours(StrEnum):
    """How two data sets differ that a guarantee makes hard to tell apart."""

    ADD_OR_REMOVE = "add or remove"


class PrivacyUnit(StrEnum):
    """What one guarantee may be about, as ``privacy.unit`` names it."""

    RECORD = "record"
    CLIENT = "client"


class TrustModel(StrEnum):
    """Who adds the noise, as ``privacy.trust`` names it."""

    LOCAL = "local"
    """Each client adds all noise that its own releases need."""
    SHARED = "shared"
    """Each client adds a share, and secure aggregation shows nobody a single client's vector."""
    CENTRAL = "central"
    """A trusted server adds it."""


class Unit(str):
    """A privacy unit: what a guarantee hides the presence of. As text, the sentence that says it with its neighbours.

    Parameters
    ----------
    sentence : str
    name : str
        In a few words, as in "epsilon 1 per record".
    neighbours : Neighbours
    kind : PrivacyUnit, optional
        None for a unit that is none of them.
    """

    name: str
    neighbours: Neighbours
    kind: PrivacyUnit | None

    def __new__(
        cls,
        sentence: str,
        name: str,
        neighbours: Neighbours = Neighbours.ADD_OR_REMOVE,
        kind: PrivacyUnit | None = None,
    ) -> Unit:
        unit = super().__new__(cls, sentence)
        unit.name, unit.neighbours, unit.kind = name, neighbours, kind
        return unit

    def __getnewargs__(self) -> tuple[str, str, Neighbours, PrivacyUnit | None]:  # type: ignore[override]
        return str(self), self.name, self.neighbours, self.kind

    @classmethod
    def of(cls, sentence: str) -> Unit:
        """The unit of a sentence, which a ledger or a file of an older version says alone."""
        known = {str(unit): unit for unit in (RECORD_UNIT, CLIENT_UNIT)}
        if isinstance(sentence, Unit):
            return sentence
        return known.get(sentence) or cls(sentence, sentence.split(" added")[0].removeprefix("one "))


class Trust(str):
    """Whom a guarantee trusts. As text, the sentence: the trust model, and what exactly is trusted.

    Parameters
    ----------
    model : str
        In a few words. Methods of one trust model may be compared without mentioning it.
    detail : str
    kind : TrustModel, optional
        None where only a sentence is known.
    """

    model: str
    detail: str
    kind: TrustModel | None

    def __new__(cls, model: str, detail: str = "", kind: TrustModel | None = None) -> Trust:
        trust = super().__new__(cls, f"{model}: {detail}" if detail else model)
        trust.model, trust.detail, trust.kind = model, detail, kind
        return trust

    def __getnewargs__(self) -> tuple[str, str, TrustModel | None]:  # type: ignore[override]
        return self.model, self.detail, self.kind

    @classmethod
    def of(cls, sentence: str) -> Trust:
        """The trust of a sentence, which a ledger or a file of an older version says alone."""
        if isinstance(sentence, Trust):
            return sentence
        model, _, detail = sentence.partition(": ")
        return cls(model, detail)


RECORD_UNIT = Unit("one record added to or removed from one client's training rows", "record", kind=PrivacyUnit.RECORD)
CLIENT_UNIT = Unit(
    "one client's whole data added or removed (its place among the clients stays)",
    "client's whole data",
    kind=PrivacyUnit.CLIENT,
)
OWNER_ONLY = Trust("nobody but the data owner is trusted", kind=TrustModel.LOCAL)
NO_SERVER = Trust("server and other clients not trusted", kind=TrustModel.LOCAL)


@dataclass(frozen=True)
class Guarantee:
    """What a ledger proves: an epsilon with its unit, neighbours and trust model, or that it proves nothing.

    Parameters
    ----------
    epsilon : float
        ``inf`` for none.
    delta : float
        0 for pure differential privacy.
    unit : Unit
        What is hidden, with its neighbours.
    trust : Trust
        Who must be trusted.
    reasons : tuple of str
        Why there is none; empty where there is one.

    Examples
    --------
    >>> from dpforest.ledger import Budget, Ledger
    >>> print(Ledger(Budget(epsilon=1.0)).guarantee())
    epsilon = 0 (pure) for one record added to or removed from one client's training rows;
    nobody but the data owner is trusted
    """

    epsilon: float
    delta: float
    unit: Unit
    trust: Trust
    reasons: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether any finite epsilon is guaranteed."""
        return math.isfinite(self.epsilon) and not self.reasons

    def __str__(self) -> str:
        from dpforest.ledger.numbers import rounded_up  # ledgers rest on this module

        if self.reasons:
            return f"{_NONE} ({'; '.join(self.reasons)})"
        if math.isinf(self.epsilon):
            return f"{_NONE} (epsilon = inf, nothing is noised)"
        delta = f", delta = {rounded_up(self.delta)}" if self.delta else " (pure)"
        return f"epsilon = {rounded_up(self.epsilon, 4)}{delta} for {self.unit}; {self.trust}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: the sentences, and the values behind them."""
        return {
            "guarantee": str(self),
            "holds": self.holds,
            "reasons": list(self.reasons),
            "epsilon": "inf" if math.isinf(self.epsilon) else self.epsilon,
            "delta": self.delta,
            "unit": str(self.unit),
            "unit_name": self.unit.name,
            "unit_kind": self.unit.kind,
            "neighbours": str(self.unit.neighbours),
            "trust": str(self.trust),
            "trust_model": self.trust.model,
            "trust_kind": self.trust.kind,
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Guarantee:
        """Read `to_dict` back, also of versions that wrote the sentences only.

        Raises
        ------
        KeyError, TypeError, ValueError
            The data is no guarantee.
        """
        sentence, said = str(plain["unit"]), str(plain["guarantee"])
        unit, trust = Unit.of(sentence), Trust.of(str(plain["trust"]))
        if "holds" in plain:
            kind = plain.get("unit_kind", unit.kind)
            unit = Unit(sentence, str(plain["unit_name"]), Neighbours(plain["neighbours"]), kind and PrivacyUnit(kind))
            kind = plain.get("trust_kind")
            trust = Trust(trust.model, trust.detail, kind and TrustModel(kind))
            reasons = tuple(map(str, plain["reasons"]))
        else:
            reasons = (said.removeprefix(f"{_NONE} (").removesuffix(")"),) if said.startswith(_NONE) else ()
        return cls(float(plain["epsilon"]), float(plain["delta"]), unit, trust, reasons)


def most_balanced_accuracy(epsilon: float, delta: float = 0.0) -> float:
    """How often an attacker who starts from even odds can at most be right about whether a unit was there.

    The mean of true positives and true negatives is ``(e^epsilon + delta) / (1 + e^epsilon)`` at most (Kairouz, Oh and
    Viswanath 2015, theorem 2.1): 1/2 is a coin's.
    """
    less = math.exp(-epsilon)
    return min(1.0, (1 + delta * less) / (1 + less))
