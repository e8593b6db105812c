"""Settings of the one-shot forest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from dpforest.checks import check_number
from dpforest.errors import DPForestError
from dpforest.growers import GrowerSettings
from dpforest.schema import Schema

# Share of the budget for a noised row count, where the rule for ``auto`` asks for one.
COUNT_SHARE = 0.01
_FALLBACK_ROWS = 1000
# What a noised count is believed up to.
MOST_ROWS = 10**12


@dataclass(frozen=True)
class OneShotSettings(GrowerSettings):
    """How each client grows its trees (see `GrowerSettings`), and what the rule for ``auto`` may know.

    Parameters
    ----------
    rows : {"schema", "noised"} or int
        Amount of data that the rule for ``auto`` assumes: the schema's public order of magnitude, the client's own
        noised count (1 per cent of the budget), or a number.
    candidate_bounds : mapping of str to (float, float)
        Bounds of random thresholds for features whose name starts with the key; the schema's otherwise.
    balance : float
        How far votes for classes that a client's trees give anyway are held back, 0 (not) to 1; see
        `dpforest.growers.balance_votes`.
    """

    rows: Literal["schema", "noised"] | int = "schema"
    candidate_bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    balance: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rows not in ("schema", "noised") and (
            isinstance(self.rows, bool) or not isinstance(self.rows, int) or self.rows < 1
        ):
            raise DPForestError(f"rows {self.rows!r} must be 'schema', 'noised' or a whole number from 1")
        check_number("balance", self.balance, 0, 1)

    def public_rows(self, schema: Schema) -> int:
        """The public number for the rule; with ``rows="noised"`` only for planning."""
        return self.rows if isinstance(self.rows, int) else schema.rows or _FALLBACK_ROWS
