"""Settings of private boosting, and what they come to under a budget."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated

from dpforest.boosting.columns import Columns
from dpforest.boosting.linear import basis_size
from dpforest.errors import DPForestError
from dpforest.ledger import Budget, Entry, check_delta_for, spendable_mu
from dpforest.mechanisms import DiscreteGaussianSums, DiscreteLaplaceCounts, scaled_sums
from dpforest.schema import Schema
from dpforest.settings import Auto, Range, Settings, Share, check_setting, inside

MAX_DEPTH = 14
# Smallest scale of gradients in whole numbers: one part in 256 of the clip.
_LEAST_UNIT = 256
# Noise of a leaf, in gradients at the clip, below which more budget makes no deeper trees.
_LEAST_DEVIATION = 1.0
_DEEPEST_AUTO = 12
# Where budget allows, 2 to this power of records may share a leaf; below some 46,000 records half their bits are more.
# On validation rows of HuGaDB (512,000 records, epsilon 10) depth 10, 11 and 12 gave .938, .941 and .943.
_LEAF_BITS = 7
# Records over the noise of one leaf, and records, from which on steps of classes grow, up to half as long again at
# four times both. On validation rows (noise of secure aggregation, 50 rounds) steps of 2 and 3 gave, on HuGaDB at
# epsilon .1, 1 and 10, .915 and .917, .938 and .939, .947 and .949; on WISDM at 3 and 10 .723 and .735, .771 and .785,
# but at 1 .626 and .621; and on people of HAPT, of few records, .939 and .931 at 100.
_LONGER_STEPS, _MANY_RECORDS = 340.0, 4000.0
_FALLBACK_ROWS = 1000
# Records times mu below which few trees with less noise each do better.
_WEAK_SIGNAL = 500.0
# The same, so that sums of many small numbers keep their digits when each is cut off towards zero.
_LEAST_LINEAR_UNIT = 2**12
# What the linear part takes of the budget, up to records times mu of so many, and the other way round beyond. A tree
# asks one column a node, so that with more columns than `_MANY_COLUMNS` it takes more signal for trees to find all.
_LINEAR_SHARE, _ENOUGH_SIGNAL, _MANY_COLUMNS = 0.5, 1000.0, 40
_LEAST_LINEAR_SHARE = 0.15
# The same for classes with more than `_MANY_COLUMNS`, where trees find next to nothing in so little; from there on it
# falls to the one above. On validation rows (noise of one party) half and .9 of the budget gave, on HAPT's people at
# epsilon .17 and 1, .535 and .581, .874 and .897; on WISDM at .1 .330 and .372, on scikit-learn's digits at .3 .567 and
# .664 (trees alone .499, -, .293 and .413). Where the square of one column of 60 is all there is to find, little is
# found and .9 loses that too: an AUC of .525 and .492 at records times mu of 225, trees alone .582.
_LARGEST_LINEAR_SHARE, _LITTLE_SIGNAL = 0.9, 150.0
# What it takes, at most, of what the histograms leave.
_MOST_OF_THE_REST = 0.95
# Records times mu, over the root of the number of columns, from which on noised moments say something about units.
# Where columns are many and the share is .9 that is sooner: at 4.5 it was level with trees alone on WISDM and digits,
# and on HAPT's people ahead (.387 and .361, 56 runs, +.026 +- .013); at 3 neither found anything in made-up tables.
_LEAST_SIGNAL, _LEAST_OF_MANY = 10.0, 4.0
_MOMENT_ROUNDS = 2
_MOMENT_SHARE = 0.1  # of the linear part's
_MARGINALS = "marginal histograms of features and target"
_MOMENTS = "sums of the columns' values and squares"
_ROUND = "leaf sums of clipped gradients and counts of {} trees, and their sums times the columns' values"
_TREE = "leaf sums of clipped gradients and counts of one tree"


@dataclass(frozen=True)
class BoostSettings(Settings):
    """How trees are boosted.

    Parameters
    ----------
    trees_per_round
        Trees of random structure that are filled at once; ``auto`` follows public facts.
    depth
        Levels of splits; ``auto`` follows the noised number of records, the budget and the parties.
    pure
        Laplace noise and pure epsilon (``privacy=pure``) instead of Gaussian noise and delta; with local noise only.
    clip
        Norm above which a record's gradient is shortened (L2; L1 if ``pure``). A regression's is in units of the
        noised standard deviation of the target.
    count_share
        What a record adds to the count of its leaf, in units of the clip.
    marginal_share
        Part of the budget for the marginal histograms, which the thresholds come from.
    bins
        Cells of the public grid a feature.
    cuts
        Thresholds a feature, at equal shares of the noised histogram; fewer than ``bins``.
    step
        Length of a round's step, in Newton steps.
    shrinkage
        Noise deviations that a leaf's curvature must outweigh.
    exploration
        Part of the chance of being asked that all features share equally; the rest follows the noised gains.
    linear_share
        Part of the budget for a linear part; 0: trees only, as always with ``pure``. ``auto`` follows the number of
        records times mu: nothing below 10 roots of the number of columns, then half, less where there is more, and at
        last little for a regression and nothing for classes. For classes with more than 40 columns it is nothing below
        4 roots, then nine tenths, and the same as for fewer columns where there is more.
    """

    trees_per_round: Annotated[int, Range(1, 1000)] | Auto = "auto"
    depth: Annotated[int, Range(1, MAX_DEPTH)] | Auto = "auto"
    pure: bool = False
    clip: Annotated[float, inside(1e-6, 1000)] | Auto = "auto"
    count_share: Annotated[float, inside(0, 10)] = 0.2
    marginal_share: Annotated[float, inside(0, 1)] = 0.05
    bins: Annotated[int, Range(2, 255)] = 64
    cuts: Annotated[int, Range(1, 254)] = 15
    step: Annotated[float, inside(0, 100)] | Auto = "auto"
    shrinkage: Annotated[float, inside(0, 1e6)] | Auto = "auto"
    exploration: Annotated[float, inside(0, 1)] = 0.05
    linear_share: Share | Auto = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_setting("cuts", self.cuts, Annotated[int, Range(1, self.bins - 1)])
        if self.pure and self.linear_share not in ("auto", 0):
            raise DPForestError("the linear part is for Gaussian noise: set linear_share=0, or pure=false")


@dataclass(frozen=True)
class LinearPlan:
    """What every party does and pays for the linear part; see `dpforest.boosting.linear`.

    Parameters
    ----------
    share : float
        Part of the budget.
    unit : int
        Norm of what a record adds to the linear sums of a round, at most.
    moment_unit : int
        Norm of what it adds to the moments, at most.
    moments : DiscreteGaussianSums
        Mechanism of the moments.
    moment_entry : Entry
        Ledger line of one of these releases.
    moment_rounds : int
        How many there are; none where no column is numeric.
    """

    share: float
    unit: int
    moment_unit: int
    moments: DiscreteGaussianSums
    moment_entry: Entry
    moment_rounds: int


@dataclass(frozen=True)
class BoostPlan:
    """What every party does and pays; follows from public facts alone.

    Parameters
    ----------
    settings : BoostSettings
    rounds, trees_per_round : int
    marginal_unit, unit, count_unit : int
        A record adds ``marginal_unit`` to a cell of each histogram. To a leaf it adds integers of norm at most
        ``unit`` (a gradient at the clip), and ``count_unit`` to the count.
    marginals, sums : DiscreteGaussianSums or DiscreteLaplaceCounts
        Mechanism of the histograms, and of the leaf sums of one tree; with a linear part, of all sums of one round.
    marginal_entry, round_entry : Entry
        Ledger lines of the histograms, and of one round.
    linear : LinearPlan or None
        None where there are trees only.
    """

    settings: BoostSettings
    rounds: int
    trees_per_round: int
    marginal_unit: int
    unit: int
    count_unit: int
    marginals: DiscreteGaussianSums | DiscreteLaplaceCounts
    sums: DiscreteGaussianSums | DiscreteLaplaceCounts
    marginal_entry: Entry
    round_entry: Entry
    linear: LinearPlan | None = None

    @property
    def trees(self) -> int:
        """Trees of all rounds."""
        return self.rounds * self.trees_per_round

    @property
    def moment_rounds(self) -> int:
        """Releases between the histograms and the first trees, for the standard units of a linear part."""
        return self.linear.moment_rounds if self.linear else 0

    @property
    def starts_with_trees(self) -> bool:
        """Whether nothing is released before the first trees."""
        return False

    def n_coefficients(self, schema: Schema) -> int:
        """Coefficients of an output in the linear part of a round, over the columns of that schema."""
        return basis_size(Columns(schema)) if self.linear else 0

    @property
    def norm(self) -> int:
        """Order of the norm that gradients are clipped in."""
        return 1 if self.settings.pure else 2

    def planned(self) -> list[Entry]:
        """All releases of one party."""
        rounds = replace(self.round_entry, times=self.round_entry.times * self.rounds)
        if self.linear is None or not self.moment_rounds:
            return [self.marginal_entry, rounds]
        return [self.marginal_entry, replace(self.linear.moment_entry, times=self.moment_rounds), rounds]

    def clip(self, schema: Schema, records: float, parties: int) -> float:
        """Norm above which gradients are shortened, for a regression in units of the target's deviation."""
        if self.settings.clip != "auto":
            return float(self.settings.clip)
        if schema.is_classification:
            return 0.7 if self.settings.pure else 0.5
        if self.settings.pure:
            return 1.0
        # Large errors are worth their noise only where it is small; fitted on validation rows of Appliances.
        return min(1.5, max(0.3, 0.7 * (self._signal(records, parties) / 200) ** 0.37))

    def depth(self, records: float, parties: int, strength: float = 1.0) -> int:
        """Depth of trees over about so many records, the noise of so many parties being in the sums.

        What counts is how far all records together stand out of the noise of one leaf, and that the leaves of a tree
        do not share too few records among them, which no budget makes good.

        Parameters
        ----------
        strength : float
            Root mean square of the records' first gradients, over the clip.
        """
        if self.settings.depth != "auto":
            return self.settings.depth
        bits = math.log2(max(records, 1.0))
        carried = max(2, round(0.5 * bits), round(bits) - _LEAF_BITS)
        return max(1, min(self._deepest(records * strength, parties), carried, _DEEPEST_AUTO))

    def step(self, schema: Schema, records: float, parties: int) -> float:
        """Length of a round's step in Newton steps, over about so many records, as in `depth`."""
        if self.settings.step != "auto":
            return self.settings.step
        if not schema.is_classification:
            return 1.0 if self.settings.pure else 1.5
        # Clipped gradients of the log loss understate how far there is to go. What the rest costs is noise, or what is
        # learned of few records by heart.
        if self.settings.pure:
            return 2.0
        ratio = min(self._signal(records, parties) / _LONGER_STEPS, records / _MANY_RECORDS)
        longest = min(3.0, 2.0 + math.log2(max(1.0, ratio)) / 2)
        # The noise in a step is as large whatever its trees cost: with little budget it would drown the linear part.
        return longest * min(1.0, 2 * (1 - self.linear.share)) if self.linear else longest

    def stands_out(self, records: float, parties: int) -> bool:
        """Whether so many records come to at least depth 1, if trees had the linear part's share of the budget too."""
        if self.linear is not None and isinstance(self.sums, DiscreteGaussianSums):
            of_trees = self.trees_per_round * (self.unit**2 + self.count_unit**2)
            records *= math.sqrt(self.sums.squared_sensitivity / of_trees)
        return self._deepest(records, parties) >= 1

    def _deepest(self, records: float, parties: int) -> int:
        bits = math.log2(max(self._signal(records, parties), 1.0))
        # Clipped in L1 norm, a gradient has smaller parts, and its noise grows with the trees.
        return round(0.7 * bits - 1.2) if self.settings.pure else round(0.75 * bits - 0.9)

    def _signal(self, records: float, parties: int) -> float:
        """Records over the noise of one leaf; independent of the number of trees where their noise is."""
        deviation = (parties * self.sums.variance) ** 0.5 / self.unit
        if not self.settings.pure:
            # More trees have more noise each, and together no more.
            deviation *= math.sqrt(200 / self.trees)
        return records / max(deviation, _LEAST_DEVIATION)


