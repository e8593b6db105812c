"""What the ledger adds up, refuses and says."""

import json
import math
from dataclasses import replace

import pytest
from dp_accounting.pld import common, privacy_loss_distribution
from hypothesis import given
from hypothesis import strategies as st

from dpforest.errors import BudgetExceeded, DPForestError
from dpforest.ledger import ALL_ROWS, Budget, Entry, Ledger, epsilon_of_gaussian, gaussian_mu, not_covered, rows_slice
from dpforest.ledger.accounting import total_epsilon
from dpforest.mechanisms import DiscreteGaussianSums, DiscreteLaplaceCounts, Selection

DELTA = 1e-6
costs = st.floats(1e-3, 5.0)
rows = st.one_of(st.just(ALL_ROWS), st.builds(rows_slice, st.sampled_from("fg"), st.integers(0, 2)))
pure_entries = st.lists(
    st.builds(Entry, st.text(max_size=5), st.just("m"), epsilon=costs, times=st.integers(1, 4), rows=rows),
    max_size=12,
)
gaussian_entries = st.lists(
    st.builds(Entry, st.just("g"), st.just("m"), mu=st.floats(1e-3, 2.0), times=st.integers(1, 4), rows=rows),
    min_size=1,
    max_size=8,
)


def entry(epsilon=0.0, **more):
    return Entry("x", "m", epsilon=epsilon, **more)


def worst_path(entries, cost):
    """Sum over all rows, plus the worst part of every family: spelled out without the library's code."""
    total = sum(cost(e) for e in entries if e.rows == ALL_ROWS)
    for family in ("f", "g"):
        parts = [[e for e in entries if e.rows == f"{family}/{part}"] for part in range(3)]
        total += max(sum(cost(e) for e in part) for part in parts)
    return total


@given(pure_entries)
def test_pure_costs_add_up_and_disjoint_parts_count_once(entries):
    assert total_epsilon(entries, 0.0) == pytest.approx(worst_path(entries, lambda e: e.epsilon * e.times))


@given(gaussian_entries)
def test_gaussian_costs_add_up_in_squares(entries):
    mu = math.sqrt(worst_path(entries, lambda e: e.mu**2 * e.times))
    assert total_epsilon(entries, DELTA) == pytest.approx(epsilon_of_gaussian(mu, DELTA), rel=1e-6)


@given(pure_entries, st.randoms(use_true_random=False))
def test_the_order_of_releases_does_not_matter(entries, random):
    shuffled = random.sample(entries, len(entries))
    assert total_epsilon(shuffled, 0.0) == pytest.approx(total_epsilon(entries, 0.0))


def test_parts_of_one_family_at_once_and_families_one_after_another():
    slices = [entry(0.5, rows=rows_slice("3 slices", part)) for part in range(3)]
    assert total_epsilon(slices, 0.0) == 0.5
    assert total_epsilon([*slices, entry(0.25, rows=rows_slice("other", 0)), entry(1.0, times=2)], 0.0) == 2.75


@pytest.mark.parametrize(("epsilon", "mu"), [(0.1, 0.02754), (1.0, 0.23670), (10.0, 1.8481)])
def test_gaussian_noise_as_in_the_published_table(epsilon, mu):
    """mu at delta = 1e-6, from the first trials' table (RESEARCH.md, section 2)."""
    assert gaussian_mu(epsilon, DELTA) == pytest.approx(mu, rel=2e-4)
    assert epsilon_of_gaussian(gaussian_mu(epsilon, DELTA), DELTA) == pytest.approx(epsilon)


@pytest.mark.parametrize(("mu", "delta"), [(0.05, 1e-5), (0.3, 1e-6), (1.0, 1e-8), (1.8481, 1e-6)])
def test_gaussian_noise_as_by_dp_accounting(mu, delta):
    accountant = privacy_loss_distribution.from_gaussian_mechanism(1 / mu, value_discretization_interval=1e-3)
    assert epsilon_of_gaussian(mu, delta) == pytest.approx(accountant.get_epsilon_for_delta(delta), abs=1e-4)


