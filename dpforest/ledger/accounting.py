"""What a list of entries adds up to.

Pure epsilon adds up. Gaussian releases compose exactly: k of them with mu_1 ... mu_k are one with
``sqrt(sum mu_i^2)`` (Dong, Roth, Su 2022, corollary 3.3). Where both kinds meet, or where a delta is
allowed and pure releases are many, dp-accounting's privacy loss distributions give the total.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from scipy.optimize import brentq
from scipy.special import log_ndtr

from dpforest.errors import DPForestError
from dpforest.ledger.entries import ALL_ROWS, Entry


def epsilon_of_gaussian(mu: float, delta: float) -> float:
    """Smallest epsilon at which a mu-GDP release is (epsilon, delta)-private.

    Solves ``Phi(-eps/mu + mu/2) - exp(eps) Phi(-eps/mu - mu/2) = delta`` (Balle and Wang 2018,
    theorem 8; Dong, Roth, Su 2022, corollary 2.13).
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
    return float(brentq(excess, 0.0, upper, xtol=1e-12, rtol=1e-12))


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Largest mu of Gaussian releases that stay (epsilon, delta)-private; the inverse of the above."""
    if math.isinf(epsilon):
        return math.inf
    check_delta(delta)
    low, high = 1e-12, 1.0
    while epsilon_of_gaussian(high, delta) < epsilon:
        high *= 2
    return float(brentq(lambda mu: epsilon_of_gaussian(mu, delta) - epsilon, low, high, xtol=1e-14, rtol=1e-13))


def check_delta(delta: float) -> None:
    """Refuse a delta that makes Gaussian noise meaningless."""
    if not 0 < delta < 1:
        raise DPForestError(
            f"delta {delta} must lie between 0 and 1 for Gaussian noise; choose one well below 1 / rows, such as 1e-6"
        )


def total_epsilon(entries: Iterable[Entry], delta: float) -> float:
    """Total epsilon of protected entries at the given delta.

    The entries of one family of disjoint row parts count as the worst of its parts (parallel
    composition); all others add up. With ``delta > 0`` the tighter of plain addition and privacy loss
    distributions is taken; Gaussian entries need a ``delta > 0``.
    """
    pure, gaussian = _worst_case(list(entries))
    mu = math.sqrt(sum(gaussian))
    plain = sum(epsilon * times for epsilon, times in pure)
    if math.isinf(mu) or math.isinf(plain):
        return math.inf
    if not mu and (delta == 0 or sum(times for _, times in pure) <= 1):
        return plain
    check_delta(delta)
    if not pure:
        return epsilon_of_gaussian(mu, delta)
    composed = _composed_epsilon(pure, mu, delta)
    return composed if mu else min(plain, composed)


def _gaussian_delta(epsilon: float, mu: float) -> float:
    first = log_ndtr(-epsilon / mu + mu / 2)
    second = epsilon + log_ndtr(-epsilon / mu - mu / 2)
    return float(math.exp(first) * -math.expm1(min(second - first, 0.0)))


def _worst_case(entries: list[Entry]) -> tuple[list[tuple[float, int]], list[float]]:
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


def _composed_epsilon(pure: list[tuple[float, int]], mu: float, delta: float) -> float:
    # Imported here: it takes a second, and a run with one pure epsilon never needs it.
    from dp_accounting.pld import common, privacy_loss_distribution

    total = None
    for epsilon, times in pure:
        one = privacy_loss_distribution.from_privacy_parameters(common.DifferentialPrivacyParameters(epsilon, 0.0))
        many = one.self_compose(times) if times > 1 else one
        total = many if total is None else total.compose(many)
    if mu:
        one = privacy_loss_distribution.from_gaussian_mechanism(1.0 / mu)
        total = one if total is None else total.compose(one)
    assert total is not None
    return float(total.get_epsilon_for_delta(delta))
