"""The likelihoods that the best test rests on: held against the samplers themselves."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpforest.audit.likelihood import divergence, log_ratio
from dpforest.ledger import Budget, Ledger
from dpforest.mechanisms import DiscreteGaussianSums, DiscreteLaplaceCounts, GaussianSums, Mechanism, Paid, Selection
from dpforest.noise import Seeded

N = 40_000
SCORES = np.array([40, 0, 90, 100, 20] + [3] * 20)
RAISED = SCORES + np.array([0, 100, 30, 0, 100] + [0] * 20)
CASES = {
    "Laplace": (DiscreteLaplaceCounts(0.7), np.array([3, 4]), np.array([2, 4])),
    "Gaussian": (DiscreteGaussianSums.for_mu(1.0, 50**2), np.array([40, 7]), np.array([10, 47])),
    "real": (GaussianSums(1.0, 1.3), np.array([0.6, 0.8]), np.zeros(2)),
    "permute and flip": (Selection(1.0, 100), RAISED[None], SCORES[None]),
    "exponential": (Selection(1.0, 100, "exponential"), RAISED[None], SCORES[None]),
}


def paid(mechanism: Mechanism, times: int) -> Paid:
    return mechanism.charge(mechanism.entry("tried", times=times), Ledger(Budget(math.inf, 1e-5)))


@pytest.mark.parametrize("name", CASES)
def test_ratios_of_likelihoods_are_those_of_the_sampler_on_average(name: str) -> None:
    mechanism, inside, outside = CASES[name]
    noise, draws = Seeded(0), N // 10 if name == "permute and flip" else N
    release = paid(mechanism, draws)
    ratios = np.array([log_ratio(mechanism, release.draw(outside, noise), inside, outside) for _ in range(draws)])
    error = np.exp(ratios).std() / math.sqrt(draws)
    assert abs(np.exp(ratios).mean() - 1) < 5 * error
    # Weighted by its likelihood ratio, what came out without the record stands for what comes out with it.
    shown = ratios * np.expm1(ratios)
    assert abs(shown.mean() - divergence(mechanism, inside, outside)) < 5 * shown.std() / math.sqrt(draws)
    if mechanism.cost.epsilon:
        assert np.abs(ratios).max() <= mechanism.cost.epsilon * (1 + 1e-6)


@pytest.mark.parametrize("kind", ["permute_and_flip", "exponential"])
def test_chances_of_a_choice_are_those_of_the_sampler(kind: str) -> None:
    mechanism = Selection(1.0, 100, kind)  # type: ignore[arg-type]
    release = paid(mechanism, 2 * N)
    picked = release.draw(np.tile(SCORES, (N, 1)), Seeded(1), N)
    raised = release.draw(np.tile(RAISED, (N, 1)), Seeded(2), N)
    for candidate in (1, 2, 3):
        counts = (raised == candidate).sum(), (picked == candidate).sum()
        said = log_ratio(mechanism, np.array([candidate]), RAISED[None], SCORES[None])
        assert said == pytest.approx(math.log(counts[0] / counts[1]), abs=5 * math.sqrt(sum(1 / c for c in counts)))


@pytest.mark.parametrize(
    "mechanism", [DiscreteLaplaceCounts(math.inf), DiscreteGaussianSums(0.0, 1), Selection(math.inf, 1)]
)
def test_without_noise_a_release_is_certain(mechanism: Mechanism) -> None:
    inside, outside = np.array([[0, 5]]), np.array([[5, 0]])
    for values, sign in ((inside, 1), (outside, -1)):
        assert sign * log_ratio(mechanism, paid(mechanism, 1).draw(values, Seeded(0)), inside, outside) > 100
    assert divergence(mechanism, inside, outside) > 100
    assert divergence(mechanism, inside, inside) == 0


def test_a_mechanism_of_somebody_else_is_known_by_closeness() -> None:
    class Theirs(Mechanism):
        cost = DiscreteLaplaceCounts(0.5).cost  # type: ignore[assignment]

        def _noised(self, values, noise):
            return values

    theirs = Theirs()  # type: ignore[abstract]
    assert log_ratio(theirs, np.array([3.0]), np.array([3.0]), np.array([1.0])) > 0
    assert divergence(theirs, np.array([3.0]), np.array([1.0])) > divergence(theirs, np.array([2.0]), np.array([1.0]))