def test_gaussian_extremes():
    assert epsilon_of_gaussian(0.0, DELTA) == 0.0
    assert epsilon_of_gaussian(1e-9, DELTA) == 0.0, "less than delta is lost with certainty"
    assert epsilon_of_gaussian(math.inf, DELTA) == math.inf
    assert gaussian_mu(math.inf, DELTA) == math.inf


def test_pure_and_gaussian_releases_together():
    """Between the worse of the two alone and the sum of both (basic composition, Dwork and Roth 2014, theorem 3.16)."""
    together = total_epsilon([entry(0.5), entry(mu=0.2, times=2)], DELTA)
    gaussian = epsilon_of_gaussian(math.sqrt(0.08), DELTA)
    assert max(0.5, gaussian) < together < 0.5 + gaussian + 1e-3
    randomized = privacy_loss_distribution.from_privacy_parameters(common.DifferentialPrivacyParameters(0.5, 0.0))
    normal = privacy_loss_distribution.from_gaussian_mechanism(1 / math.sqrt(0.08))
    assert together == pytest.approx(randomized.compose(normal).get_epsilon_for_delta(DELTA), abs=1e-6)


def test_many_pure_releases_cost_less_where_a_delta_is_allowed():
    many = [entry(0.01, times=400)]
    assert total_epsilon(many, 0.0) == pytest.approx(4.0)
    assert total_epsilon(many, DELTA) < 1.2
    assert total_epsilon([entry(0.7)], DELTA) == 0.7


def test_a_part_with_the_larger_sum_does_not_hide_a_part_with_the_larger_loss():
    """One release at 1 loses 1 at any delta; a hundred at 0.0101 sum to more but lose about 0.4 at 1e-6."""
    one, hundred = entry(1.0, rows="f/0"), entry(0.0101, times=100, rows="f/1")
    assert total_epsilon([hundred], DELTA) < 0.5
    assert total_epsilon([one, hundred], DELTA) >= 1.0


def test_pure_privacy_takes_no_gaussian_noise():
    with pytest.raises(DPForestError, match=r"delta 0.* must lie between 0 and 1"):
        Ledger(Budget(1.0)).charge(entry(mu=0.1))


def test_what_exceeds_the_budget_is_refused_and_not_written():
    ledger = Ledger(Budget(1.0))
    ledger.charge(entry(0.7))
    with pytest.raises(BudgetExceeded, match=r"epsilon to 1\.1, the budget is 1"):
        ledger.charge(entry(0.4))
    with pytest.raises(BudgetExceeded):
        ledger.require(entry(0.1) for _ in range(4))
    ledger.require([entry(0.3)])
    assert [e.epsilon for e in ledger.entries] == [0.7], "asking costs nothing"
    ledger.charge(entry(0.3))
    assert ledger.guarantee().epsilon == pytest.approx(1.0)


def test_a_gaussian_budget_is_kept_too():
    ledger = Ledger(Budget(1.0, DELTA))
    mu = gaussian_mu(1.0, DELTA)
    for _ in range(4):
        ledger.charge(entry(mu=mu / 2))
    with pytest.raises(BudgetExceeded):
        ledger.charge(entry(mu=0.02))


@given(st.integers(2, 300), st.floats(1e-3, 1e3))
def test_equal_shares_fill_a_budget_to_the_end(parts, epsilon):
    ledger = Ledger(Budget(epsilon))
    ledger.charge(entry(epsilon / parts))
    ledger.require([entry(epsilon / parts)] * (parts - 1))
    with pytest.raises(BudgetExceeded):
        ledger.require([entry(epsilon / parts)] * parts)


