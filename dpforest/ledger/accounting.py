"""What a list of entries adds up to.

Pure epsilon adds up. Gaussian releases compose exactly: k of them with mu_1 ... mu_k are one with
``sqrt(sum mu_i^2)`` (Dong, Roth, Su 2022, corollary 3.3). Where both kinds meet, where a delta is
allowed and pure releases are many, or where the privacy unit is only sampled, dp-accounting's privacy
loss distributions give the total; samples of fixed size are known to its Renyi accountant only.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Any

from dpforest.errors import DPForestError
from dpforest.ledger.entries import ALL_ROWS, TEST_ROWS, Entry
from dpforest.ledger.numbers import rounded_up

# Those of dp-accounting, without the ones below 1.5, whose series often do not converge.
_RENYI_ORDERS = [1 + x / 10 for x in range(5, 100)] + list(range(11, 64)) + [128, 256, 512, 1024]
# The bound for samples of fixed size is for whole orders, and slow just below 257.
_WHOLE_ORDERS = [*range(2, 33), 40, 48, 56, 64, 80, 96, 128, 300, 512]
# Denominator that turns a probability into whole numbers for dp-accounting, rounded up.
_POPULATION = 10**9
# Steps of the grid of privacy losses: dp-accounting's default, and the largest one used.
_FINE, _COARSE = 1e-4, 4e-3
_SMALL_LOSS = 0.02
_HARDLY_NOISED = 20.0
# What privacy loss distributions may take, lest a server or a client chooses numbers that keep others busy: points of
# the grid of single releases, points of their composition, different costs, and times of a cost that is next to
# nothing. Beyond them a cheaper bound is taken.
_MOST_POINTS, _MOST_COMPOSED_POINTS, _MOST_COSTS, _MOST_TINY = 120_000, 2**22, 32, 10**4


@lru_cache(maxsize=4096)  # all clients of a run ask the same
def epsilon_of_gaussian(mu: float, delta: float) -> float:
    """Smallest epsilon at which a mu-GDP release is (epsilon, delta)-private.

    Solves ``Phi(-eps/mu + mu/2) - exp(eps) Phi(-eps/mu - mu/2) = delta`` (Balle and Wang 2018,
    theorem 8; Dong, Roth, Su 2022, corollary 2.13).

    Parameters
    ----------
    mu : float
        From 0; ``inf`` is no noise.
    delta : float
        Above 0, below 1.

    Returns
    -------
    float
        The smallest epsilon.

    Examples
    --------
    >>> round(epsilon_of_gaussian(0.5, 1e-5), 3)
    1.993
    """
    if mu == 0:
        return 0.0
    if math.isinf(mu):
        return math.inf

    def excess(epsilon: float) -> float:
        return _gaussian_delta(epsilon, mu) - delta

    if excess(0.0) <= 0:
        return 0.0
    upper = 1.0
    while excess(upper) > 0:
        upper *= 2
    return _root(excess, 0.0, upper, 1e-12, 1e-12)


@lru_cache(maxsize=1024)
def gaussian_mu(epsilon: float, delta: float) -> float:
    """Largest mu of Gaussian releases that stay (epsilon, delta)-private; the inverse of the above.

    Parameters
    ----------
    epsilon : float
        Above 0; ``inf`` is no noise.
    delta : float
        Above 0, below 1.

    Returns
    -------
    float
        The largest mu.

    Raises
    ------
    DPForestError
        Delta is meaningless, or both are too small for any noise.

    Examples
    --------
    >>> round(gaussian_mu(1.0, 1e-5), 3)
    0.268
    """
    if math.isinf(epsilon):
        return math.inf
    check_delta(delta)
    low, high = 1e-12, 1.0
    if epsilon_of_gaussian(low, delta) > epsilon:
        raise DPForestError(
            f"epsilon {rounded_up(epsilon)} at delta {rounded_up(delta)} takes more noise than any number holds: "
            "raise one"
        )
    while epsilon_of_gaussian(high, delta) < epsilon:
        high *= 2
    return _root(lambda mu: epsilon_of_gaussian(mu, delta) - epsilon, low, high, 1e-14, 1e-13)


def check_delta(delta: float) -> None:
    """Refuse a delta that makes Gaussian noise meaningless.

    Raises
    ------
    DPForestError
    """
    if not 0 < delta < 1:
        raise DPForestError(
            f"delta {delta} must lie between 0 and 1 for Gaussian noise; choose one well below 1 / rows, such as 1e-6"
        )


def total_epsilon(entries: Iterable[Entry], delta: float) -> float:
    """Total epsilon of protected entries at the given delta.

    Entries about test rows and entries about training rows are about different records, so that the worse of both
    totals counts; likewise, among those of training, the entries of one family of disjoint row parts count as the
    worst of its parts (parallel composition). All others add up. With ``delta > 0`` the tighter of plain addition and
    privacy loss distributions is taken; Gaussian entries need a ``delta > 0``.

    Parameters
    ----------
    entries : iterable of Entry
        Protected ones.
    delta : float
        From 0, below 1.

    Returns
    -------
    float
        The total; ``inf`` where an entry has no noise.

    Examples
    --------
    >>> from dpforest.mechanisms import DiscreteLaplaceCounts
    >>> total_epsilon([DiscreteLaplaceCounts(0.25).entry("counts", times=2)], delta=0.0)
    0.5
    """
    entries = list(entries)
    if tested := [entry for entry in entries if entry.rows == TEST_ROWS]:
        trained = [entry for entry in entries if entry.rows != TEST_ROWS]
        return max(
            total_epsilon([replace(entry, rows=ALL_ROWS) for entry in tested], delta), total_epsilon(trained, delta)
        )
    fixed = [entry for entry in entries if entry.fixed_size and entry.sampling < 1]
    if fixed:
        others = [entry for entry in entries if entry not in fixed]
        # The two accountants cannot be combined, so where both are needed each gets half of delta.
        share = delta / 2 if others else delta
        return renyi_epsilon(fixed, share) + total_epsilon(others, share)
    # With hardly any noise sampling does not help, and its loss distribution would not fit into memory.
    amplified = [entry for entry in entries if entry.sampling < 1 and entry.mu <= _HARDLY_NOISED]
    sampled = _sampled_costs(amplified)
    pure, gaussian = worst_case([entry for entry in entries if entry not in amplified])
    mu = math.sqrt(sum(gaussian))
    plain = sum(epsilon * times for epsilon, times in pure)
    if math.isinf(mu) or math.isinf(plain):
        return math.inf
    noised = bool(mu or sampled)
    if not noised and (delta == 0 or sum(times for _, times in pure) <= 1):
        return plain
    check_delta(delta)
    if not pure and not sampled:
        return epsilon_of_gaussian(mu, delta)
    grid = _grid(tuple(pure), mu, sampled)
    if grid is None:
        return plain + _bound(mu, amplified, delta) if noised else plain
    composed = _composed_epsilon(tuple(pure), mu, sampled, delta, grid)
    return composed if noised else min(plain, composed)


def _bound(mu: float, amplified: list[Entry], delta: float) -> float:
    """An upper bound of what Gaussian releases cost, in no time: Renyi's if there are few, or without amplification."""
    everything = math.hypot(mu, math.sqrt(sum(entry.mu**2 * entry.times for entry in amplified)))
    unamplified = epsilon_of_gaussian(everything, delta)
    if len(_sampled_costs(amplified)) > _MOST_COSTS:
        return unamplified
    gaussian = [Entry("all others", "Gaussian", mu=mu)] if mu else []
    return min(unamplified, renyi_epsilon([*amplified, *gaussian], delta))