def make_plan(
    settings: BoostSettings,
    budget: Budget,
    rounds: int,
    schema: Schema,
    parties: int = 1,
    shares: int = 1,
    records: float | None = None,
) -> BoostPlan:
    """Solve the noise from the budget.

    Parameters
    ----------
    settings : BoostSettings
        As given.
    budget : Budget
        Of a party over the run.
    rounds : int
        Of boosting.
    schema : Schema
        Public description of the rows.
    parties : int
        How many have records.
    shares : int
        How many parties share the noise of a sum that is only seen as a whole; 1: every party adds all of it.
    records : float, optional
        How many records a party has, as released; by default the schema's public number. For the share of the linear
        part alone.

    Returns
    -------
    BoostPlan
        With its noise.

    Raises
    ------
    DPForestError
        The budget has no delta for Gaussian noise, a meaningless one, or one for pure noise; or so much or so
        little noise does not fit whole numbers.
    """
    if settings.linear_share != "auto" and settings.linear_share + settings.marginal_share >= 1:
        raise DPForestError(
            f"linear_share {settings.linear_share:g} and marginal_share {settings.marginal_share:g} leave no budget "
            "for trees: they must add up to less than 1"
        )
    mu = spendable_mu(budget) if budget.delta else math.inf
    per_round = _trees_per_round(settings, budget, mu, schema, parties, shares)
    trees = rounds * per_round
    first, later = settings.marginal_share, (1 - settings.marginal_share) / trees
    widths = Columns(schema).number + 1
    if settings.pure:
        if budget.delta != 0:
            raise DPForestError(f"pure boosting needs no delta, but delta is {budget.delta:g}: set privacy.delta=0")
        if shares > 1:
            raise DPForestError("pure noise cannot be shared among parties: set pure=false, or privacy.trust=local")
        unit, count_unit = _LEAST_UNIT, _units(settings.count_share, _LEAST_UNIT)
        pure_histograms = DiscreteLaplaceCounts(budget.epsilon * first, widths)
        pure_sums = DiscreteLaplaceCounts(budget.epsilon * later, unit + count_unit)
        return BoostPlan(
            settings, rounds, per_round, 1, unit, count_unit, pure_histograms, pure_sums,
            pure_histograms.entry(_MARGINALS),
            pure_sums.entry(_TREE, times=per_round),
        )  # fmt: skip
    if budget.delta == 0 and not math.isinf(budget.epsilon):
        raise DPForestError(
            "boosting with Gaussian noise needs a delta well below 1 / records: set privacy.delta=1e-6, or pure=true"
        )
    check_delta_for(budget.delta, schema.rows)
    marginal_unit, histograms = scaled_sums(1, lambda unit: widths * unit**2, mu * math.sqrt(first), shares)
    per_party = records or schema.rows or _FALLBACK_ROWS
    share = _linear_share(settings, schema, mu * _seen(per_party, parties, shares))
    of_record = 1 + settings.count_share**2  # squared, to one tree, in squares of the unit
    if not share:
        unit, sums = scaled_sums(
            _LEAST_UNIT, lambda unit: unit**2 + _units(settings.count_share, unit) ** 2, mu * math.sqrt(later), shares
        )
        return BoostPlan(
            settings, rounds, per_round, marginal_unit, unit, _units(settings.count_share, unit), histograms, sums,
            histograms.entry(_MARGINALS),
            sums.entry(_TREE, times=per_round),
        )  # fmt: skip
    moment_rounds = _MOMENT_ROUNDS if len(Columns(schema).numeric) else 0
    of_moments = share * _MOMENT_SHARE if moment_rounds else 0.0
    of_trees = 1 - settings.marginal_share - share
    ratio = math.sqrt((share - of_moments) / of_trees * per_round * of_record)

    def squared(unit: int) -> int:
        return per_round * (unit**2 + _units(settings.count_share, unit) ** 2) + _units(ratio, unit) ** 2

    later = (1 - settings.marginal_share - of_moments) / rounds
    unit, sums = scaled_sums(_LEAST_LINEAR_UNIT, squared, mu * math.sqrt(later), shares)
    moment_unit, moments = scaled_sums(
        _LEAST_LINEAR_UNIT, lambda unit: unit**2, mu * math.sqrt(share * _MOMENT_SHARE / _MOMENT_ROUNDS), shares
    )
    linear = LinearPlan(share, _units(ratio, unit), moment_unit, moments, moments.entry(_MOMENTS), moment_rounds)
    return BoostPlan(
        settings, rounds, per_round, marginal_unit, unit, _units(settings.count_share, unit), histograms, sums,
        histograms.entry(_MARGINALS),
        sums.entry(_ROUND.format(per_round)),
        linear,
    )  # fmt: skip