def test_anything_unprotected_leaves_no_guarantee():
    ledger = Ledger(Budget(1.0))
    ledger.charge(entry(0.5))
    assert ledger.guarantee().holds
    assert str(ledger.guarantee()) == (
        "epsilon = 0.5 (pure) for one record added to or removed from one client's training rows; "
        "nobody but the data owner is trusted"
    )
    ledger.unprotected("number of rows", "sent in clear")
    ledger.charge(entry(0.5))
    guarantee = ledger.guarantee()
    assert not guarantee.holds
    assert guarantee.epsilon == math.inf
    assert str(guarantee) == "guarantee: none (number of rows)"
    assert ledger.entries[1].note == "sent in clear"


def test_no_noise_is_no_guarantee():
    ledger = Ledger(Budget(math.inf))
    ledger.charge(entry(math.inf))
    assert not ledger.guarantee().holds
    assert "nothing is noised" in str(ledger.guarantee())


@given(pure_entries, st.booleans())
def test_a_ledger_survives_json(entries, leaks):
    ledger = Ledger(Budget(1e6), unit="one subject", trust="the server")
    for e in entries:
        ledger.charge(e)
    if leaks:
        ledger.unprotected("bounds", "read off the data")
    plain = json.loads(json.dumps(ledger.to_dict(), allow_nan=False))
    again = Ledger.from_dict(plain)
    assert again.entries == ledger.entries
    assert (again.budget, again.unit, again.trust) == (ledger.budget, "one subject", "the server")


def test_a_ledger_without_privacy_survives_json():
    ledger = Ledger(Budget(math.inf))
    ledger.charge(entry(math.inf))
    again = Ledger.from_dict(json.loads(json.dumps(ledger.to_dict(), allow_nan=False)))
    assert again.budget.epsilon == math.inf
    assert again.entries == ledger.entries


def test_the_cost_of_a_release_follows_from_its_sensitivity_and_the_scale_of_its_noise():
    for mechanism in (DiscreteLaplaceCounts(0.4, 3), Selection(0.4, 60), Selection(0.4, 60, "exponential")):
        line = mechanism.entry("x")
        assert line.sensitivity / line.scale == pytest.approx(line.epsilon)
    line = DiscreteGaussianSums.for_mu(0.05, squared_sensitivity=16).entry("x")
    assert line.sensitivity / line.scale == pytest.approx(line.mu, rel=1e-3)
    assert DiscreteLaplaceCounts(math.inf).entry("x").scale == Selection(math.inf, 60).entry("x").scale == 0


def test_ledgers_from_before_there_were_scales_are_read():
    plain = Ledger(Budget(2.0)).to_dict()
    line = entry(1.0).to_dict()
    del line["sensitivity"], line["scale"]
    assert Ledger.from_dict(plain | {"entries": [line]}).entries == (entry(1.0),)


def test_totals_in_a_file_are_not_believed():
    ledger = Ledger(Budget(2.0))
    ledger.charge(entry(2.0))
    plain = ledger.to_dict() | {"epsilon": 0.001, "guarantee": "epsilon = 0.001"}
    assert Ledger.from_dict(plain).guarantee().epsilon == 2.0


@pytest.mark.parametrize(
    "change",
    [
        {"budget": None},
        {"budget": {"epsilon": -1, "delta": 0}},
        {"entries": [{}]},
        {"entries": [entry(1.0).to_dict() | {"epsilon": "much"}]},
        {"entries": [entry(1.0).to_dict() | {"epsilon": True}]},
        {"entries": [entry(1.0).to_dict() | {"epsilon": float("nan")}]},
        {"entries": [entry(1.0).to_dict() | {"what": 7}]},
        {"entries": [entry(1.0).to_dict() | {"times": 0}]},
        {"entries": [entry(1.0).to_dict() | {"scale": "inf"}]},
        {"entries": [entry(1.0).to_dict() | {"sensitivity": -1.0}]},
        {"entries": 5},
    ],
)
def test_damaged_ledgers_are_refused(change):
    with pytest.raises(DPForestError):
        Ledger.from_dict(Ledger(Budget(1.0)).to_dict() | change)


