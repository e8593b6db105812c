"""Noise of the shares adds up to what the sum needs."""

from __future__ import annotations

import numpy as np
import pytest

from dpforest.errors import DPForestError
from dpforest.noise import Seeded
from strategies.secure_aggregation import Terms
from strategies.secure_aggregation.noise_share import (
    divergence,
    least_share,
    noise_tail,
    share_sigma,
    with_shares,
)

TERMS = Terms(clients=18, rounds=1, largest_value=10**6, dropouts=3, colluders=3)


def discrete_gaussian(variance: float, reach: int) -> np.ndarray:
    """Probabilities of -reach .. reach."""
    z = np.arange(-reach, reach + 1)
    weights = np.exp(-(z**2) / (2 * variance))
    return weights / weights.sum()


def test_honest_clients_that_stay_add_up_to_the_noise_of_the_sum() -> None:
    share = share_sigma(60.0, TERMS)
    assert share == pytest.approx(60 / np.sqrt(12))
    noise = Seeded(1)
    total = sum(noise.discrete_gaussian(share, (20_000,)) for _ in range(12))
    assert np.std(total) == pytest.approx(60, rel=0.03)


@pytest.mark.parametrize("share", [0.5, 0.6, 0.8, 1.0])
@pytest.mark.parametrize("shares", [2, 3, 5])
def test_divergence_bounds_the_ratio_of_convolved_probabilities(share: float, shares: int) -> None:
    """Against the sum's distribution itself, by convolution."""
    reach = 40
    one = discrete_gaussian(share**2, reach)
    exact = one
    for _ in range(shares - 1):
        exact = np.convolve(exact, one)
    near = discrete_gaussian(shares * share**2, reach * shares)
    seen = near > 1e-10
    worst = np.abs(np.log(exact[seen] / near[seen])).max()
    assert worst <= divergence(share, shares)
    if share == 0.5:
        assert worst > 1e-3  # the bound is about something


def test_divergence_by_hand() -> None:
    # n = 2, s = 1/2: 10 exp(-2 pi^2 / 4 / 2) = 10 exp(-pi^2 / 4) = 0.8480
    assert divergence(0.5, 2) == pytest.approx(0.84805, rel=1e-4)
    assert divergence(0.5, 1) == 0
    with pytest.raises(DPForestError, match=r"below 0\.5"):
        divergence(0.49, 2)


def test_shares_of_three_cost_nothing() -> None:
    epsilon, delta = with_shares(1.0, 1e-6, 3.0, TERMS, numbers=10**9)
    assert epsilon == 1.0
    assert delta == 1e-6


@pytest.mark.parametrize("extra", [1e-3, 1e-9, 1e-15])
def test_least_share_keeps_the_extra_cost(extra: float) -> None:
    least = least_share(extra, TERMS, numbers=10**8)
    assert least < 3
    assert 2 * 10**8 * divergence(least, TERMS.clients) <= extra


def test_tail_is_wide_enough() -> None:
    share, draws, failure = 1.5, 10, 1e-3
    tail = noise_tail(share, draws, failure)
    beyond = 1 - discrete_gaussian(share**2, 60)[60 - tail : 60 + tail + 1].sum()
    assert draws * beyond <= failure
