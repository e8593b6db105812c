"""Bounds by error rates: exact where statistics knows the answer, and below the truth but for the chance chosen."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom, binomtest, norm

from dpforest.audit import (
    CanaryScores,
    ErrorRates,
    Event,
    ReleaseFamily,
    clopper_pearson,
    needed_repetitions,
    one_run_epsilon,
)
from dpforest.errors import DPForestError
from dpforest.ledger import Entry, epsilon_of_gaussian, total_epsilon


@pytest.mark.parametrize("hits", [0, 1, 7, 99, 100])
def test_bounds_of_a_probability_are_those_of_clopper_and_pearson(hits: int) -> None:
    low, high = clopper_pearson(hits, 100, 0.025)
    exact = binomtest(hits, 100).proportion_ci(0.95, "exact")
    assert (low, high) == pytest.approx((exact.low, exact.high))


def test_an_event_and_its_complement_bound_epsilon_in_both_directions() -> None:
    rates = ErrorRates(hits=900, draws=1000, false_hits=100, false_draws=1000)
    assert 1.9 < rates.epsilon() < math.log(9)
    assert rates.swapped().epsilon() == pytest.approx(rates.epsilon())
    assert rates.epsilon(delta=0.5) < rates.epsilon(delta=0.1) < rates.epsilon()
    assert rates.epsilon(confidence=0.999999) < rates.epsilon(confidence=0.5)
    assert ErrorRates(10, 100, 90, 100).epsilon() == 0.0


@pytest.mark.parametrize(("rate", "false_rate"), [(0.8, 0.2), (0.3, 0.05), (0.999, 0.5), (0.5, 0.5), (0.02, 0.001)])
def test_both_rates_together_are_bounded_with_the_confidence_asked_for(rate: float, false_rate: float) -> None:
    """By the exact chances of all counts that there are."""
    n = 40
    chances = binom.pmf(np.arange(n + 1), n, rate)[:, None] * binom.pmf(np.arange(n + 1), n, false_rate)
    likely = [(hits, false) for hits, false in np.ndindex(chances.shape) if chances[hits, false] > 1e-9]
    wrong = {"epsilon": 0.0, "mu": 0.0}
    for hits, false in likely:
        rates = ErrorRates(hits, n, false, n)
        wrong["epsilon"] += chances[hits, false] * (rates.epsilon(confidence=0.9) > math.log(rate / false_rate))
        wrong["mu"] += chances[hits, false] * (rates.mu(0.9) > norm.ppf(rate) - norm.ppf(false_rate))
    assert max(wrong.values()) <= 0.1


def test_mu_of_a_gaussian_is_found_from_error_rates() -> None:
    n, mu, threshold = 10**6, 1.3, 0.4
    hits, false_hits = (round(n * norm.sf(threshold - mean)) for mean in (mu, 0.0))
    found = ErrorRates(hits, n, false_hits, n).mu()
    assert mu - 0.01 < found < mu


@pytest.mark.parametrize("sampling", [1.0, 0.2])
def test_the_family_of_gaussian_noise_stays_below_the_truth_and_comes_near(sampling: float) -> None:
    entries = [Entry("steps", "Gaussian", mu=0.7, times=8, sampling=sampling)]
    rng = np.random.default_rng(0)
    n = 20_000

    def scores(inside: bool) -> np.ndarray:
        taken = rng.random((n, 8)) < (sampling if inside else 0.0)
        drawn = rng.normal(size=(n, 8)) + 0.7 * taken
        ratios = 0.7 * drawn - 0.7**2 / 2
        return np.log1p(sampling * np.expm1(ratios)).sum(axis=1)

    family = ReleaseFamily(entries, 1e-6)
    rates = CanaryScores(scores(True), scores(False)).rates_of_best(family.worth)
    truth = total_epsilon(entries, 1e-6)
    assert 0.65 * truth < family.epsilon(rates) < truth
    half = [replace(entry, mu=entry.mu * 2) for entry in entries]
    assert ReleaseFamily(half, 1e-6).epsilon(rates) == pytest.approx(family.epsilon(rates), rel=0.02)


@pytest.mark.parametrize("halved", [1, 2])
def test_many_pure_releases_are_held_against_what_all_of_them_allow_together(halved: int) -> None:
    """No event that shows the worst of eight releases at once occurs often enough to be counted."""
    rng = np.random.default_rng(0)
    times, claim, n = 8, 1.0, 10_000
    entries = [Entry("counts", "Laplace", epsilon=claim / times, times=times)]

    def scores(inside: bool) -> np.ndarray:
        drawn = rng.laplace(scale=times / claim / halved, size=(n, times)) + inside
        return (np.abs(drawn) - np.abs(drawn - 1)).sum(axis=1)

    of_scores = CanaryScores(scores(True), scores(False))
    family = ReleaseFamily(entries, 0.0)
    found = family.epsilon(of_scores.rates_of_best(family.worth))
    assert 0.7 * claim * halved < found <= claim * halved
    assert of_scores.epsilon_lower_bound() < found


def test_one_run_is_the_binomial_of_randomised_response_and_pays_for_delta() -> None:
    # With epsilon log 3, three of four guesses are right on average: 750 prove less than it, 800 more.
    assert one_run_epsilon(750, 1000, 1000) < math.log(3) < one_run_epsilon(790, 1000, 1000)
    assert one_run_epsilon(790, 1000, 1000, delta=1e-3) < one_run_epsilon(790, 1000, 1000)
    assert one_run_epsilon(500, 1000, 1000) == 0.0
    assert one_run_epsilon(1000, 1000, 1000) == pytest.approx(-math.log(0.05 ** (-1 / 1000) - 1), rel=1e-3)
    with pytest.raises(DPForestError, match="11 correct of 10 guesses"):
        one_run_epsilon(11, 10, 10)


@pytest.mark.parametrize(("epsilon", "delta", "mu"), [(1.0, 0.0, 0.0), (4.0, 0.0, 0.0), (8.0, 1e-6, 1.35)])
def test_so_many_repetitions_can_refute_a_claim_and_one_less_cannot(epsilon: float, delta: float, mu: float) -> None:
    half, most = (needed_repetitions(epsilon, delta, mu=mu, every=every) for every in (2, 5))
    half //= 2

    def proved(n: int) -> float:
        clearest = ErrorRates(n, n, 0, n)
        return clearest.mu() - mu if mu else clearest.epsilon(delta) - epsilon

    assert proved(half) > 0 >= proved(half - 1)
    assert proved(len(np.delete(np.arange(most), np.s_[::5]))) > 0


@pytest.mark.parametrize("every", [2, 5])
def test_the_event_is_chosen_on_some_repetitions_and_counted_on_the_others(every: int) -> None:
    inside, outside = np.zeros(20), np.zeros(20)
    inside[::every] = 5.0  # only where it is chosen
    scores = CanaryScores(inside, outside, every=every)
    assert scores.event(ErrorRates.mu) == Event(5.0)
    counted = 20 - 20 // every
    assert scores.rates(Event(5.0)) == ErrorRates(0, counted, 0, counted)
    assert scores.epsilon_lower_bound() == scores.mu_lower_bound() == 0.0


def test_a_bound_is_above_the_truth_no_more_often_than_its_confidence_leaves() -> None:
    rng = np.random.default_rng(1)
    above = 0
    for _ in range(60):
        scores = CanaryScores(1 + rng.laplace(size=400), rng.laplace(size=400))
        above += scores.epsilon_lower_bound(confidence=0.5) > 1.0
    assert above <= 30


def test_scores_must_be_numbers_and_more_than_one() -> None:
    with pytest.raises(DPForestError, match="1 scores: give 2 numbers or more"):
        CanaryScores(np.zeros(1), np.zeros(5))
    with pytest.raises(DPForestError, match="give 2 numbers or more"):
        CanaryScores(np.array([0.0, np.nan]), np.zeros(5))
    assert CanaryScores(np.array([1.0, 2.0]), np.array([0.0, 1.0])).auroc() == pytest.approx(0.875)


def test_gaussian_bounds_agree_with_the_ledger() -> None:
    entries = [Entry("a", "Gaussian", mu=1.0), Entry("b", "Gaussian", mu=1.0)]
    rates = ErrorRates(600, 1000, 200, 1000)
    assert ReleaseFamily(entries, 1e-5).epsilon(rates) == epsilon_of_gaussian(rates.mu(), 1e-5)