@pytest.mark.parametrize("epsilon", [0, -1.0, math.nan, "1", None, True])
def test_budgets_must_be_positive(epsilon):
    with pytest.raises(DPForestError, match=r"epsilon .* must be"):
        Budget(epsilon)


@pytest.mark.parametrize("delta", ["1e-6", None, True])
def test_deltas_must_be_numbers(delta):
    with pytest.raises(DPForestError, match=r"delta .* must be a number"):
        Budget(1.0, delta)


@pytest.mark.parametrize("delta", [-1e-6, 1.0, 2.0, math.nan])
def test_deltas_must_be_below_one(delta):
    with pytest.raises(DPForestError, match=r"delta .* must lie between 0 and 1"):
        Budget(1.0, delta)


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": -1.0},
        {"epsilon": math.nan},
        {"epsilon": 1.0, "mu": 1.0},
        {"epsilon": 1.0, "times": 0},
        {"epsilon": 0.0},
        {"epsilon": 1.0, "rows": "some"},
    ],
)
def test_entries_that_mean_nothing_are_refused(wrong):
    with pytest.raises(DPForestError, match="ledger entry 'x'"):
        Entry("x", "m", **wrong)


def gaussian(mu, sampling=1.0, times=1, **options):
    return Entry("x", "m", mu=mu, sampling=sampling, times=times, **options)


@pytest.mark.parametrize(
    "entries",
    [
        [gaussian(20.0, 0.5, 10**6)],
        [gaussian(19.0, 1e-4, 10)],
        [gaussian(1e-9, 0.5, 10**9)],
        [gaussian(1e-5, 1e-6, 10**9)],
        [gaussian(1.0, 0.01, 10**9)],
        [gaussian(1 + i / 100, 0.01, 10) for i in range(200)],
        [entry(0.5, times=100), entry(1.0, times=10**9), gaussian(1.0, 0.1)],
        [entry(50.0, times=1000)],
        [entry(1e4), entry(2e4)],
        [entry(0.001 * i) for i in range(1, 400)],
    ],
    ids=lambda entries: f"{len(entries)} lines of {entries[0].mu or entries[0].epsilon:g} x {entries[0].times}",
)
def test_numbers_that_would_keep_the_accountant_busy_get_a_bound(entries):
    """Not more than without amplification, and never nothing; each took minutes, or more memory than there is."""
    pure = sum(e.epsilon * e.times for e in entries)
    mu = math.sqrt(sum(e.mu**2 * e.times for e in entries))
    total = total_epsilon(entries, DELTA)
    assert 0 < total <= (pure + epsilon_of_gaussian(mu, DELTA)) * (1 + 1e-6)
    assert total >= max(total_epsilon([replace(e, times=1)], DELTA) for e in entries[:3]) * 0.999


@pytest.mark.parametrize("times", [0, -1, 10**9 + 1, 10**400, 1.5, True, math.inf, "2"])
def test_times_are_a_whole_number_that_can_be_summed(times):
    with pytest.raises(DPForestError, match="times must be a whole number from 1 to 1,000,000,000"):
        entry(1.0, times=times)


def test_what_is_covered_is_counted_release_by_release():
    plan = [entry(0.5, times=3), entry(mu=0.2, times=2), entry(0.5, rows="2 slices/0")]
    assert not_covered([entry(0.5, times=2), entry(0.5 * (1 + 1e-14)), entry(mu=0.2)], plan) == []
    assert not_covered([], plan) == []
    assert not_covered([entry(0.5, times=5)], plan) == [entry(0.5, times=2)]
    assert not_covered([entry(0.5), entry(0.5, times=3)], plan) == [entry(0.5, times=1)]
    for other in (entry(0.51), entry(mu=0.21), entry(0.5, rows="2 slices/1"), replace(entry(0.5), mechanism="n")):
        assert not_covered([other], plan) == [other]
    # Notes and sensitivities are words.
    assert not_covered([replace(entry(0.5), note="mine", sensitivity=3.0, scale=9.0)], plan) == []
