"""Intervals and differences agree with calculations by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fl_app.report.statistics import difference, mean_interval


@pytest.mark.parametrize(
    ("values", "half"),
    [
        # By hand: mean 0.28, deviations -0.02, 0.01, 0.01; s^2 = 0.0006 / 2; t(2) = 4.3027; 4.3027 * sqrt(0.0003 / 3).
        ([0.26, 0.29, 0.29], 0.043027),
        # Mean 0.5, s^2 = 0.02; t(1) = 12.7062; 12.7062 * sqrt(0.02 / 2).
        ([0.4, 0.6], 1.27062),
        # Mean 0.705; squares of the deviations add up to 0.00455; t(5) = 2.5706; 2.5706 * sqrt(0.00091 / 6).
        ([0.70, 0.72, 0.69, 0.75, 0.71, 0.66], 0.031658),
    ],
)
def test_an_interval_of_few_values_is_as_wide_as_students(values: list[float], half: float) -> None:
    found = mean_interval(values)
    assert found.mean == pytest.approx(np.mean(values))
    assert found.half == pytest.approx(half, rel=0.03)  # 9999 resamples
    assert [found.low, found.high] == pytest.approx([found.mean - found.half, found.mean + found.half])


def test_of_few_seeds_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """Three normal values: their range holds the mean in 3 of 4 cases, 1 - 2 / 2^3; 95 per cent are promised."""
    drawn = np.random.default_rng(1).normal(size=(400, 3))
    held = np.mean([found.low <= 0 <= found.high for found in map(mean_interval, drawn)])
    assert held == pytest.approx(0.95, abs=0.035)


def test_one_value_has_no_interval_and_equal_values_a_point() -> None:
    assert math.isnan(mean_interval([0.5]).low)
    assert (mean_interval([0.5] * 4).low, mean_interval([0.5] * 4).high) == (0.5, 0.5)


def test_weights_count_rows() -> None:
    found = mean_interval([1.0, 0.0], [300, 100])
    assert found.mean == pytest.approx(0.75)


def test_a_difference_is_paired() -> None:
    # Seeds differ by far more than the methods, but one is ahead by 0.01 or 0.02 in each of them.
    behind = {(seed, 0): 0.5 + 0.1 * seed for seed in range(5)}
    ahead = {(seed, 0): score + (0.01 if seed % 2 else 0.02) for (seed, _), score in behind.items()}
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
    ahead = {(n, "fold"): 0.5 + gap for n, gap in enumerate(gaps)}
    behind = {(n, "fold"): 0.5 for n in range(len(gaps))}
    ours = {(("seed", 0), client): (0.5 + gap, 100.0) for client, gap in clients.items()}
    found = difference(ahead, behind, ours, dict.fromkeys(ours, (0.5, 100.0)))
    assert found.is_one is is_one


@pytest.mark.parametrize(("seeds", "clients"), [(-0.1, 0.1), (0.1, -0.1), (-0.1, -0.1)])
def test_what_is_behind_is_not_ahead(seeds: float, clients: float) -> None:
    ahead = {(n, 0): seeds for n in range(5)}
    ours = {((0, 0), n): (clients, 100.0) for n in range(5)}
    found = difference(ahead, dict.fromkeys(ahead, 0.0), ours, dict.fromkeys(ours, (0.0, 100.0)))
    assert not found.is_one


def test_without_a_seed_in_common_there_is_no_difference() -> None:
    found = difference({(1, 0): 0.9}, {(2, 0): 0.1}, {}, {})
    assert found.seeds is None
    assert not found.is_one


def test_folds_of_a_seed_are_one_value() -> None:
    # Gaps 0.1 and 0.3 in the folds that both have of seed 0, 0.4 of seed 1: 0.2 and 0.4, and s^2 = 0.02.
    ahead = {(0, 0): 0.6, (0, 1): 0.8, (0, 2): 0.0, (1, 0): 0.9}
    found = difference(ahead, {(0, 0): 0.5, (0, 1): 0.5, (1, 0): 0.5}, {}, {})
    assert found.seeds is not None
    assert (found.seeds.n, found.seeds.mean) == (2, pytest.approx(0.3))
    assert found.seeds.half == pytest.approx(12.7062 * 0.1, rel=0.03)


def test_clients_are_compared_in_the_runs_that_both_methods_have() -> None:
    theirs = {("a", client): (0.5, 100.0) for client in range(3)}
    ours = {("a", client): (0.6, 100.0) for client in range(3)} | {("b", client): (0.1, 100.0) for client in range(3)}
    found = difference({}, {}, ours, theirs)
    assert found.clients is not None
    assert found.clients.mean == pytest.approx(0.1)
    assert difference({}, {}, ours, {("c", 0): (0.5, 100.0)}).clients is None
