"""Settings of private boosting, and what they come to under a budget."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from dpforest.boosting.columns import Columns
from dpforest.errors import DPForestError
from dpforest.ledger import Budget, Entry, check_delta_for, gaussian_mu
from dpforest.mechanisms import DiscreteGaussianSums, DiscreteLaplaceCounts, scaled_sums
from dpforest.schema import Schema
from dpforest.settings import Auto, Range, Settings, check_setting, inside

MAX_DEPTH = 14
# Smallest scale of gradients in whole numbers: one part in 256 of the clip.
_LEAST_UNIT = 256
# Noise of a leaf, in gradients at the clip, below which more budget makes no deeper trees.
_LEAST_DEVIATION = 1.0
_DEEPEST_AUTO = 12
_FALLBACK_ROWS = 1000
# Records times mu below which few trees with less noise each do better.
_WEAK_SIGNAL = 500.0
_MARGINALS = "marginal histograms of features and target"
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

    def __post_init__(self) -> None:
        super().__post_init__()
        check_setting("cuts", self.cuts, Annotated[int, Range(1, self.bins - 1)])


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
        Mechanism of the histograms, and of the leaf sums of one tree.
    marginal_entry, round_entry : Entry
        Ledger lines of the histograms, and of one round.
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

    @property
    def trees(self) -> int:
        """Trees of all rounds."""
        return self.rounds * self.trees_per_round

    @property
    def starts_with_trees(self) -> bool:
        """Whether nothing is released before the first trees."""
        return False

    @property
    def norm(self) -> int:
        """Order of the norm that gradients are clipped in."""
        return 1 if self.settings.pure else 2

    def planned(self) -> list[Entry]:
        """All releases of one party."""
        trees = Entry(**{**self.round_entry.__dict__, "times": self.round_entry.times * self.rounds})
        return [self.marginal_entry, trees]

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
        carried = max(2, round(0.5 * math.log2(max(records, 1.0))))
        return max(1, min(self._deepest(records * strength, parties), carried, _DEEPEST_AUTO))

    def stands_out(self, records: float, parties: int) -> bool:
        """Whether so many records come to at least depth 1."""
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
    settings: BoostSettings, budget: Budget, rounds: int, schema: Schema, parties: int = 1, shares: int = 1
) -> BoostPlan:
    """Solve the noise from the budget.

    Parameters
    ----------
    parties : int
        How many have records.
    shares : int
        How many parties share the noise of a sum that is only seen as a whole; 1: every party adds all of it.

    Raises
    ------
    DPForestError
        The budget has no delta for Gaussian noise, a meaningless one, or one for pure noise; or so much or so
        little noise does not fit whole numbers.
    """
    # The last digits of the solved mu are not to decide whether the budget is kept.
    mu = gaussian_mu(budget.epsilon, budget.delta) * (1 - 1e-9) if budget.delta else math.inf
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
    unit, sums = scaled_sums(
        _LEAST_UNIT, lambda unit: unit**2 + _units(settings.count_share, unit) ** 2, mu * math.sqrt(later), shares
    )
    return BoostPlan(
        settings, rounds, per_round, marginal_unit, unit, _units(settings.count_share, unit), histograms, sums,
        histograms.entry(_MARGINALS),
        sums.entry(_TREE, times=per_round),
    )  # fmt: skip


def _trees_per_round(
    settings: BoostSettings, budget: Budget, mu: float, schema: Schema, parties: int, shares: int
) -> int:
    if settings.trees_per_round != "auto":
        return settings.trees_per_round
    # Noise that every party adds in full grows with the root of their number.
    records = (schema.rows or _FALLBACK_ROWS) * (math.sqrt(parties) if shares == 1 else parties)
    if settings.pure:
        # Laplace noise grows with the number of trees, and not with its root: fewer where little stands out.
        return 1 if budget.epsilon * records < 5e4 else 2 if budget.epsilon * records < 5e5 else 4
    if mu * records < _WEAK_SIGNAL:
        return 4
    return 16 if schema.is_classification else 8


def _units(count_share: float, unit: int) -> int:
    return max(1, round(count_share * unit))
