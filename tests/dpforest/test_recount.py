"""Ledgers counted again: against closed forms, against the ledger's own accounting, and with hostile numbers."""

from __future__ import annotations

import math
from itertools import product

import pytest
from scipy.stats import norm

from dpforest.ledger import Entry, total_epsilon
from dpforest.ledger.recount import ANALYTIC, OPENDP, OPTIMAL, PLD, RDP, SUM, WAYS, recount

DELTA = 1e-6


def pure(epsilon: float, times: int = 1, rows: str = "all") -> Entry:
    return Entry("counts", "discrete Laplace", epsilon, times=times, rows=rows)


def gaussian(mu: float, times: int = 1, sampling: float = 1.0, fixed_size: bool = False) -> Entry:
    return Entry("sums", "Gaussian", mu=mu, times=times, sampling=sampling, fixed_size=fixed_size)


@pytest.mark.parametrize(
    ("entries", "delta"),
    [
        ([pure(0.1, 3), pure(0.4)], 0.0),
        ([pure(0.1, 50), pure(0.05, 100)], DELTA),
        ([pure(0.5, rows="parts/0"), pure(0.5, rows="parts/1"), pure(0.2)], 0.0),
        ([pure(0.5, rows="parts/0"), pure(0.2, 2, rows="parts/1")], 0.0),
        ([gaussian(0.5), gaussian(0.1, 100)], DELTA),
        ([gaussian(0.5), pure(0.3, 2)], DELTA),
        ([gaussian(1.0), gaussian(0.8, 500, 0.02)], DELTA),
        ([gaussian(2.0, 300, 0.1)], 1e-5),
        ([gaussian(0.5, 100, 0.05, fixed_size=True), gaussian(0.3)], DELTA),
        ([], 0.0),
    ],
    ids=["pure", "pure-delta", "parts", "unequal-parts", "gaussian", "both", "sampled", "noisy", "fixed", "empty"],
)
def test_it_agrees_with_the_accounting(entries: list[Entry], delta: float) -> None:
    found, claimed = recount(entries, delta), total_epsilon(entries, delta)
    assert found.epsilon <= claimed + 1e-9
    assert found.epsilon == pytest.approx(claimed, rel=1e-3)
    assert set(found.values) | set(found.notes) == set(WAYS)


@pytest.mark.parametrize("delta", [1e-9, 1e-3, 0.2])
def test_optimal_composition_is_that_of_all_outcomes(delta: float) -> None:
    """Every outcome of randomized responses by itself: their hockey stick at the epsilon is the delta."""
    costs = [0.7, 0.7, 0.3, 1.1]
    epsilon = recount([pure(cost) for cost in costs], delta).values[OPTIMAL]
    divergence = 0.0
    for answers in product((1, 0), repeat=len(costs)):
        truth = [1 / (1 + math.exp(-cost)) for cost in costs]
        first = math.prod(p if answer else 1 - p for p, answer in zip(truth, answers, strict=True))
        second = math.prod(1 - p if answer else p for p, answer in zip(truth, answers, strict=True))
        divergence += max(0.0, first - math.exp(epsilon) * second)
    assert divergence == pytest.approx(delta, rel=1e-6)


def test_one_pure_release_has_its_known_curve() -> None:
    found = recount([pure(1.0)], 0.01).values[OPTIMAL]
    assert found == pytest.approx(math.log(math.e - 0.01 * (1 + math.e)))


@pytest.mark.parametrize(("mu", "delta"), [(0.1, 1e-6), (1.0, 1e-5), (3.0, 1e-2), (8.0, 1e-9)])
def test_the_analytic_gaussian_solves_its_equation(mu: float, delta: float) -> None:
    epsilon = recount([gaussian(mu)], delta).values[ANALYTIC]
    reached = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
    assert reached == pytest.approx(delta, rel=1e-4)


def test_all_ways_bound_the_same() -> None:
    found = recount([gaussian(0.1, 100)], DELTA).values
    assert set(found) == {ANALYTIC, PLD, RDP, OPENDP}
    assert min(found.values()) == pytest.approx(found[ANALYTIC])
    assert found[PLD] == pytest.approx(found[ANALYTIC], rel=1e-3)
    assert max(found.values()) < 1.2 * found[ANALYTIC]


def test_a_line_that_costs_more_than_it_says_counts_in_full() -> None:
    honest = Entry("counts", "Laplace", 1.0, sensitivity=1, scale=1)
    short = Entry("sums", "Laplace", 0.5, sensitivity=2, scale=1)
    found = recount([honest, short], 0.0)
    assert found.values[SUM] == pytest.approx(3)
    assert found.underpaid == ("sums",)
    assert recount([honest], 0.0).underpaid == ()
    assert (
        recount([Entry("sums", "Gaussian", mu=0.5, sensitivity=1, scale=1)], DELTA).epsilon
        > recount([gaussian(0.99)], DELTA).epsilon
    )


@pytest.mark.parametrize(
    "entry",
    [Entry("weights", "none", protected=False), pure(math.inf), gaussian(math.inf)],
    ids=["unprotected", "pure", "gaussian"],
)
def test_what_is_not_noised_costs_infinity(entry: Entry) -> None:
    assert math.isinf(recount([pure(0.1), entry], DELTA).epsilon)


@pytest.mark.parametrize(
    "entries",
    [
        [pure(1e-9, 10**9), pure(2e-9, 10**9)],
        [pure(1e300), pure(1e-300)],
        [gaussian(1e300, 10**9), gaussian(1e300, sampling=0.5)],
        [gaussian(1e-150, 10**9)],
        [gaussian(1e-6, 10**9, 1e-9)],
        [gaussian(1e5, 10**9, 0.5)],
        [gaussian(15.0, 10**6, 0.9)],
        [gaussian(0.5 + k / 1000, 10**5, 0.01) for k in range(500)],
        [pure(1 + k / 1e4, 10**3) for k in range(2000)],
        [pure(k + 1.0, rows=f"family {k}/{k}") for k in range(2000)],
        [gaussian(1e4, 10**9, 1e-3, fixed_size=True), gaussian(1.0)],
    ],
    ids=["tiny", "far-apart", "huge", "nothing", "rare", "bare", "wide", "kinds", "pure-kinds", "families", "fixed"],
)
@pytest.mark.parametrize("delta", [0.0, DELTA])
def test_numbers_of_others_are_never_composed_without_bounds(entries: list[Entry], delta: float) -> None:
    """It comes to an end, with a bound that is none or not too small."""
    found = recount(entries, delta)
    assert found.epsilon >= 0
    assert set(found.values) | set(found.notes) == set(WAYS)
