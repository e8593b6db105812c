"""What a guarantee's numbers look like in print, and which deltas mean nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpforest.errors import DPForestError
from dpforest.ledger import Budget, Guarantee, Ledger, check_delta_for, rounded_up
from dpforest.mechanisms import DiscreteLaplaceCounts
from dpforest.noise import Seeded


@given(st.floats(1e-12, 1e12), st.integers(1, 8))
def test_a_printed_cost_never_claims_less_than_it_is(cost: float, digits: int) -> None:
    printed = float(rounded_up(cost, digits))
    assert cost * (1 - 1e-9) <= printed <= cost * (1 + 10 ** (1 - digits)) * (1 + 1e-9)


@given(st.integers(1, 9999), st.integers(-8, 8))
def test_a_number_of_few_digits_is_printed_as_it_is(whole: int, power: int) -> None:
    exact = float(f"{whole}e{power}")
    for value in (exact, math.nextafter(exact, math.inf), exact * (1 + 2e-10)):  # as sums of shares come out
        assert rounded_up(value, 4) == f"{exact:.4g}"


@pytest.mark.parametrize(
    ("cost", "printed"),
    [(1.00049, "1.001"), (1.0000000002, "1"), (0.1 + 0.2, "0.3"), (9.9999, "10"), (0.0, "0"), (math.inf, "inf")],
)
def test_printed_costs(cost: float, printed: str) -> None:
    assert rounded_up(cost, 4) == printed


def test_a_guarantee_is_not_printed_smaller_than_it_is() -> None:
    words = str(Guarantee(1.00049, 1.0000004e-6, "one record", "nobody"))
    assert words.startswith("epsilon = 1.001, delta = 1.00001e-06 for")
    ledger = Ledger(Budget(1.0))
    for share in (0.1, 0.2, 0.7):
        mechanism = DiscreteLaplaceCounts(share)
        mechanism.release(np.zeros(1, dtype=np.int64), mechanism.entry("n"), ledger, Seeded(0))
    assert str(ledger.guarantee()).startswith("epsilon = 1 (pure)")


@pytest.mark.parametrize(("delta", "records"), [(0.5, None), (1e-3, None), (5e-4, 2000), (1e-5, 120_000), (0.9, 1)])
def test_a_delta_that_publishes_records_is_refused(delta: float, records: int | None) -> None:
    with pytest.raises(DPForestError, match=rf"delta {delta:g} is not below .*records.*: set it well below"):
        check_delta_for(delta, records)


@pytest.mark.parametrize(("delta", "records"), [(0.0, None), (9e-4, None), (4e-4, 2000), (1e-6, 120_000), (0.0, 10**9)])
def test_a_small_delta_is_not(delta: float, records: int | None) -> None:
    check_delta_for(delta, records)
