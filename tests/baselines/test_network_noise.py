from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from baselines.mlp.gaussian import GaussianSum
from dpforest.noise import Noise, Secure, Seeded

N = 20_000


class Deployed(Secure):
    """Takes the way of a deployment, with reproducible draws."""

    def __init__(self, seed: int) -> None:
        self._seeded = Seeded(seed)

    def discrete_gaussian(self, sigma: float, shape: int | tuple[int, ...]) -> np.ndarray:
        return self._seeded.discrete_gaussian(sigma, shape)


def fits(noise: Noise, claimed: float, actual: float) -> bool:
    """Whether a chi-square test at 1e-6 takes noise of ``actual`` multiplier for noise of the claimed one."""
    drawn = GaussianSum(0.5, actual).release(np.zeros(N), noise)
    low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], N)
    return bool(low < np.sum((drawn / (0.5 * claimed)) ** 2) < high)


@pytest.mark.parametrize("noise", [Seeded(1), Deployed(1)], ids=["simulation", "deployment"])
def test_noise_has_the_scale_that_is_accounted_and_half_of_it_would_be_noticed(noise: Noise) -> None:
    assert fits(noise, 1.3, 1.3)
    assert not fits(noise, 1.3, 0.65)


def test_deployed_noise_covers_the_rounding_to_the_grid() -> None:
    # Many coordinates: rounding, and rounding while adding up, can each move neighbours sqrt(d) grid steps further
    # apart, which the noise must cover.
    scales = []

    class Recording(Deployed):
        def discrete_gaussian(self, sigma: float, shape: int | tuple[int, ...]) -> np.ndarray:
            scales.append(sigma)
            return np.zeros(shape, dtype=np.int64)

    GaussianSum(2.0, 1.5).release(np.zeros(1_000_000), Recording(0))
    assert scales == [pytest.approx(1.5 * (2**20 + 2000))]


def test_deployed_sums_lie_on_the_grid_and_stay_near_the_truth() -> None:
    total = np.random.default_rng(0).standard_normal(100)
    released = GaussianSum(1.0, 1e-9).release(total, Deployed(0))
    assert released * 2**20 == pytest.approx(np.rint(released * 2**20), abs=1e-9)
    assert released == pytest.approx(total, abs=2**-20)


def test_operating_system_noise_reaches_the_sum() -> None:
    first, second = (GaussianSum(1.0, 1.0).release(np.zeros(50), Secure()) for _ in range(2))
    assert not np.array_equal(first, second)
    assert 0.4 < first.std() < 2.0


def test_no_multiplier_no_noise() -> None:
    assert GaussianSum(1.0, 0.0).release(np.arange(3.0), Seeded(0)).tolist() == [0, 1, 2]