def _linear_share(settings: BoostSettings, schema: Schema, signal: float) -> float:
    """Share of the budget that the linear part takes, from public facts (and the released number of records)."""
    if settings.linear_share != "auto":
        return float(settings.linear_share)
    columns = Columns(schema).number
    many_of_classes = schema.is_classification and columns > _MANY_COLUMNS
    if signal < (_LEAST_OF_MANY if many_of_classes else _LEAST_SIGNAL) * math.sqrt(columns):
        return 0.0
    per_column = signal * min(1.0, _MANY_COLUMNS / columns)
    share = max(_LEAST_LINEAR_SHARE, _LINEAR_SHARE * min(1.0, _ENOUGH_SIGNAL / per_column))
    if many_of_classes:
        share = max(share, _LARGEST_LINEAR_SHARE * min(1.0, _LITTLE_SIGNAL / per_column))
    # A regression keeps it whatever the budget: trees are slow to add up to a slope. Classes at last need trees alone.
    if share <= _LEAST_LINEAR_SHARE and schema.is_classification:
        return 0.0
    return min(share, _MOST_OF_THE_REST * (1 - settings.marginal_share))


def _seen(records: float, parties: int, shares: int) -> float:
    """Records of all parties over the noise of one: noise that every party adds grows with the root of their number."""
    return records * (math.sqrt(parties) if shares == 1 else parties)


def _trees_per_round(
    settings: BoostSettings, budget: Budget, mu: float, schema: Schema, parties: int, shares: int
) -> int:
    if settings.trees_per_round != "auto":
        return settings.trees_per_round
    records = _seen(schema.rows or _FALLBACK_ROWS, parties, shares)
    if settings.pure:
        # Laplace noise grows with the number of trees, and not with its root: fewer where little stands out.
        return 1 if budget.epsilon * records < 5e4 else 2 if budget.epsilon * records < 5e5 else 4
    if mu * records < _WEAK_SIGNAL:
        return 4
    return 16 if schema.is_classification else 8


def _units(count_share: float, unit: int) -> int:
    return max(1, round(count_share * unit))
