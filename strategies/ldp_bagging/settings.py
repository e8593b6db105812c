"""Settings of LDP bagged trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dpforest.checks import check_choice, check_whole
from dpforest.errors import DPForestError
from dpforest.growers import GrowerSettings
from dpforest.schema import Schema

Auto = Literal["auto"]
_FALLBACK_ROWS = 1000
_DEEPEST = 12  # of both settings; 3 to 6 in the document


@dataclass(frozen=True)
class LdpBaggingSettings:
    """Trees of the rounds.

    Parameters
    ----------
    accounting : {"tight", "published"}
        ``tight``: the budget is the total of a client over all rounds. ``published``: epsilon is that of each noised
        number of a round, as in the document, and there is no guarantee.
    keep : {"all", "round"}
        The model is of all trees so far, or of those of the last round.
    depth : int or "auto"
        Of a tree; ``auto`` (tight only) follows from the budget and the public number of rows.
    round_budget : {"turns", "disjoint", "split"}
        Tight: each client takes part in one round, with all its rows and the whole budget; or in every round, with rows
        of its own for each and the whole budget; or with all rows and a part of the budget.
    bins, leaf_share, depth_growth, shared_below
        Tight; see `dpforest.growers.GrowerSettings`.
    rows : "schema" or int
        Tight: rows a client that the rules for ``auto`` assume.
    min_leaf : int
        Published: fewest records of a leaf.
    leaf_values : {"as_noised", "clipped"}
        Published: noised leaf values enter the mean as they are, as in the document, or clipped to 0 to 1.
    """

    accounting: Literal["tight", "published"] = "tight"
    keep: Literal["all", "round"] = "all"
    depth: int | Auto = 3
    round_budget: Literal["turns", "disjoint", "split"] = "turns"
    bins: int = 32
    leaf_share: float = 0.4
    depth_growth: float | Auto = "auto"
    shared_below: int | Auto | None = "auto"
    rows: Literal["schema"] | int = "schema"
    min_leaf: int = 10
    leaf_values: Literal["as_noised", "clipped"] = "as_noised"

    def __post_init__(self) -> None:
        choices = {
            "accounting": ("tight", "published"),
            "keep": ("all", "round"),
            "round_budget": ("turns", "disjoint", "split"),
            "leaf_values": ("as_noised", "clipped"),
        }
        for name, allowed in choices.items():
            check_choice(name, getattr(self, name), allowed)
        if self.depth == "auto":
            if self.accounting == "published":
                raise DPForestError("depth 'auto' is a rule of accounting=tight: give a number, 3 in the document")
        else:
            check_whole("depth", self.depth, 1, _DEEPEST)
        if self.rows != "schema":
            check_whole("rows", self.rows, 1, 10**12)
        check_whole("min_leaf", self.min_leaf, 1, 10**9)
        _ = self.grower  # checked here, so that a bad value is refused at the door

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
