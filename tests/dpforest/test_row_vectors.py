from __future__ import annotations

import math

import numpy as np
import pytest

from dpforest.mechanisms import squared_norm, whole_sum


@pytest.mark.parametrize("units", [1 << 10, 1 << 16])
@pytest.mark.parametrize("width", [1, 7, 3000])
def test_one_row_moves_a_sum_by_no_more_than_is_accounted_for(width: int, units: int) -> None:
    rng = np.random.default_rng(width)
    for clip in (1e-6, 0.3, 1e6):
        rows = rng.standard_normal((300, width))
        rows *= clip / np.linalg.norm(rows, axis=1, keepdims=True)
        for odd in (rows[0], np.full(width, clip / math.sqrt(width)), clip * np.eye(width)[0]):
            without = rows[1:].sum(axis=0)
            for total in (without, -odd / 2, np.zeros(width)):
                moved = whole_sum(total + odd, clip, units) - whole_sum(total, clip, units)
                assert int((moved**2).sum()) <= squared_norm(units, width)


def test_numbers_that_truncation_moves_apart_are_accounted_for() -> None:
    # Every coordinate crosses a whole number: the distance is longer than the row's vector.
    units, width = 1 << 10, 400
    step = 1 / math.sqrt(width)
    total = np.full(width, (math.ceil(units * step) - units * step + 1e-6) / units)
    moved = whole_sum(total + step, 1.0, units) - whole_sum(total, 1.0, units)
    assert units**2 < int((moved**2).sum()) <= squared_norm(units, width)


@pytest.mark.parametrize(("total", "expected"), [(math.nan, 0), (math.inf, 50), (-1e300, -50), (0.99, 9), (-0.99, -9)])
def test_any_float_becomes_a_whole_number_within_the_bound(total: float, expected: int) -> None:
    assert whole_sum(np.array([total]), 1.0, 10, largest=50).tolist() == [expected]


def test_a_bound_beyond_what_a_float_counts_exactly_is_one() -> None:
    assert whole_sum(np.array([1e300, 0.5]), 1.0, 10, largest=1 << 60).tolist() == [1 << 53, 5]
