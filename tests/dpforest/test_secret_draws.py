"""Samples whose secrecy a proof needs: seeded in simulations, cryptographic elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dpforest.noise import Noise, Secure, Seeded

SOURCES = [Secure(), Seeded(0)]


@pytest.mark.parametrize("noise", SOURCES, ids=["secure", "seeded"])
@pytest.mark.parametrize("probability", [1e-5, 0.01, 0.3, 0.5, 0.999])
def test_bernoulli_draws_have_their_probability(noise: Noise, probability: float) -> None:
    size = 1_000_000
    drawn = noise.bernoulli(probability, size)
    assert drawn.dtype == bool
    assert drawn.shape == (size,)
    assert stats.binomtest(int(drawn.sum()), size, probability).pvalue > 1e-9
    if probability >= 0.01:
        wrong = min(2 * probability, (1 + probability) / 2)
        assert stats.binomtest(int(drawn.sum()), size, wrong).pvalue < 1e-9, "the test sees another probability"


@pytest.mark.parametrize("noise", SOURCES, ids=["secure", "seeded"])
def test_bernoulli_draws_are_independent(noise: Noise) -> None:
    drawn = noise.bernoulli(0.3, 400_000).astype(int)
    pairs = np.bincount(2 * drawn[::2] + drawn[1::2], minlength=4)
    assert stats.chisquare(pairs, 200_000 * np.array([0.49, 0.21, 0.21, 0.09])).pvalue > 1e-9


@pytest.mark.parametrize("noise", SOURCES, ids=["secure", "seeded"])
def test_bernoulli_draws_at_the_ends(noise: Noise) -> None:
    assert noise.bernoulli(1.0, 1000).all()
    assert not noise.bernoulli(0.0, 1000).any()
    assert noise.bernoulli(0.5, 0).shape == (0,)


@pytest.mark.parametrize("noise", SOURCES, ids=["secure", "seeded"])
def test_samples_hold_every_set_equally_often(noise: Noise) -> None:
    counts: dict[tuple[int, ...], int] = {}
    for _ in range(20_000):
        chosen = tuple(sorted(noise.sample(5, 2).tolist()))
        counts[chosen] = counts.get(chosen, 0) + 1
    assert len(counts) == 10, "numbers differ, and each set is drawn"
    assert stats.chisquare(list(counts.values())).pvalue > 1e-9


def test_secret_draws_come_from_no_generator_that_could_be_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def known(*arguments: object) -> np.random.Generator:
        raise AssertionError("a generator that can be replayed was asked")

    monkeypatch.setattr(np.random, "default_rng", known)
    first, second = Secure(), Secure()
    assert not np.array_equal(first.bernoulli(0.5, 200), second.bernoulli(0.5, 200))
    assert not np.array_equal(first.sample(1000, 20), second.sample(1000, 20))


def test_a_simulation_draws_as_its_seed_says() -> None:
    expected = np.random.default_rng(3)
    noise = Seeded(3)
    assert np.array_equal(noise.bernoulli(0.25, 100), expected.random(100) < 0.25)
    assert np.array_equal(noise.sample(50, 7), expected.choice(50, 7, replace=False))