def renyi_epsilon(entries: Iterable[Entry], delta: float) -> float:
    """Total epsilon of Gaussian entries by Renyi differential privacy (Mironov 2017; Wang et al. 2019).

    Above the total by privacy loss distributions where those apply, but quick, and the customary figure. The entries
    must be all of fixed size, or none.

    Parameters
    ----------
    entries : iterable of Entry
        Gaussian ones.
    delta : float
        Above 0, below 1.

    Returns
    -------
    float
        The total.

    Raises
    ------
    DPForestError
        An entry is pure, or samples of both kinds meet.
    """
    entries = list(entries)
    if any(entry.epsilon for entry in entries) or len({entry.fixed_size for entry in entries}) > 1:
        raise DPForestError("the Renyi accountant takes Gaussian entries of one kind of sampling: use accountant=pld")
    check_delta(delta)
    if any(math.isinf(entry.mu) for entry in entries):
        return math.inf
    return _renyi_epsilon(_sampled_costs(entries), any(entry.fixed_size for entry in entries), delta)


def _root(function: Callable[[float], float], low: float, high: float, xtol: float, rtol: float) -> float:
    from scipy.optimize import brentq  # takes long to import, and a node loads this module for every message

    return float(brentq(function, low, high, xtol=xtol, rtol=rtol))


