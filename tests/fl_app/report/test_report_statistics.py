"""Intervals and differences agree with calculations by hand."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats

from fl_app.report.statistics import difference, mean_interval


def enumerated(values: list[float]) -> tuple[float, float]:
    """The same interval from all n^n resamples, without SciPy's bootstrap: expanded percentiles of their means."""
    n = len(values)
    means = np.sort([np.mean(drawn) for drawn in product(values, repeat=n)])
    tail = stats.norm.cdf(-math.sqrt(n / (n - 1)) * stats.t.ppf(0.975, n - 1))
    return float(np.quantile(means, tail)), float(np.quantile(means, 1 - tail))


def test_an_interval_is_that_of_all_resamples() -> None:
    values = [0.70, 0.72, 0.69, 0.75, 0.71, 0.66]
    found = mean_interval(values)
    low, high = enumerated(values)
    assert found.mean == pytest.approx(0.705)
    assert found.low == pytest.approx(low, abs=0.004)
    assert found.high == pytest.approx(high, abs=0.004)


def test_for_many_normal_values_it_is_students() -> None:
    values = np.random.default_rng(3).normal(5, 2, 60)
    half = stats.t.ppf(0.975, 59) * values.std(ddof=1) / math.sqrt(60)
    assert mean_interval(values.tolist()).half == pytest.approx(half, rel=0.06)


def test_one_value_has_no_interval_and_equal_values_a_point() -> None:
    assert math.isnan(mean_interval([0.5]).low)
    assert (mean_interval([0.5] * 4).low, mean_interval([0.5] * 4).high) == (0.5, 0.5)


def test_weights_count_rows() -> None:
    found = mean_interval([1.0, 0.0], [300, 100])
    assert found.mean == pytest.approx(0.75)


def test_a_difference_is_paired() -> None:
    # Seeds differ by far more than the methods, but one is ahead by 0.01 or 0.02 in each of them.
    behind = {seed: 0.5 + 0.1 * seed for seed in range(5)}
    ahead = {seed: score + (0.01 if seed % 2 else 0.02) for seed, score in behind.items()}
    found = difference(ahead, behind, {}, {})
    assert found.seeds is not None
    assert found.seeds.mean == pytest.approx((3 * 0.02 + 2 * 0.01) / 5)
    assert found.is_one


@pytest.mark.parametrize(
    ("gaps", "clients", "is_one"),
    [
        ([0.02, 0.03, 0.02, 0.01], {0: 0.02, 1: 0.03, 2: 0.02}, True),
        ([0.02, -0.03, 0.02, 0.01], {0: 0.02, 1: 0.03, 2: 0.02}, False),
        ([0.02, 0.03, 0.02, 0.01], {0: 0.20, 1: -0.08, 2: -0.06}, False),
        ([0.02, 0.03], {0: 0.02, 1: 0.03, 2: 0.02}, False),
        ([0.02, 0.03, 0.02], {0: 0.02}, True),
    ],
    ids=["both", "a seed against it", "clients against it", "two seeds", "one client says nothing"],
)
def test_a_difference_needs_seeds_and_clients(gaps: list[float], clients: dict[int, float], is_one: bool) -> None:
    ahead = {("seed", n): 0.5 + gap for n, gap in enumerate(gaps)}
    behind = {("seed", n): 0.5 for n in range(len(gaps))}
    ours = {(("seed", 0), client): (0.5 + gap, 100.0) for client, gap in clients.items()}
    found = difference(ahead, behind, ours, dict.fromkeys(ours, (0.5, 100.0)))
    assert found.is_one is is_one


@pytest.mark.parametrize(("seeds", "clients"), [(-0.1, 0.1), (0.1, -0.1), (-0.1, -0.1)])
def test_what_is_behind_is_not_ahead(seeds: float, clients: float) -> None:
    ahead = {(0, n): seeds for n in range(5)}
    ours = {((0, 0), n): (clients, 100.0) for n in range(5)}
    found = difference(ahead, dict.fromkeys(ahead, 0.0), ours, dict.fromkeys(ours, (0.0, 100.0)))
    assert not found.is_one


def test_without_a_seed_in_common_there_is_no_difference() -> None:
    found = difference({1: 0.9}, {2: 0.1}, {}, {})
    assert found.seeds is None
    assert not found.is_one


def test_clients_are_compared_in_the_runs_that_both_methods_have() -> None:
    theirs = {("a", client): (0.5, 100.0) for client in range(3)}
    ours = {("a", client): (0.6, 100.0) for client in range(3)} | {("b", client): (0.1, 100.0) for client in range(3)}
    found = difference({}, {}, ours, theirs)
    assert found.clients is not None
    assert found.clients.mean == pytest.approx(0.1)
    assert difference({}, {}, ours, {("c", 0): (0.5, 100.0)}).clients is None
