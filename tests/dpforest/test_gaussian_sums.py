"""Discrete Gaussian sums: what they cost, exactly and by the frequencies of outputs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_ndtr
from scipy.stats import beta

from dpforest.audit import HalvedNoise
from dpforest.errors import BudgetExceeded, DPForestError
from dpforest.ledger import Budget, Ledger, gaussian_mu
from dpforest.mechanisms import DiscreteGaussianSums
from dpforest.noise import Noise, Secure, Seeded

# Noise of one party in the runs of this project lies above 16; below 3 nothing is allowed.
SIGMAS = (3.01, 3.5, 5.0, 16.0, 60.0, 300.0)


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Of a continuous Gaussian release (Balle, Wang 2018, theorem 8), written out here."""
    return math.exp(log_ndtr(-epsilon / mu + mu / 2)) - math.exp(epsilon + log_ndtr(-epsilon / mu - mu / 2))


def probabilities(sigma: float) -> tuple[np.ndarray, np.ndarray]:
    support = np.arange(-math.ceil(40 * sigma) - 500, math.ceil(40 * sigma) + 501)
    weights = np.exp(-(support**2) / (2 * sigma**2))
    return support, weights / weights.sum()


def exact_delta(epsilon: float, sigma: float, shift: tuple[int, ...]) -> float:
    """max over events of P[x in E] - exp(epsilon) P[x + shift in E], for as many sums as the shift has entries."""
    support, p = probabilities(sigma)
    # The loss of one number at y is (shift^2 - 2 shift y) / (2 sigma^2), so only the sum of shift * y matters.
    total = sum(s * s for s in shift)
    moved, chance = np.zeros(1), np.ones(1)
    for s in shift:
        moved = (moved[:, None] + s * support[None, :]).ravel()
        chance = (chance[:, None] * p[None, :]).ravel()
        moved, where = np.unique(moved, return_inverse=True)
        chance = np.bincount(where, weights=chance)
    loss = (total - 2 * moved) / (2 * sigma**2)
    return float((chance * np.maximum(0.0, -np.expm1(np.minimum(epsilon - loss, 1.0)))).sum())


@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("sensitivity", [1, 3, 10, 60])
def test_no_epsilon_needs_more_delta_than_is_charged(sigma: float, sensitivity: int) -> None:
    mu = DiscreteGaussianSums(sigma, sensitivity**2).mu
    for epsilon in (0.0, 0.01, 0.1, 1.0, 3.0, 10.0):
        assert exact_delta(epsilon, sigma, (sensitivity,)) <= gaussian_delta(epsilon, mu) + 1e-13


@pytest.mark.parametrize("shift", [(3, 4), (5, 0), (4, 3), (1, 2, 2)])
def test_several_sums_cost_their_l2_norm(shift: tuple[int, ...]) -> None:
    mu = DiscreteGaussianSums(4.0, sum(s * s for s in shift)).mu
    for epsilon in (0.0, 0.1, 1.0, 5.0):
        exact = exact_delta(epsilon, 4.0, shift)
        assert exact <= gaussian_delta(epsilon, mu) + 1e-13
        if epsilon <= 1:
            # At noise as small as this, what is charged too much for certainty is the most.
            assert exact > 0.2 * gaussian_delta(epsilon, mu)


@given(st.floats(1e-3, 5.0), st.integers(1, 10**8), st.integers(1, 50))
def test_the_noise_for_a_cost_has_that_cost(mu: float, squared: int, shares: int) -> None:
    if math.sqrt((squared / mu**2 + 9) / shares) < 3:
        with pytest.raises(DPForestError, match="scale the values up"):
            DiscreteGaussianSums.for_mu(mu, squared, shares)
        return
    mechanism = DiscreteGaussianSums.for_mu(mu, squared, shares)
    assert mechanism.mu == pytest.approx(mu, rel=1e-6)
    assert mechanism.share * math.sqrt(shares) == pytest.approx(mechanism.sigma)
    assert mechanism.entry("x").mu == mechanism.mu


def certain_excess(a: np.ndarray, b: np.ndarray, epsilon: float) -> float:
    """A lower bound of delta: over "at least t", with Clopper-Pearson bounds that hold but for 1e-6."""
    best = -1.0
    for t in range(-40, 60, 2):
        hits, other = int((a >= t).sum()), int((b >= t).sum())
        low = beta.ppf(1e-8, hits, len(a) - hits + 1) if hits else 0.0
        high = beta.ppf(1 - 1e-8, other + 1, len(b) - other) if other < len(b) else 1.0
        best = max(best, low - math.exp(epsilon) * high)
    return best