def _gaussian_delta(epsilon: float, mu: float) -> float:
    from scipy.special import log_ndtr

    first = log_ndtr(-epsilon / mu + mu / 2)
    second = epsilon + log_ndtr(-epsilon / mu - mu / 2)
    return float(math.exp(first) * -math.expm1(min(second - first, 0.0)))


def worst_case(entries: list[Entry]) -> tuple[list[tuple[float, int]], list[float]]:
    """Pure costs with their multiplicities, and squared mus, of the rows that are hit hardest."""
    everyone = [entry for entry in entries if entry.rows == ALL_ROWS]
    pure = list(_pure_costs(everyone).items())
    squared = [entry.mu**2 * entry.times for entry in everyone]
    families: dict[str, dict[str, list[Entry]]] = {}
    for entry in entries:
        if entry.rows != ALL_ROWS:
            family, _, part = entry.rows.rpartition("/")
            families.setdefault(family, {}).setdefault(part, []).append(entry)
    for parts in families.values():
        costs = [_pure_costs(part) for part in parts.values()]
        worst = max(costs, key=_plain_sum)
        if all(cost <= worst for cost in costs):
            pure += worst.items()
        else:
            # Which part is worst depends on delta; one release at the largest sum is no better than any of them.
            pure.append((_plain_sum(worst), 1))
        # A part may cost most in epsilon and another most in mu: charging both is an upper bound.
        squared.append(max(sum(e.mu**2 * e.times for e in part) for part in parts.values()))
    return pure, squared


def _pure_costs(entries: list[Entry]) -> Counter[float]:
    """How many releases of each pure epsilon."""
    costs: Counter[float] = Counter()
    for entry in entries:
        if entry.epsilon:
            costs[entry.epsilon] += entry.times
    return costs


def _plain_sum(costs: Counter[float]) -> float:
    return sum(epsilon * times for epsilon, times in costs.items())


def _sampled_costs(entries: list[Entry]) -> tuple[tuple[float, float, int], ...]:
    """Releases of each (mu, sampling probability), with their multiplicity."""
    costs: Counter[tuple[float, float]] = Counter()
    for entry in entries:
        costs[entry.mu, entry.sampling] += entry.times
    return tuple(sorted((mu, q, times) for (mu, q), times in costs.items()))


# Every client of a process asks for the same totals, round after round.
@lru_cache(maxsize=1024)
def _composed_epsilon(
    pure: tuple[tuple[float, int], ...],
    mu: float,
    sampled: tuple[tuple[float, float, int], ...],
    delta: float,
    grid: float,
) -> float:
    return float(_composed_losses(pure, mu, sampled, grid).get_epsilon_for_delta(delta))


@lru_cache(maxsize=2)  # for who asks for several deltas in turn; one may have millions of points
def _composed_losses(
    pure: tuple[tuple[float, int], ...], mu: float, sampled: tuple[tuple[float, float, int], ...], grid: float
) -> Any:
    # Imported here: it takes a second, and a run with one pure epsilon never needs it.
    from dp_accounting.pld import common, privacy_loss_distribution

    parts = []
    for epsilon, times in pure:
        parameters = common.DifferentialPrivacyParameters(epsilon, 0.0)
        one = privacy_loss_distribution.from_privacy_parameters(parameters, value_discretization_interval=grid)
        parts.append(one.self_compose(times) if times > 1 else one)
    if mu:
        parts.append(_gaussian_losses(mu, 1.0, grid))
    for cost, probability, times in sampled:
        parts.append(_gaussian_losses(cost, probability, grid).self_compose(times))
    total = parts[0]
    for part in parts[1:]:
        total = total.compose(part)
    return total


