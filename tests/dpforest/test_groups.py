"""What a guarantee about one record says about several, and at other deltas."""

from __future__ import annotations

import math

import pytest
from scipy.stats import norm

from dpforest.guarantee import OWNER_ONLY, RECORD_UNIT, Guarantee
from dpforest.ledger import Entry, total_epsilon
from dpforest.ledger.groups import GroupGuarantee, epsilon_curve, group_guarantee


def guarantee_of(entries: list[Entry], delta: float) -> Guarantee:
    return Guarantee(total_epsilon(entries, delta), delta, RECORD_UNIT, OWNER_ONLY)


def test_pure_guarantees_grow_with_the_records() -> None:
    entries = [Entry("a", "Laplace", 0.1, times=3), Entry("b", "Laplace", 0.2)]
    found = group_guarantee(guarantee_of(entries, 0.0), entries, 7)
    assert (found.epsilon, found.delta) == (pytest.approx(3.5), 0.0)


def test_gaussian_guarantees_are_those_of_a_larger_sensitivity() -> None:
    """k records move a sum k times as far: delta of N(0, 1) against N(k mu, 1) at that epsilon is the delta."""
    entries = [Entry("a", "Gaussian", mu=0.03, times=4), Entry("b", "Gaussian", mu=0.08)]
    found = group_guarantee(guarantee_of(entries, 1e-6), entries, 5)
    mu = 5 * math.sqrt(4 * 0.03**2 + 0.08**2)
    at = found.epsilon / mu
    assert norm.cdf(mu / 2 - at) - math.exp(found.epsilon) * norm.cdf(-mu / 2 - at) == pytest.approx(1e-6, rel=1e-4)
    assert found.delta == 1e-6


def test_sampled_releases_take_the_formula_of_approximate_privacy() -> None:
    entries = [Entry("a", "Gaussian", mu=1.0, times=10, sampling=0.01)]
    guarantee = guarantee_of(entries, 1e-6)
    found = group_guarantee(guarantee, entries, 3)
    epsilon, delta = 0.0, 0.0
    for _ in range(3):  # P0 <= exp(e) P1 + d, put into itself
        epsilon, delta = epsilon + guarantee.epsilon, math.exp(guarantee.epsilon) * delta + 1e-6
    assert (found.epsilon, found.delta) == (pytest.approx(epsilon), pytest.approx(delta))


def test_both_kinds_add_up() -> None:
    pure, gaussian = Entry("a", "Laplace", 0.1), Entry("b", "Gaussian", mu=0.1)
    both = group_guarantee(guarantee_of([pure, gaussian], 1e-6), [pure, gaussian], 4)
    alone = group_guarantee(guarantee_of([gaussian], 1e-6), [gaussian], 4)
    assert both.epsilon == pytest.approx(0.4 + alone.epsilon)


def test_disjoint_parts_count_once() -> None:
    entries = [Entry("a", "Gaussian", mu=0.1 * part, rows=f"parts/{part}") for part in (1, 2)]
    worst = [Entry("a", "Gaussian", mu=0.2)]
    found = group_guarantee(guarantee_of(entries, 1e-6), entries, 4)
    assert found.epsilon == pytest.approx(group_guarantee(guarantee_of(worst, 1e-6), worst, 4).epsilon)


def test_one_unit_is_as_guaranteed_and_more_never_cost_less() -> None:
    kinds = (
        [Entry("a", "Laplace", 0.3)],
        [Entry("a", "Gaussian", mu=0.3)],
        [Entry("a", "Gaussian", mu=0.3), Entry("b", "Laplace", 0.1)],
        [Entry("a", "Gaussian", mu=0.3, sampling=0.1)],
    )
    for entries in kinds:
        guarantee = guarantee_of(entries, 0.0 if entries[0].epsilon else 1e-6)
        found = [group_guarantee(guarantee, entries, size) for size in (1, 2, 10, 10**6, 10**150)]
        assert (found[0].epsilon, found[0].delta) == (guarantee.epsilon, guarantee.delta)
        assert [each.epsilon for each in found] == sorted(each.epsilon for each in found)
        assert not found[-1].is_useful


def test_certainty_is_that_of_randomized_response() -> None:
    assert GroupGuarantee(1, math.log(3), 0.0, "").certainty == pytest.approx(0.75)
    assert GroupGuarantee(1, 0.0, 0.0, "").certainty == 0.5
    assert GroupGuarantee(1, 0.0, 1.0, "").certainty == 1.0  # with delta 1, everything may be published
    assert GroupGuarantee(1, math.inf, 0.0, "").certainty == 1.0
    assert GroupGuarantee(1, math.log(98), 0.0, "").is_useful
    assert not GroupGuarantee(1, math.log(100), 0.0, "").is_useful


def test_the_curve_falls_and_goes_through_the_guarantee() -> None:
    entries = [Entry("a", "Gaussian", mu=0.3), Entry("b", "Laplace", 0.1)]
    guarantee = guarantee_of(entries, 3e-7)
    curve = epsilon_curve(guarantee, entries, [1e-9, 1e-5])
    assert [delta for delta, _ in curve] == [1e-9, 3e-7, 1e-5]
    assert curve[1][1] == guarantee.epsilon
    assert [epsilon for _, epsilon in curve] == sorted((epsilon for _, epsilon in curve), reverse=True)


def test_a_pure_guarantee_has_no_curve() -> None:
    entries = [Entry("a", "Laplace", 0.1)]
    assert epsilon_curve(guarantee_of(entries, 0.0), entries, [1e-6]) == []
