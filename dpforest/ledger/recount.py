"""What the entries of a ledger cost by other means than `dpforest.ledger.accounting`, of which nothing is used here.

Each way gives an upper bound of epsilon, and the smallest of them is what is proven:

* **sum**: pure costs added up; at delta 0 no composition of pure releases costs less.
* **optimal composition** of pure releases at a delta (Kairouz, Oh, Viswanath 2015, theorem 3.3; Murtagh, Vadhan 2016,
  theorem 1.5): all outcomes of one randomized response for each release, summed exactly.
* **analytic Gaussian** (Balle, Wang 2018, theorem 8) of Gaussian releases, whose mus add up in squares.
* **PLD** and **RDP**: dp-accounting's privacy loss distributions, with randomized responses in the place of pure
  releases, and its Renyi accountant.
* **OpenDP**: its privacy maps of Laplace and Gaussian noise, and its way from concentrated to approximate privacy.

What is unprotected costs infinity. Where a way does not apply, or would take too long, its note says why: a file of
somebody else's may hold any numbers.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dpforest.errors import DPForestError
from dpforest.ledger.entries import ALL_ROWS, Entry

SUM, OPTIMAL, ANALYTIC, PLD, RDP, OPENDP = "sum", "optimal composition", "analytic Gaussian", "PLD", "RDP", "OpenDP"
WAYS = (SUM, OPTIMAL, ANALYTIC, PLD, RDP, OPENDP)
# Costs that are this much above a line's own (relatively) are rounding.
_ROUNDING = 1e-9
# What numbers of others may make us do.
_MOST_OUTCOMES = 10**6
_MOST_KINDS = 64
_MOST_POINTS, _MOST_COMPOSED_POINTS, _MOST_SAMPLED = 400_000, 2**23, 10**6
_LARGEST_COST, _LARGEST_SAMPLED_MU = 300.0, 20.0
_FINEST, _COARSEST = 2e-5, 1e-3
_POPULATION = 10**9
_WHOLE_ORDERS = (*range(2, 65), 80, 96, 128, 192, 320, 512)


class _DoesNotApply(DPForestError):
    """A way says nothing about these entries."""


@dataclass(frozen=True)
class Recount:
    """Upper bounds of the epsilon of some entries.

    Parameters
    ----------
    values : dict of str to float
        Epsilon by each of `WAYS` that applies; all ``inf`` where something is unprotected.
    notes : dict of str to str
        Why others do not.
    underpaid : tuple of str
        Releases whose sensitivity and scale cost more than their lines say; the bounds count what they cost.
    """

    values: dict[str, float]
    notes: dict[str, str]
    underpaid: tuple[str, ...] = ()

    @property
    def epsilon(self) -> float:
        """The smallest of them."""
        return min(self.values.values(), default=math.inf)


@dataclass(frozen=True)
class _Costs:
    """Single releases by what they cost: pure ones, Gaussian ones in all, and sampled Gaussian ones."""

    pure: Counter[float]
    squared_mu: float
    sampled: Counter[tuple[float, float, bool]]  # mu, probability, whether the sample is of fixed size

    @cached_property
    def mu(self) -> float:
        return math.sqrt(self.squared_mu)

    @cached_property
    def pure_sum(self) -> float:
        return math.fsum(epsilon * times for epsilon, times in self.pure.items())

    @property
    def is_pure(self) -> bool:
        return not self.squared_mu and not self.sampled

    @property
    def kinds(self) -> int:
        return len(self.pure) + len(self.sampled)


def recount(entries: Iterable[Entry], delta: float) -> Recount:
    """Upper bounds of the epsilon of entries at a delta, by every way that applies.

    Parameters
    ----------
    entries : iterable of Entry
    delta : float
        From 0, below 1.
    """
    entries = list(entries)
    if not all(entry.is_noised for entry in entries):
        return Recount({SUM: math.inf}, {})
    paid = [_with_true_cost(entry) for entry in entries]
    underpaid = tuple(dict.fromkeys(old.what for old, new in zip(entries, paid, strict=True) if new is not old))
    fixed = [entry for entry in paid if entry.fixed_size and entry.sampling < 1]
    others = [entry for entry in paid if not (entry.fixed_size and entry.sampling < 1)]
    if fixed and others:
        # No accountant has both relations between neighbours: each kind gets half of delta, and both add up.
        one, two = (_by_all_ways(_costs(part), delta / 2) for part in (fixed, others))
        total = min(one.values.values(), default=math.inf) + min(two.values.values(), default=math.inf)
        why = "samples of fixed size are counted apart, by RDP"
        return Recount({RDP: total}, {way: why for way in WAYS if way != RDP}, underpaid)
    found = _by_all_ways(_costs(paid), delta)
    return replace(found, underpaid=underpaid)


def _with_true_cost(entry: Entry) -> Entry:
    """The entry, at the cost that follows from its sensitivity and scale if that is more."""
    if not entry.scale or not entry.sensitivity:
        return entry
    cost = entry.sensitivity / entry.scale
    if cost <= max(entry.mu, entry.epsilon) * (1 + _ROUNDING):
        return entry
    return replace(entry, mu=cost) if entry.mu else replace(entry, epsilon=cost)


def _costs(entries: Sequence[Entry]) -> _Costs:
    """Costs for the record that is hit hardest: of disjoint parts of the rows, the worst one counts."""
    pure: Counter[float] = Counter()
    sampled: Counter[tuple[float, float, bool]] = Counter()
    squares = []
    parts: dict[str, dict[str, list[Entry]]] = {}
    for entry in entries:
        if entry.rows != ALL_ROWS:
            family, _, part = entry.rows.rpartition("/")
            parts.setdefault(family, {}).setdefault(part, []).append(entry)
        elif entry.sampling < 1:
            sampled[entry.mu, entry.sampling, entry.fixed_size] += entry.times
        elif entry.mu:
            squares.append(entry.times * entry.mu * entry.mu)
        else:
            pure[entry.epsilon] += entry.times
    for family_parts in parts.values():
        each = [_costs([replace(entry, rows=ALL_ROWS) for entry in part]) for part in family_parts.values()]
        squares.append(max(part.squared_mu for part in each))
        worst = max(each, key=lambda part: part.pure_sum)
        if all(part.pure <= worst.pure for part in each):
            pure += worst.pure
        elif worst.pure_sum:
            pure[worst.pure_sum] += 1  # dominates every part, whatever its releases
    return _Costs(pure, math.fsum(squares), sampled)


def _by_all_ways(costs: _Costs, delta: float) -> Recount:
    values: dict[str, float] = {}
    notes: dict[str, str] = {}
    for way, function in _FUNCTIONS.items():
        try:
            values[way] = max(0.0, function(costs, delta))
        except _DoesNotApply as error:
            notes[way] = str(error)
        except ImportError as error:
            notes[way] = f"{error.name or error} is not installed: pip install dpforest"
    return Recount(values, notes)


def _sum(costs: _Costs, delta: float) -> float:
    if not costs.is_pure:
        raise _DoesNotApply("Gaussian noise has no pure cost")
    return costs.pure_sum


def _optimal(costs: _Costs, delta: float) -> float:
    if not costs.is_pure:
        raise _DoesNotApply("for pure releases only")
    if delta == 0:
        return costs.pure_sum
    outcomes = math.prod(times + 1 for times in costs.pure.values())
    if outcomes > _MOST_OUTCOMES or costs.pure_sum > _LARGEST_COST:
        raise _DoesNotApply(f"more than {_MOST_OUTCOMES:,} outcomes, or an epsilon above {_LARGEST_COST:g}")
    return _optimal_epsilon(costs.pure, delta)


def _optimal_epsilon(costs: Counter[float], delta: float) -> float:
    """Smallest epsilon at which so many randomized responses of each cost are (epsilon, delta)-private."""
    from scipy.stats import binom

    losses, chances = np.zeros(1), np.ones(1)
    for epsilon, times in costs.items():
        truths = np.arange(times + 1)
        chance = binom.pmf(truths, times, 1 / (1 + math.exp(-epsilon)))
        losses = np.add.outer(losses, epsilon * (2 * truths - times)).ravel()
        chances = np.multiply.outer(chances, chance).ravel()
    order = np.argsort(-losses, kind="stable")
    losses, chances = losses[order], chances[order]
    with_record, without = np.cumsum(chances), np.cumsum(chances * np.exp(-losses))
    # Between two losses, delta(epsilon) = with_record - exp(epsilon) without: the curve is known exactly.
    at_next = with_record[:-1] - np.exp(losses[1:]) * without[:-1]
    above = np.flatnonzero(at_next > delta)
    if len(above) == 0:
        return 0.0
    first = above[0]
    return math.log((with_record[first] - delta) / without[first])


def _analytic(costs: _Costs, delta: float) -> float:
    if costs.pure or costs.sampled or not costs.squared_mu:
        raise _DoesNotApply("for Gaussian noise on all rows only")
    _need_delta(delta)
    if not math.isfinite(costs.mu) or costs.mu > _LARGEST_COST:
        raise _DoesNotApply(f"a mu above {_LARGEST_COST:g}")
    low, high = 0.0, costs.mu**2 / 2 + costs.mu * math.sqrt(2 * math.log(1 / delta)) + 1
    if _gaussian_delta(0.0, costs.mu) <= delta:
        return 0.0
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if _gaussian_delta(middle, costs.mu) > delta else (low, middle)
    return high


def _gaussian_delta(epsilon: float, mu: float) -> float:
    """Delta of a Gaussian release: both tails by the scaled complementary error function, so that nothing cancels."""
    from scipy.special import erfcx

    near, far = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    if near < 0:
        beyond = 0.5 * float(erfcx(far / math.sqrt(2))) * math.exp(-(near**2) / 2)
        return 1 - 0.5 * math.erfc(-near / math.sqrt(2)) - beyond
    return 0.5 * math.exp(-(near**2) / 2) * float(erfcx(near / math.sqrt(2)) - erfcx(far / math.sqrt(2)))


def _pld(costs: _Costs, delta: float) -> float:
    from dp_accounting.pld import privacy_loss_distribution as losses

    _need_delta(delta)
    if any(is_fixed for _, _, is_fixed in costs.sampled):
        raise _DoesNotApply("not for samples of fixed size")
    grid = _grid(costs)
    parts = []
    if costs.mu:
        parts.append(losses.from_gaussian_mechanism(1 / costs.mu, value_discretization_interval=grid))
    for (mu, probability, _), times in costs.sampled.items():
        one = losses.from_gaussian_mechanism(1 / mu, sampling_prob=probability, value_discretization_interval=grid)
        parts.append(one.self_compose(times))
    for epsilon, times in costs.pure.items():
        one = losses.from_randomized_response(2 / (1 + math.exp(epsilon)), 2, value_discretization_interval=grid)
        parts.append(one.self_compose(times) if times > 1 else one)
    if not parts:
        return 0.0
    total = parts[0]
    for part in parts[1:]:
        total = total.compose(part)
    return float(total.get_epsilon_for_delta(delta))


def _grid(costs: _Costs) -> float:
    """Step of the losses; refuses what would take long."""
    if costs.kinds > _MOST_KINDS:
        raise _DoesNotApply(f"more than {_MOST_KINDS} different costs")
    if max(costs.mu, costs.pure_sum) > _LARGEST_COST:
        raise _DoesNotApply(f"a cost above {_LARGEST_COST:g}")
    if any(mu > _LARGEST_SAMPLED_MU for mu, _, _ in costs.sampled):
        raise _DoesNotApply("too little noise on samples")
    strengths = [probability * mu for mu, probability, _ in costs.sampled]
    grid = min(max(_FINEST, 0.005 * min(strengths, default=0.01)), _COARSEST)
    widths = [_width(costs.mu)] + [_width(mu) for mu, _, _ in costs.sampled]
    grid = max(grid, max(widths) / _MOST_POINTS)
    spread = widths[0]
    for epsilon, times in costs.pure.items():
        # Each loss is rounded to the grid, so that tiny ones spread as if they were steps of it.
        spread += 2 * times * (epsilon + grid)
    for (mu, probability, _), times in costs.sampled.items():
        if times > _MOST_SAMPLED or (_width(mu) < 4 * grid and times > 1000):
            raise _DoesNotApply("too many samples, or too much noise on them")
        mean = min(probability * mu**2 / 2, math.log1p(probability**2 * math.expm1(mu**2)))
        spread += times * (mean + grid) + 10 * math.sqrt(times * max(2 * mean, probability * mu**4 / 4)) + _width(mu)
    if spread / grid > _MOST_COMPOSED_POINTS:
        raise _DoesNotApply("it would take too long")
    return grid


def _width(mu: float) -> float:
    """How far the losses of one Gaussian release spread, beyond which hardly any probability lies."""
    return mu**2 / 2 + 8 * mu


def _rdp(costs: _Costs, delta: float) -> float:
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    _need_delta(delta)
    if costs.kinds > _MOST_KINDS:
        raise _DoesNotApply(f"more than {_MOST_KINDS} different costs")
    if any(mu > _LARGEST_SAMPLED_MU for mu, _, _ in costs.sampled) or max(costs.mu, costs.pure_sum) > _LARGEST_COST:
        raise _DoesNotApply("too little noise")
    relation, fixed = dp_accounting.NeighboringRelation, any(is_fixed for _, _, is_fixed in costs.sampled)
    accountant = RdpAccountant(_WHOLE_ORDERS, relation.REPLACE_ONE if fixed else relation.ADD_OR_REMOVE_ONE)
    logger = logging.getLogger("absl")  # says that orders whose series do not converge are left out, which is safe
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        if costs.mu:
            accountant.compose(dp_accounting.GaussianDpEvent(1 / costs.mu))
        for (mu, probability, is_fixed), times in costs.sampled.items():
            release = dp_accounting.GaussianDpEvent(1 / mu)
            if is_fixed:
                taken = math.ceil(probability * _POPULATION)
                event = dp_accounting.SampledWithoutReplacementDpEvent(_POPULATION, taken, release)
            else:
                event = dp_accounting.PoissonSampledDpEvent(probability, release)
            accountant.compose(event, times)
        # A pure release is epsilon^2 / 2-concentrated (Bun, Steinke 2016, proposition 1.4).
        rho = math.fsum(times * epsilon**2 / 2 for epsilon, times in costs.pure.items())
        if rho:
            accountant.compose(dp_accounting.ZCDpEvent(rho))
        return float(accountant.get_epsilon(delta))
    finally:
        logger.setLevel(level)


def _opendp(costs: _Costs, delta: float) -> float:
    import opendp.prelude as dp

    if costs.sampled:
        raise _DoesNotApply("not for samples")
    if max(costs.mu, costs.pure_sum) > _LARGEST_COST or costs.kinds > _MOST_OUTCOMES:
        raise _DoesNotApply(f"a cost above {_LARGEST_COST:g}")
    dp.enable_features("contrib")
    vectors = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    if costs.is_pure:
        laplace = dp.m.make_laplace(vectors, dp.l1_distance(T=float), scale=1.0)
        return math.fsum(times * laplace.map(epsilon) for epsilon, times in costs.pure.items())
    _need_delta(delta)
    gaussian = dp.m.make_gaussian(vectors, dp.l2_distance(T=float), scale=1.0)
    rho = math.fsum([gaussian.map(costs.mu), *(times * epsilon**2 / 2 for epsilon, times in costs.pure.items())])
    approximate = dp.c.make_zCDP_to_approxDP(gaussian)
    return float(approximate.map(math.nextafter(math.sqrt(2 * rho), math.inf)).epsilon(delta))


def _need_delta(delta: float) -> None:
    if delta <= 0:
        raise _DoesNotApply("it takes a delta above 0")


_FUNCTIONS: dict[str, Callable[[_Costs, float], float]] = {
    SUM: _sum, OPTIMAL: _optimal, ANALYTIC: _analytic, PLD: _pld, RDP: _rdp, OPENDP: _opendp,
}  # fmt: skip