def _grid(
    pure: tuple[tuple[float, int], ...], mu: float, sampled: tuple[tuple[float, float, int], ...]
) -> float | None:
    """Step of the grid of privacy losses for these releases; None if it would have too many points.

    dp-accounting rounds to the safe side, by about 1e-4 of the total at this step; its own default is much slower for
    losses that are not small.
    """
    if len(pure) + len(sampled) > _MOST_COSTS:
        return None
    steps = [_FINE if q * cost < _SMALL_LOSS else min(_COARSE, 0.03 * q * cost) for cost, q, _ in sampled]
    grid = _FINE if pure or not sampled else min(steps)
    widths = [_gaussian_width(mu, 1.0, 1)] if mu else []
    grid = max(grid, sum([*widths, *(_gaussian_width(cost, q, 1) for cost, q, _ in sampled)]) / _MOST_POINTS)
    if any(times > _MOST_TINY and _gaussian_width(cost, q, 1) < 4 * grid for cost, q, times in sampled):
        return None  # one point: composed time by time, and rounded up each time
    widths += [_gaussian_width(*cost) for cost in sampled]
    widths += [_pure_width(epsilon, times) for epsilon, times in pure]
    return grid if sum(widths) / grid <= _MOST_COMPOSED_POINTS else None


def _gaussian_width(mu: float, probability: float, times: int) -> float:
    """About how far the privacy losses of so many releases spread, beyond which hardly any probability lies."""
    whole = min(mu**2, 700.0)
    mean = min(probability * mu**2 / 2, math.log1p(probability**2 * math.expm1(whole)))
    variance = min(probability * (mu**4 / 4 + mu**2), 4 * mean * (1 + mean))
    return (times - 1) * mean + 10 * math.sqrt((times - 1) * variance) + mu**2 / 2 + 8 * mu


def _pure_width(epsilon: float, times: int) -> float:
    return min(2 * epsilon * times, times * epsilon * math.tanh(epsilon / 2) + 10 * epsilon * math.sqrt(times))


@lru_cache(maxsize=4)
def _gaussian_losses(mu: float, probability: float, grid: float) -> Any:
    from dp_accounting.pld import privacy_loss_distribution

    return privacy_loss_distribution.from_gaussian_mechanism(
        1.0 / mu, sampling_prob=probability, value_discretization_interval=grid
    )


@lru_cache(maxsize=1024)
def _renyi_epsilon(costs: tuple[tuple[float, float, int], ...], fixed_size: bool, delta: float) -> float:
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    relation = dp_accounting.NeighboringRelation
    if fixed_size:
        accountant = RdpAccountant(_WHOLE_ORDERS, relation.REPLACE_ONE)
    else:
        accountant = RdpAccountant(_RENYI_ORDERS, relation.ADD_OR_REMOVE_ONE)
    for mu, probability, times in costs:
        event: Any = dp_accounting.GaussianDpEvent(1.0 / mu)
        if probability < 1 and fixed_size:
            taken = math.ceil(probability * _POPULATION)
            event = dp_accounting.SampledWithoutReplacementDpEvent(_POPULATION, taken, event)
        elif probability < 1:
            event = dp_accounting.PoissonSampledDpEvent(probability, event)
        with _quiet("absl"):
            accountant.compose(event, times)
    with _quiet("absl"):
        epsilon = float(accountant.get_epsilon(delta))
    if epsilon > 0:
        return epsilon
    # Divergences so small that rounding makes them negative count as nothing there; without amplification none is.
    return epsilon_of_gaussian(math.sqrt(sum(mu**2 * times for mu, _, times in costs)), delta)


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Without the logger's warnings.

    An order whose series does not converge is left out, which is safe; divergences below 0 are seen to by the caller.
    """
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