def released(exact: int, mechanism: DiscreteGaussianSums, draws: int, noise: Noise) -> np.ndarray:
    budget = Ledger(Budget(50.0, 1e-6))
    return mechanism.release(np.full(draws, exact), mechanism.entry("x"), budget, noise)


# The last number says how near the check must come to the guarantee; the secure source has no seed and fewer draws.
@pytest.mark.parametrize(("source", "draws", "slack"), [("seeded", 200_000, 0.08), ("secure", 20_000, 0.12)])
def test_a_neighbour_is_no_easier_to_find_than_guaranteed(source: str, draws: int, slack: float) -> None:
    def excess(sensitivity: int, epsilon: float, halved: bool = False) -> float:
        drawn = []
        for seed, exact in enumerate((sensitivity, 0)):
            noise: Noise = Seeded(seed) if source == "seeded" else Secure()
            drawn.append(released(exact, mechanism, draws, HalvedNoise(noise) if halved else noise))
        return certain_excess(drawn[0], drawn[1], epsilon)

    mechanism = DiscreteGaussianSums.for_mu(1.0, 8**2)
    for epsilon in (0.0, 0.5, 1.0):
        promised = gaussian_delta(epsilon, 1.0)
        assert promised - slack < excess(8, epsilon) <= promised
        assert excess(8, epsilon, halved=True) > promised, "half the noise is found out"
        assert excess(16, epsilon) > promised, "and so is twice the sensitivity"


def test_shares_add_up_to_the_noise_of_the_sum() -> None:
    mechanism = DiscreteGaussianSums.for_mu(0.5, 100**2, shares=9)
    budget = Ledger(Budget(5.0, 1e-6))
    parts = [
        mechanism.release(np.zeros(40_000, np.int64), mechanism.entry("x"), Ledger(budget.budget), Seeded(party))
        for party in range(9)
    ]
    assert np.std(sum(parts)) == pytest.approx(mechanism.sigma, rel=0.02)
    assert np.std(parts[0]) == pytest.approx(mechanism.sigma / 3, rel=0.02)
    assert "noise of 9 parties" in mechanism.entry("x").note


@pytest.mark.parametrize("share", [0.5, 0.6, 0.8, 1.0])
@pytest.mark.parametrize("shares", [2, 3, 5])
def test_the_bound_on_sums_of_shares_holds(share: float, shares: int) -> None:
    """The module's tau against the sum's own distribution, by convolution: at 3 and above the two look the same."""
    support = np.arange(-40, 41)
    one = np.exp(-(support**2) / (2 * share**2))
    one /= one.sum()
    exact = one
    for _ in range(shares - 1):
        exact = np.convolve(exact, one)
    support = np.arange(-40 * shares, 40 * shares + 1)
    near = np.exp(-(support**2) / (2 * shares * share**2))
    near /= near.sum()
    seen = near > 1e-10
    worst = np.abs(np.log(exact[seen] / near[seen])).max()
    assert worst <= 10 * (shares - 1) * math.exp(-((math.pi * share) ** 2))
    if share == 0.5:
        assert worst > 1e-3, "the bound is about something"
    with pytest.raises(DPForestError, match="scale the values up"):
        DiscreteGaussianSums(share * math.sqrt(shares), 1, shares)


class _NoDraw(Seeded):
    def discrete_gaussian(self, sigma: float, shape: int | tuple[int, ...]) -> np.ndarray:
        raise AssertionError("drew noise after a refusal")


def test_a_release_over_budget_is_refused_before_it_happens() -> None:
    ledger = Ledger(Budget(1.0, 1e-6))
    mechanism = DiscreteGaussianSums.for_mu(gaussian_mu(1.1, 1e-6), 100)
    with pytest.raises(BudgetExceeded, match="budget is 1"):
        mechanism.release(np.arange(3), mechanism.entry("x"), ledger, _NoDraw(0))
    assert ledger.entries == ()


def test_without_privacy_nothing_is_noised() -> None:
    mechanism = DiscreteGaussianSums.for_mu(math.inf, 100, shares=5)
    ledger = Ledger(Budget(math.inf))
    assert mechanism.release(np.array([3, -4]), mechanism.entry("x"), ledger, _NoDraw(0)).tolist() == [3, -4]
    assert not ledger.guarantee().holds


def test_too_little_noise_for_the_proof_is_refused() -> None:
    with pytest.raises(DPForestError, match=r"noise of 2 a party is below 3: scale the values up"):
        DiscreteGaussianSums(6.0, 1, shares=9)
