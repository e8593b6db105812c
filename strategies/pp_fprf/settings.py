"""Settings of LRF, PP-FGRF and PP-FPRF: each has those of the one before and some of its own."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

from dpforest.errors import DPForestError
from dpforest.settings import InnerShare, Range, Says, Settings, inside

Trees = Annotated[int, Range(1, 1000)]
Depth = Annotated[int, Range(1, 30)]
Voting = Literal["hard", "soft"]
Slices = Annotated[int, Range(1, 10_000)]


@dataclass(frozen=True)
class TreeSettings(Settings):
    """How a random tree grows, and what a user sets aside.

    Parameters
    ----------
    trees
        Trees of a forest: the sessions of one master.
    depth
        Levels of splits at most.
    features
        Candidate features of a node, each with one random value.
    min_rows
        A node with fewer (noised) rows is not split.
    voting
        A leaf has one vote for its most frequent class, or its class shares.
    validation_share
        Share of a user's training rows that no tree sees; PP-FPRF selects trees on them.
    """

    trees: Trees = 20
    depth: Depth = 15
    features: Literal["sqrt"] | Annotated[int, Range(1, 10_000)] = "sqrt"
    min_rows: Annotated[int, Range(2, 10**6)] = 5
    voting: Voting = "hard"
    validation_share: Annotated[float, Range(0, 0.9)] = 0.125

    def candidates(self, n_features: int) -> int:
        """Candidate features of a node."""
        return max(1, round(math.sqrt(n_features))) if self.features == "sqrt" else min(self.features, n_features)


@dataclass(frozen=True)
class GlobalSettings(TreeSettings):
    """How users grow trees together.

    Parameters
    ----------
    accounting
        ``tight``: candidate values inside public bounds, noised sizes, and the budget is the total of a user.
        ``published``: values between the users' own, exact sizes, normalised information gain, and the budget is
        B = trees * epsilon of the user's own sessions only.
    vote_share, size_share
        Tight: shares of a tree's budget for the choices and for the sizes of all levels; leaves have the rest.
    slices
        Tight: every user divides its rows into so many slices, and each tree sees one of them; trees of different
        slices cost the same row nothing. 1: all trees see all rows and share the budget.
    """

    accounting: Literal["tight", "published"] = "tight"
    trees: Trees = 5
    depth: Depth = 6
    voting: Voting = "soft"
    vote_share: InnerShare = 0.3
    size_share: InnerShare = 0.1
    slices: Slices = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.vote_share + self.size_share >= 1:
            raise DPForestError(
                f"vote_share {self.vote_share:g} and size_share {self.size_share:g} leave nothing for the leaves: "
                "their sum must be below 1"
            )
        if self.published and self.slices > 1:
            raise DPForestError(f"slices {self.slices} must be 1 with accounting=published, whose trees see all rows")

    @property
    def published(self) -> bool:
        """Whether to do as the paper does."""
        return self.accounting == "published"


@dataclass(frozen=True)
class PersonalSettings(GlobalSettings):
    """How users find each other, and which trees they keep.

    Parameters
    ----------
    k
        Similar users of a master.
    sessions
        Masters in whose sessions a user takes part at most, itself included; the budget is divided by it. Null:
        ``k + 1``, and without a limit with ``accounting=published``.
    functions
        Hash functions L.
    window
        Width r of a bucket, where each feature is scaled to 0 to 1 by its public grid.
    least_equal
        Published: two rows are similar if they share at least this part of the hash values.
    buckets
        Tight: public buckets of a function; the outermost ones are open.
    similarity_share
        Tight: share of the budget for the noised histograms.
    offered
        Trees that a user selects from: of all its sessions, or of those that it was the master of.
    select
        ``incremental``: trees in the order in which they came, kept if the accuracy on the validation rows rises (the
        paper's rule, which keeps two or three trees and falls below LRF); ``incremental_ties``: or stays; ``greedy``:
        whatever the order, the tree that helps most, as long as one does not harm; ``all``.
    prior
        A user adds its own exact class counts to the leaves of the trees that it was given, whose answer then counts
        for so many rows; the sum stays with the user. Null: leaves stay as they came (the paper).
    comparison_methods
        What a simulation runs on the same rows for comparison, each with a budget of its own.
    """

    k: Annotated[int, Range(1, 10_000)] = 7
    sessions: Annotated[int, Range(1, 10_000)] | None = None
    functions: Annotated[int, Range(1, 1000)] = 10
    window: Annotated[float, inside(0, 1e6), Says("be a number between 0 and 1e+06")] = 2.0
    least_equal: Annotated[float, Range(0, 1)] = 0.8
    buckets: Annotated[int, Range(2, 10_000)] = 16
    similarity_share: InnerShare = 0.05
    slices: Slices = 8
    offered: Literal["all", "own"] = "all"
    select: Literal["incremental", "incremental_ties", "greedy", "all"] = "greedy"
    prior: Annotated[float, Range(0, 1e6)] | None = 0.1
    comparison_methods: tuple[Literal["lrf", "pp_fgrf"], ...] = ("lrf", "pp_fgrf")

    @property
    def most_sessions(self) -> int | None:
        """Masters in whose sessions a user takes part at most; None: no limit."""
        if self.sessions is not None:
            return self.sessions
        return None if self.published else self.k + 1

    def comparison_settings(self) -> dict[str, dict[str, Any]]:
        """Settings of the methods to compare with: the same as far as they have them.

        But for LRF, where trees have a guarantee: it has no budget to divide, and grows as many and as deep as usual.
        """
        kinds = {"lrf": TreeSettings, "pp_fgrf": GlobalSettings}
        same: dict[str, dict[str, Any]] = {
            name: {f.name: getattr(self, f.name) for f in fields(kinds[name])} for name in self.comparison_methods
        }
        if not self.published and "lrf" in same:
            same["lrf"] = {"validation_share": self.validation_share}
        return same
