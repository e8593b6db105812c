"""Settings of the one-shot forest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from dpforest.growers import GrowerSettings
from dpforest.schema import MOST_ROWS, Schema
from dpforest.settings import Range, Says

# Share of the budget for a noised row count, where the rule for ``auto`` asks for one.
COUNT_SHARE = 0.01
_FALLBACK_ROWS = 1000


@dataclass(frozen=True)
class OneShotSettings(GrowerSettings):
    """How each client grows its trees (see `GrowerSettings`), and what the rule for ``auto`` may know.

    Parameters
    ----------
    rows
        Amount of data that the rule for ``auto`` assumes: the schema's public order of magnitude, the client's own
        noised count (1 per cent of the budget), or a number.
    candidate_bounds
        Bounds of random thresholds for features whose name starts with the key; the schema's otherwise.
    balance
        How far votes for classes that a client's trees give anyway (frequent ones) are held back, 0 being not at all;
        see `dpforest.growers.balance_votes`.
    """

    rows: Annotated[
        Literal["schema", "noised"] | Annotated[int, Range(1, MOST_ROWS)],
        Says("be 'schema', 'noised' or a whole number from 1"),
    ] = "schema"
    candidate_bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    balance: Annotated[float, Range(0, 1)] = 0.5

    def public_rows(self, schema: Schema) -> int:
        """The public number for the rule; with ``rows="noised"`` only for planning."""
        return self.rows if isinstance(self.rows, int) else schema.rows or _FALLBACK_ROWS
