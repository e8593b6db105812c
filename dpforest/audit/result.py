"""What an audit has found, as values and in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from dpforest.audit.bounds import CONFIDENCE, ErrorRates
from dpforest.errors import DPForestError
from dpforest.ledger import json_number


@dataclass(frozen=True)
class Claim:
    """What shall hold: (epsilon, delta)-differential privacy for adding or removing a record.

    Parameters
    ----------
    epsilon : float
        ``inf`` where nothing is claimed.
    delta : float
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        if not (self.epsilon >= 0 and 0 <= self.delta < 1):
            raise DPForestError(
                f"a claim of epsilon {self.epsilon}, delta {self.delta}: expected epsilon from 0, delta from 0, below 1"
            )

    def __str__(self) -> str:
        return f"epsilon {self.epsilon:g}" + (f", delta {self.delta:g}" if self.delta else " (pure)")


@dataclass(frozen=True)
class Found:
    """A lower bound of epsilon with what it rests on.

    Parameters
    ----------
    epsilon : float
        It is at least this, at the claim's delta, but for the chance that the confidence leaves.
    by : str
        How it was found.
    rates : ErrorRates
        How often the event occurred with the record, and without, in the repetitions that did not choose it: whoever
        wants another confidence finds it from these.
    repetitions : int
        With and without the record together.
    mu : float
        Lower bound of mu, where the mechanism is taken to be Gaussian; else 0.
    """

    epsilon: float
    by: str
    rates: ErrorRates
    repetitions: int
    mu: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; an infinite cost as ``"inf"``."""
        plain = {"by": self.by, "rates": asdict(self.rates), "repetitions": self.repetitions}
        return {**plain, "epsilon": json_number(self.epsilon), "mu": json_number(self.mu)}


@dataclass(frozen=True)
class AuditResult:
    """A claim, what was found against it, and whether the audit could have found anything.

    Parameters
    ----------
    claim : Claim
    found : Found
        Of what was audited.
    half_noise : Found or None
        Of the same with half the noise, which breaks the claim: what the audit could have seen. None where there was no
        noise to halve.
    confidence : float
    """

    claim: Claim
    found: Found
    half_noise: Found | None = None
    confidence: float = CONFIDENCE

    @property
    def violated(self) -> bool:
        """Whether the claim is refuted."""
        return self.found.epsilon > self.claim.epsilon

    @property
    def lower_bound(self) -> float:
        """Of epsilon."""
        return self.found.epsilon

    @property
    def has_power(self) -> bool:
        """Whether the same with half the noise was caught."""
        return self.half_noise is not None and self.half_noise.epsilon > self.claim.epsilon

    def __str__(self) -> str:
        percent = f"{100 * self.confidence:g} per cent"
        verdict = "VIOLATED" if self.violated else "not refuted"
        lines = [
            f"claim        {self.claim}",
            f"lower bound  epsilon {self.found.epsilon:.3f} with {percent} confidence, by {self.found.by} "
            f"({self.found.rates}, "
            f"{self.found.repetitions:,} repetition{'s' * (self.found.repetitions != 1)}): {verdict}",
        ]
        if self.half_noise is not None:
            caught = "caught" if self.has_power else "NOT caught: this audit is too weak to say anything"
            lines.append(f"half noise   epsilon {self.half_noise.epsilon:.3f}: {caught}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; infinite costs as ``"inf"``."""
        return {
            "epsilon": json_number(self.claim.epsilon),
            "delta": self.claim.delta,
            "confidence": self.confidence,
            "violated": self.violated,
            "has_power": self.has_power,
            "found": self.found.to_dict(),
            "half_noise": self.half_noise.to_dict() if self.half_noise else None,
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> AuditResult:
        """Read `to_dict` back.

        Raises
        ------
        DPForestError
            It is no result of an audit.
        """
        try:
            half = plain["half_noise"]
            return cls(
                Claim(float(plain["epsilon"]), float(plain["delta"])),
                _found(plain["found"]),
                None if half is None else _found(half),
                float(plain["confidence"]),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise DPForestError(f"not a result of an audit: {error!r}") from error


def _found(plain: Mapping[str, Any]) -> Found:
    numbers = {name: float(plain[name]) for name in ("epsilon", "mu")}
    if any(math.isnan(number) or number < 0 for number in numbers.values()):
        raise ValueError(f"{numbers} must be 0 or more")
    rates = ErrorRates(**{name: int(count) for name, count in plain["rates"].items()})
    return Found(by=str(plain["by"]), rates=rates, repetitions=int(plain["repetitions"]), **numbers)
