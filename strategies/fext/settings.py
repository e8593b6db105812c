"""Settings of FEXT-DP."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from dpforest.errors import DPForestError
from dpforest.forest import Limits
from dpforest.forest.forest import Output
from dpforest.growers import GrowerSettings
from dpforest.growers.regression import RegressionSettings, TargetClip
from dpforest.growers.settings import Bins, Depth, Growth, SharedBelow, Trees
from dpforest.schema import MOST_ROWS, Schema
from dpforest.settings import Auto, InnerShare, Positive, Range, Settings, Whole, check_setting

Score = Literal["r2", "accuracy", "negative_mse", "pearson"]
_FALLBACK_ROWS = 1000
# Depth of a tree that grows until its leaves are pure, and that every receiver still accepts.
DEEPEST = Limits().depth


@dataclass(frozen=True)
class FextSettings(Settings):
    """Rounds, filter and trees.

    Parameters
    ----------
    accounting
        ``tight``: the budget is the total of a client over all rounds. ``published``: epsilon is that of one split, as
        in the paper, and there is no guarantee.
    k
        A tree is kept if its score is at least this. ``auto``: what the best constant prediction scores (R^2 and
        Pearson 0; accuracy: the share of the largest class of the public rows, or one over the classes where clients
        score). Null keeps all.
    score
        ``auto``: accuracy for classes, R^2 for targets.
    filter_by
        Who scores trees: the server on public rows (``evaluation.public_share``), or the other clients on their own,
        who send noised sums. The latter guards against weak trees, not against clients that lie about others' trees.
    score_share
        Share of a round's budget for the noised scores, with ``filter_by=clients``.
    keep
        The set grows by what passes, or is replaced by it (the paper's text). Where nothing passes it stays as it was.
    most_trees
        With ``keep=all``, keep only so many: those with the best scores, the earlier of equals.
    round_budget
        Every round has its share of the budget; or all of it for a slice of rows that no other round sees; or the
        first round has all and is the last.
    calibrate
        Targets, with public rows: stretch the leaves of the set about their mean so that its predictions fit the public
        rows best. An average of noisy trees says too little; two numbers from public rows mend that.
    patience
        Stop after so many rounds without a better score of the whole set on public rows.
    own_model
        A client uses its own latest trees where they have a smaller squared error on rows of its own than the set, by
        more than two standard errors of the difference. The comparison and its outcome stay local; a real node,
        whose test metrics the server sees, does not make it.
    own_share
        Share of a client's rows that are set aside for this comparison.
    rows
        Rows a client that the rules for ``auto`` assume: the schema's public order of magnitude, or a number.
    min_leaf
        Published: fewest records of a leaf.
    gain_sensitivity
        Published: what the exponent divides by, in squared units of the target or bits; the paper does not give it.
    sign_as_printed
        Published: line 11 of algorithm 1 as printed, which prefers the worst split.
    row_share
        Published: share of its rows that a client draws anew for the tree of each round.
    balance
        Classes: how far votes that trees cast anyway (for frequent classes) are held back, 0 being not at all; see
        `dpforest.growers.balance_votes`.
    attack
        What bad clients do, in a simulation: learn the next class (or the mirrored target), send random leaf values, or
        always the last class (or the largest target).
    attack_share
        Share of the training clients that are bad; null without an attack.
    """

    explained_by: ClassVar[tuple[type[Settings], ...]] = (GrowerSettings, RegressionSettings)

    accounting: Literal["tight", "published"] = "tight"
    k: float | Auto | None = "auto"
    score: Score | Auto = "auto"
    filter_by: Literal["public", "clients"] = "public"
    score_share: InnerShare = 0.1
    keep: Literal["all", "round"] = "all"
    most_trees: Whole | None = None
    round_budget: Literal["split", "disjoint", "first_round_only"] = "split"
    calibrate: bool = True
    patience: Whole | None = None
    own_model: Literal["compare", "ignore"] = "compare"
    own_share: InnerShare = 0.05
    rows: Literal["schema"] | Annotated[int, Range(1, MOST_ROWS)] = "schema"
    selection: Literal["permute_and_flip", "exponential"] = "permute_and_flip"
    bins: Bins | Auto = "auto"
    depth: Annotated[int, Range(1, DEEPEST)] | Auto = "auto"
    shared_below: SharedBelow | Auto | None = "auto"
    depth_growth: Growth | Auto = "auto"
    leaf_share: InnerShare | Auto = "auto"
    trees: Trees | Auto = "auto"
    tree_rows: Literal["auto", "split_budget", "disjoint"] = "auto"
    balance: Annotated[float, Range(0, 1)] = 0.5
    target_clip: TargetClip = None
    min_leaf: Whole = 1
    gain_sensitivity: Positive = 1.0
    sign_as_printed: bool = False
    row_share: Annotated[float, Range(0, 1, above=True)] = 1.0
    attack: Literal["none", "label_flip", "random_leaves", "constant"] = "none"
    attack_share: Annotated[float, Range(0, 1)] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.k, int | float) and self.score != "auto":
            check_k(float(self.k), self.score)
        if self.accounting == "tight" and self.depth != "auto":
            check_setting("depth", self.depth, Depth)
        if bool(self.attack_share) if self.attack == "none" else self.attack_share is None:
            raise DPForestError(
                f"attack {self.attack} and attack_share {self.attack_share} do not fit: give both, or none"
            )
        if self.accounting == "published":
            if self.filter_by == "clients":
                raise DPForestError("accounting=published has no budget for client scores: use filter_by=public")
        elif self.round_budget == "disjoint" and self.tree_rows == "disjoint":
            raise DPForestError("round_budget=disjoint divides the rows by round: use tree_rows=split_budget")

    @property
    def classification(self) -> GrowerSettings:
        """Settings of classification trees."""
        return GrowerSettings(**self._given(), selection=self.selection)

    @property
    def regression(self) -> RegressionSettings:
        """Settings of regression trees."""
        return RegressionSettings(**self._given(), selection=self.selection, target_clip=self.target_clip)

    @property
    def filters(self) -> bool:
        """Whether trees are tested at all."""
        return self.k is not None

    @property
    def scored_by_clients(self) -> bool:
        """Whether a round has a second exchange, in which clients score the trees of the first."""
        return self.filters and self.filter_by == "clients"

    def public_number_of_rows(self, schema: Schema) -> int:
        """Rows a client, as far as they are public."""
        return self.rows if isinstance(self.rows, int) else schema.rows or _FALLBACK_ROWS

    def score_for(self, schema: Schema) -> Score:
        """The score that trees are tested by.

        Raises
        ------
        DPForestError
            It does not fit the kind of target, or `k` lies outside its range.
        """
        if self.score == "auto":
            score: Score = "accuracy" if schema.is_classification else "r2"
        else:
            score = self.score
        if (score == "accuracy") != schema.is_classification:
            fitting = "accuracy" if schema.is_classification else "r2, negative_mse or pearson"
            raise DPForestError(f"score {score} does not fit the target {schema.target!r}: use {fitting}")
        if self.scored_by_clients and score == "pearson":
            raise DPForestError("score pearson needs public rows: use filter_by=public, or r2 or negative_mse")
        if isinstance(self.k, int | float):
            check_k(float(self.k), score)
        return score

    def _given(self) -> dict[str, Any]:
        """Tree settings but for those that each kind of tree chooses itself."""
        chosen = {name: getattr(self, name) for name in ("bins", "depth_growth", "leaf_share", "trees", "tree_rows")}
        given = {name: value for name, value in chosen.items() if value != "auto"}
        if self.round_budget == "disjoint":
            # The rows are divided by round already.
            given = {"trees": 1, "tree_rows": "split_budget"} | given
        return given | {"depth": self._depth(), "shared_below": self.shared_below}

    def _depth(self) -> int | Auto:
        # Trees of the published kind may be deeper than complete ones.
        return self.depth if self.accounting == "tight" else "auto"


def leaf_output(schema: Schema) -> Output:
    """What the leaves of a finished tree hold."""
    return "probability" if schema.is_classification else "target"


def check_k(k: float, score: str) -> None:
    """Refuse a threshold outside the range of its score."""
    low, high = {"r2": (-math.inf, 1), "accuracy": (0, 1), "negative_mse": (-math.inf, 0), "pearson": (-1, 1)}[score]
    if not low <= k <= high:
        words = f"at most {high}" if math.isinf(low) else f"from {low} to {high}"
        raise DPForestError(f"k {k:g} must be {words}, the range of the score {score}; or auto, or null for no filter")
