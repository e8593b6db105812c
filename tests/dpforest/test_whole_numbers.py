"""The one way from floats to the integers that mechanisms add up."""

import numpy as np
import pytest

from dpforest.mechanisms import whole_numbers

STRANGE = [np.nan, np.inf, -np.inf, 1.7e308, -1.7e308, 5e-324, -5e-324, -0.0, 2.0**63, -(2.0**63), 2.0**53, 0.5, 255.5]


@pytest.mark.parametrize("largest", [0, 1, 256, 4096, 2**53])
@pytest.mark.parametrize("towards_zero", [False, True])
def test_whatever_comes_in_stays_within_its_bound(largest: int, towards_zero: bool) -> None:
    rng = np.random.default_rng(0)
    anything = rng.integers(0, 2**64, 20_000, dtype=np.uint64).view(np.float64)  # every kind of float
    numbers = np.concatenate([STRANGE, anything])
    found = whole_numbers(numbers, largest, towards_zero)
    assert found.dtype == np.int64
    assert np.abs(found).max() <= largest
    fits = np.isfinite(numbers) & (np.abs(numbers) <= largest)
    expected = (np.trunc if towards_zero else np.rint)(numbers[fits])
    np.testing.assert_array_equal(found[fits], expected)
    assert (found[np.isnan(numbers)] == 0).all()
    np.testing.assert_array_equal(found[np.isinf(numbers)], np.sign(numbers[np.isinf(numbers)]) * largest)


def test_any_shape_and_type() -> None:
    assert whole_numbers(np.zeros((2, 0, 3)), 4).shape == (2, 0, 3)
    assert whole_numbers(np.array([[1.6], [-2.4]], dtype=np.float32)[::-1], 4).tolist() == [[-2], [2]]
    assert whole_numbers(np.array(2.5), 4).tolist() == 2
    with pytest.raises(ValueError, match="largest"):
        whole_numbers(np.zeros(1), 2**54)
