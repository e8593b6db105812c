"""What noise exceeds with a small chance only: wide enough, and not much wider."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import dlaplace

from dpforest.mechanisms import DiscreteGaussianSums, DiscreteLaplaceCounts

MECHANISMS = [
    *(DiscreteGaussianSums(sigma, 1, shares) for sigma, shares in [(4.0, 1), (60.0, 1), (30.0, 4)]),
    *(DiscreteLaplaceCounts(epsilon) for epsilon in [0.02, 0.5, 3.0]),
]
NO_NOISE = [DiscreteGaussianSums(0.0, 1), DiscreteLaplaceCounts(np.inf)]


def probabilities(mechanism: DiscreteGaussianSums | DiscreteLaplaceCounts) -> np.ndarray:
    """Of one party's noise from -m to m."""
    if isinstance(mechanism, DiscreteLaplaceCounts):
        z = np.arange(-int(60 / mechanism.epsilon) - 60, int(60 / mechanism.epsilon) + 61)
        return np.asarray(dlaplace.pmf(z, mechanism.epsilon))
    z = np.arange(-int(15 * mechanism.share), int(15 * mechanism.share) + 1)
    weights = np.exp(-(z**2) / (2 * mechanism.share**2))
    return np.asarray(weights / weights.sum())


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
@pytest.mark.parametrize("draws", [1, 2, 16])
@pytest.mark.parametrize("chance", [1e-2, 1e-6])
def test_a_tail_is_wide_enough_and_not_much_wider(
    mechanism: DiscreteGaussianSums | DiscreteLaplaceCounts, draws: int, chance: float
) -> None:
    one = probabilities(mechanism)
    of_sum = one
    for _ in range(draws.bit_length() - 1):
        of_sum = np.convolve(of_sum, of_sum)
    distance = np.abs(np.arange(len(of_sum)) - len(of_sum) // 2)
    tail = mechanism.tail(chance, draws)
    assert of_sum[distance > tail].sum() <= chance
    assert of_sum[distance > tail / 2 - 1].sum() > chance


@pytest.mark.parametrize("mechanism", NO_NOISE, ids=repr)
def test_no_noise_has_no_tail(mechanism: DiscreteGaussianSums | DiscreteLaplaceCounts) -> None:
    assert mechanism.tail(1e-9, 5) == 0


def test_much_epsilon_has_a_tail() -> None:
    assert 0 <= DiscreteLaplaceCounts(1e9).tail(1e-9) < 1
