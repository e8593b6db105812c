"""Settings of LDP bagged trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from dpforest.errors import DPForestError
from dpforest.growers import GrowerSettings
from dpforest.growers.settings import Bins, Growth, LeafShare, SharedBelow
from dpforest.schema import MOST_ROWS, Schema
from dpforest.settings import Auto, Range, Settings

_FALLBACK_ROWS = 1000
_DEEPEST = 12  # of both settings; 3 to 6 in the document


@dataclass(frozen=True)
class LdpBaggingSettings(Settings):
    """Trees of the rounds.

    Parameters
    ----------
    accounting
        ``tight``: the budget is the total of a client over all rounds. ``published``: epsilon is that of each noised
        number of a round, as in the document, and there is no guarantee.
    keep
        The model is of all trees so far, or of those of the last round.
    depth
        Of a tree; ``auto`` (tight only) follows from the budget and the public number of rows.
    round_budget
        Tight: each client takes part in one round, with all its rows and the whole budget; or in every round, with rows
        of its own for each and the whole budget; or with all rows and a part of the budget.
    rows
        Tight: rows a client that the rules for ``auto`` assume: the schema's public order of magnitude, or a number.
    min_leaf
        Published: fewest records of a leaf.
    leaf_values
        Published: noised leaf values enter the mean as they are, as in the document, or clipped to 0 to 1.
    """

    explained_by: ClassVar[tuple[type[Settings], ...]] = (GrowerSettings,)

    accounting: Literal["tight", "published"] = "tight"
    keep: Literal["all", "round"] = "all"
    depth: Annotated[int, Range(1, _DEEPEST)] | Auto = 3
    round_budget: Literal["turns", "disjoint", "split"] = "turns"
    bins: Bins = 32
    leaf_share: LeafShare = 0.4
    depth_growth: Growth | Auto = "auto"
    shared_below: SharedBelow | Auto | None = "auto"
    rows: Literal["schema"] | Annotated[int, Range(1, MOST_ROWS)] = "schema"
    min_leaf: Annotated[int, Range(1, 10**9)] = 10
    leaf_values: Literal["as_noised", "clipped"] = "as_noised"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.depth == "auto" and self.accounting == "published":
            raise DPForestError("depth 'auto' is a rule of accounting=tight: give a number, 3 in the document")

    @property
    def grower(self) -> GrowerSettings:
        """Settings of the trees of the tight setting."""
        return GrowerSettings(
            trees=1,
            depth=self.depth,
            bins=self.bins,
            leaf_share=self.leaf_share,
            depth_growth=self.depth_growth,
            shared_below=self.shared_below,
        )

    def public_number_of_rows(self, schema: Schema) -> int:
        """Rows a client, as far as they are public."""
        return self.rows if isinstance(self.rows, int) else schema.rows or _FALLBACK_ROWS


def check_target(settings: LdpBaggingSettings, schema: Schema) -> None:
    """Refuse a target that the setting cannot learn.

    Raises
    ------
    DPForestError
    """
    if not schema.is_classification:
        raise DPForestError(f"ldp_bagging learns classes, and {schema.target!r} is a number: use strategy=fext")
    if settings.accounting == "published" and len(schema.classes) != 2:
        raise DPForestError(
            f"the document's leaves hold one probability, and {schema.target!r} has {len(schema.classes)} classes: use "
            "accounting=tight, or a target of two classes"
        )
