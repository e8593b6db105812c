"""Settings of LRF, PP-FGRF and PP-FPRF: each has those of the one before and some of its own."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, Literal

from dpforest.checks import check_choice, check_number, check_whole
from dpforest.errors import DPForestError

_MOST_TREES, _DEEPEST = 1000, 30


@dataclass(frozen=True)
class TreeSettings:
    """How a random tree grows, and what a user sets aside.

    Parameters
    ----------
    trees : int
        Trees of a forest: the sessions of one master.
    depth : int
        Levels of splits at most.
    features : int or "sqrt"
        Candidate features of a node, each with one random value.
    min_rows : int
        A node with fewer (noised) rows is not split.
    voting : {"hard", "soft"}
        A leaf has one vote for its most frequent class, or its class shares.
    validation_share : float
        Share of a user's training rows that no tree sees; PP-FPRF selects trees on them.
    """

    trees: int = 20
    depth: int = 15
    features: int | Literal["sqrt"] = "sqrt"
    min_rows: int = 5
    voting: Literal["hard", "soft"] = "hard"
    validation_share: float = 0.125

    def __post_init__(self) -> None:
        check_whole("trees", self.trees, 1, _MOST_TREES)
        check_whole("depth", self.depth, 1, _DEEPEST)
        if self.features != "sqrt":
            check_whole("features", self.features, 1, 10_000)
        check_whole("min_rows", self.min_rows, 2, 10**6)
        check_choice("voting", self.voting, ("hard", "soft"))
        check_number("validation_share", self.validation_share, 0, 0.9)

    def candidates(self, n_features: int) -> int:
        """Candidate features of a node."""
        return max(1, round(math.sqrt(n_features))) if self.features == "sqrt" else min(self.features, n_features)


@dataclass(frozen=True)
class GlobalSettings(TreeSettings):
    """How users grow trees together.

    Parameters
    ----------
    accounting : {"tight", "published"}
        ``tight``: candidate values inside public bounds, noised sizes, and the budget is the total of a user.
        ``published``: values between the users' own, exact sizes, normalised information gain, and the budget is
        B = trees * epsilon of the user's own sessions only.
    vote_share, size_share : float
        Tight: shares of a tree's budget for the choices and for the sizes of all levels; leaves have the rest.
    slices : int
        Tight: every user deals its rows out into so many slices, and each tree sees one of them; trees of different
        slices cost the same row nothing. 1: all trees see all rows and share the budget.
    """

    accounting: Literal["tight", "published"] = "tight"
    vote_share: float = 0.3
    size_share: float = 0.1
    slices: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("accounting", self.accounting, ("tight", "published"))
        for name in ("vote_share", "size_share"):
            check_number(name, getattr(self, name), 0, 1, open_ends=True)
        if self.vote_share + self.size_share >= 1:
            raise DPForestError(
                f"vote_share {self.vote_share:g} and size_share {self.size_share:g} leave nothing for the leaves: "
                "their sum must be below 1"
            )
        check_whole("slices", self.slices, 1, 10_000)
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
    k : int
        Similar users of a master.
    sessions : int or None
        Masters in whose sessions a user takes part at most, itself included; the budget is divided by it. None:
        ``k + 1``, and without a limit with accounting=published.
    functions : int
        Hash functions L.
    window : float
        Width r of a bucket, where each feature is scaled to 0 to 1 by its public grid.
    least_equal : float
        Published: two rows are similar if they share at least this part of the hash values.
    buckets : int
        Tight: public buckets of a function; the outermost ones are open.
    similarity_share : float
        Tight: share of the budget for the noised histograms.
    offered : {"all", "own"}
        Trees that a user selects from: of all its sessions, or of those that it was the master of.
    select : {"incremental", "incremental_ties", "greedy", "all"}
        ``incremental``: trees in the order in which they came, kept if the accuracy on the validation rows rises (the
        paper); ``incremental_ties``: or stays; ``greedy``: whatever the order, the tree that helps most, as long as one
        does not harm; ``all``.
    prior : float or None
        A user adds its own exact class counts to the leaves of the trees that it was given, whose answer then counts
        for so many rows; the sum stays with the user. None: leaves stay as they came (the paper).
    beside : sequence of {"lrf", "pp_fgrf"}
        What a simulation runs on the same rows for comparison, each with a budget of its own.
    """

    k: int = 7
    sessions: int | None = None
    functions: int = 10
    window: float = 2.0
    least_equal: float = 0.8
    buckets: int = 16
    similarity_share: float = 0.05
    offered: Literal["all", "own"] = "all"
    select: Literal["incremental", "incremental_ties", "greedy", "all"] = "greedy"
    prior: float | None = 0.1
    beside: tuple[str, ...] = ("lrf", "pp_fgrf")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("k", self.k, 1, 10_000)
        if self.sessions is not None:
            check_whole("sessions", self.sessions, 1, 10_000)
        check_whole("functions", self.functions, 1, 1000)
        check_number("window", self.window, 0, 1e6, open_ends=True)
        check_number("least_equal", self.least_equal, 0, 1)
        check_whole("buckets", self.buckets, 2, 10_000)
        check_number("similarity_share", self.similarity_share, 0, 1, open_ends=True)
        check_choice("offered", self.offered, ("all", "own"))
        if self.prior is not None:
            check_number("prior", self.prior, 0, 1e6)
        if not isinstance(self.beside, list | tuple):
            raise DPForestError(f"beside {self.beside!r} must be a list of lrf and pp_fgrf")
        for name in self.beside:
            check_choice("beside", name, ("lrf", "pp_fgrf"))
        object.__setattr__(self, "beside", tuple(self.beside))
        check_choice("select", self.select, ("incremental", "incremental_ties", "greedy", "all"))

    @property
    def most_sessions(self) -> int | None:
        """Masters in whose sessions a user takes part at most; None: no limit."""
        if self.sessions is not None:
            return self.sessions
        return None if self.published else self.k + 1

    def settings_beside(self) -> dict[str, dict[str, Any]]:
        """Settings of the methods to compare with: the same as far as they have them.

        But for LRF beside trees with a guarantee: it has no budget to divide, so it grows as many and as deep as usual.
        """
        kinds = {"lrf": TreeSettings, "pp_fgrf": GlobalSettings}
        same = {name: {f.name: getattr(self, f.name) for f in fields(kinds[name])} for name in self.beside}
        if not self.published and "lrf" in same:
            same["lrf"] = {"validation_share": self.validation_share}
        return same
