from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpforest.ledger import Budget, Ledger
from dpforest.mechanisms import GaussianSums
from dpforest.noise import Noise, Secure, Seeded

N = 20_000


class Deployed(Secure):
    """Takes the way of a deployment, with reproducible draws."""

    def __init__(self, seed: int) -> None:
        self._seeded = Seeded(seed)

    def discrete_gaussian(self, sigma: float, shape: int | tuple[int, ...]) -> np.ndarray:
        return self._seeded.discrete_gaussian(sigma, shape)


def released(mechanism: GaussianSums, total: np.ndarray, noise: Noise) -> np.ndarray:
    return mechanism.release(total, mechanism.entry("sum"), Ledger(Budget(math.inf, 1e-5)), noise)


def fits(noise: Noise, claimed: float, actual: float) -> bool:
    """Whether a chi-square test at 1e-6 takes noise of ``actual`` multiplier for noise of the claimed one."""
    drawn = released(GaussianSums(0.5, 1 / actual), np.zeros(N), noise)
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

    released(GaussianSums(2.0, 1 / 1.5), np.zeros(1_000_000), Recording(0))
    assert scales == [pytest.approx(1.5 * (2**20 + 2000))]


def test_deployed_sums_lie_on_the_grid_and_stay_near_the_truth() -> None:
    total = np.random.default_rng(0).standard_normal(100)
    noised = released(GaussianSums(1.0, 1e9), total, Deployed(0))
    assert noised * 2**20 == pytest.approx(np.rint(noised * 2**20), abs=1e-9)
    assert noised == pytest.approx(total, abs=16 * 2**-20)


def test_operating_system_noise_reaches_the_sum() -> None:
    first, second = (released(GaussianSums(1.0, 1.0), np.zeros(50), Secure()) for _ in range(2))
    assert not np.array_equal(first, second)
    assert 0.4 < first.std() < 2.0


def test_an_infinite_mu_adds_no_noise() -> None:
    assert released(GaussianSums(1.0, math.inf), np.arange(3.0), Seeded(0)).tolist() == [0, 1, 2]


def found_out(noise: Noise, apart: float) -> float:
    """A bound of mu, from below and with confidence, of the sums of neighbours that are ``apart`` in one coordinate."""
    mechanism = GaussianSums(0.5, 1.0)
    one, other = (released(mechanism, np.full(N, total), noise) for total in (0.0, apart))
    # Who guesses by a threshold in the middle is right with Phi(mu / 2) at most.
    right = int((one < apart / 2).sum() + (other >= apart / 2).sum())
    return float(2 * stats.norm.ppf(stats.beta.ppf(1e-6, right, 2 * N - right + 1)))


@pytest.mark.parametrize("noise", [Seeded(1), Deployed(1)], ids=["simulation", "deployment"])
def test_neighbouring_sums_are_as_hard_to_tell_apart_as_the_ledger_says(noise: Noise) -> None:
    assert 0.9 < found_out(noise, 0.5) <= 1.0
    assert found_out(HalvedNoise(noise), 0.5) > 1.0
    assert found_out(noise, 1.0) > 1.0, "neighbours further apart need more noise"


class HalvedNoise(Deployed):
    """Half of what a source draws, in the way of that source."""

    def __new__(cls, source: Noise) -> Noise:  # type: ignore[misc]
        return _HalvedSeeded(3) if isinstance(source, Seeded) else super().__new__(cls)

    def __init__(self, source: Noise) -> None:
        super().__init__(3)

    def discrete_gaussian(self, sigma: float, shape: int | tuple[int, ...]) -> np.ndarray:
        return super().discrete_gaussian(sigma, shape) // 2


class _HalvedSeeded(Seeded):
    def generator(self) -> np.random.Generator:
        normal = super().generator()

        class Halved:
            def standard_normal(self, *args: Any, **options: Any) -> np.ndarray:
                return normal.standard_normal(*args, **options) / 2

        return Halved()  # type: ignore[return-value]
