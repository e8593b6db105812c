"""Anybody's mechanism: honest ones are not refuted, broken ones are, and what could not have been seen is said."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

from dpforest.audit import AuditResult, Claim, ErrorRates, audit, audit_estimator, audit_one_run
from dpforest.errors import DPForestError
from dpforest.ledger import epsilon_of_gaussian
from dpforest.noise import Noise

NOBODY, RECORD = np.empty((0, 1)), np.ones(1)
SURE = 1 - 1e-6


def counts(rows: np.ndarray, noise: Noise) -> dict[str, Any]:
    """Private at epsilon 1, with a field that says nothing."""
    return {"count": len(rows) + noise.discrete_laplace(1.0, 1), "version": 3}


def twice(rows: np.ndarray, noise: Noise) -> list[np.ndarray]:
    """Pays once and releases twice."""
    return [len(rows) + noise.discrete_laplace(1.0, 1) for _ in range(2)]


def largest(rows: np.ndarray, noise: Noise) -> dict[str, Any]:
    """Noises the count, and shows the largest value."""
    return {"count": len(rows) + noise.discrete_laplace(1.0, 1), "largest": rows.max(initial=0.0)}


def shared(rows: np.ndarray, noise: Noise) -> np.ndarray:
    """Draws the noise once for both of two numbers."""
    return np.array([len(rows), 0]) + noise.discrete_laplace(1.0, 1)


def test_an_honest_function_is_not_refuted_and_half_its_noise_is() -> None:
    found = audit(counts, NOBODY, RECORD, Claim(1.0), repetitions=4000, confidence=SURE)
    assert not found.violated
    assert found.has_power
    assert "caught" in str(found)


def test_a_field_that_shows_rows_is_found_by_a_test_that_is_learned() -> None:
    found = audit(largest, NOBODY, RECORD, Claim(1.0), repetitions=1000, confidence=SURE, half_noise=False)
    assert found.violated
    assert "largest" in found.found.by
    assert found.found.epsilon > 2


def test_what_is_paid_once_and_released_twice_is_found_by_a_score() -> None:
    found = audit(twice, NOBODY, RECORD, Claim(1.0), score=lambda message: float(np.min(message)),
                  repetitions=4000, confidence=SURE, half_noise=False)  # fmt: skip
    assert found.violated
    assert found.found.epsilon < 2


def test_a_score_of_ones_own_sees_what_needs_a_thought() -> None:
    found = audit(shared, NOBODY, RECORD, Claim(1.0), score=lambda m: float(m[0] - m[1]), repetitions=400,
                  confidence=SURE, half_noise=False)  # fmt: skip
    assert found.violated
    assert found.found.rates == ErrorRates(160, 160, 0, 160)


def test_gaussian_noise_is_bounded_by_mu_with_few_repetitions() -> None:
    claim = Claim(epsilon_of_gaussian(1.0, 1e-6), 1e-6)

    def sums(rows: np.ndarray, noise: Noise) -> np.ndarray:
        return 100 * len(rows) + noise.discrete_gaussian(100.0, 1)

    found = audit(sums, NOBODY, RECORD, claim, gaussian=True, repetitions=3000, confidence=SURE)
    assert not found.violated
    assert found.has_power
    assert 0.5 < found.found.mu < 1.0


def test_cryptographic_noise_is_audited_too() -> None:
    found = audit(counts, NOBODY, RECORD, Claim(3.0), repetitions=600, confidence=0.99, seed=None, half_noise=False)
    assert not found.violated


def test_too_few_repetitions_say_how_many_are_needed() -> None:
    with pytest.raises(
        DPForestError, match=r"40 repetitions are too few to refute epsilon 5 .* give (\d+) or more"
    ) as e:
        audit(counts, NOBODY, RECORD, Claim(5.0), repetitions=40)
    needed = int(str(e.value).split("give ")[1].split()[0])
    assert audit(largest, NOBODY, RECORD, Claim(5.0), repetitions=needed, half_noise=False).violated


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"confidence": 1.5}, "confidence 1.5 must lie between 0 and 1"),
        ({"gaussian": True}, "Gaussian noise has no pure epsilon"),
    ],
)
def test_bad_values_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(DPForestError, match=message):
        audit(counts, NOBODY, RECORD, Claim(1.0), **options)
    with pytest.raises(DPForestError, match="epsilon -1"):
        Claim(-1.0)


class Centroids(ClassifierMixin, BaseEstimator):
    """Class means with noise, or, by default, too little of it."""

    def __init__(self, noise: float = 0.01, random_state: int | None = None) -> None:
        self.noise = noise
        self.random_state = random_state

    def fit(self, X: np.ndarray, y: np.ndarray) -> Centroids:
        rng = np.random.default_rng(self.random_state)
        self.means_ = np.array([X[y == c].mean(axis=0) + rng.laplace(0, self.noise, X.shape[1]) for c in (0, 1)])
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.predict_proba(X).argmax(axis=1)

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        distance = ((X[:, None] - self.means_) ** 2).sum(axis=2)
        return 1 / (1 + np.exp(np.clip(distance - distance[:, ::-1], -50, 50)))


@pytest.mark.parametrize(("noise", "violated"), [(0.01, True), (30.0, False)])
def test_an_estimator_is_audited_by_what_it_predicts(noise: float, violated: bool) -> None:
    X = np.random.default_rng(0).random((30, 2))
    found = audit_estimator(Centroids(noise), X, np.arange(30) % 2, (np.ones(2), 1), Claim(1.0), confidence=0.999)
    assert found.violated == violated
    assert found.half_noise is None


@pytest.mark.parametrize(("epsilon", "violated"), [(1.0, False), (6.0, True)])
def test_many_canaries_in_one_run(epsilon: float, violated: bool) -> None:
    canaries = np.eye(400)

    def histogram(rows: np.ndarray, noise: Noise) -> np.ndarray:
        return rows.sum(axis=0) + noise.discrete_laplace(1 / epsilon, 400)

    found = audit_one_run(histogram, np.zeros((1, 400)), canaries, lambda message, each: message, Claim(1.0))
    assert found.violated == violated
    assert 0 < found.lower_bound < epsilon


def test_a_result_is_read_back_and_damage_is_named() -> None:
    found = audit(counts, NOBODY, RECORD, Claim(1.0), repetitions=200)
    assert AuditResult.from_dict(found.to_dict()) == found
    nothing = AuditResult(Claim(math.inf), found.found)
    assert AuditResult.from_dict(nothing.to_dict()) == nothing
    for damage in (
        {"epsilon": "many"},
        {"found": {}},
        {"half_noise": 3},
        {"found": {**found.to_dict()["found"], "mu": -1}},
    ):
        with pytest.raises(DPForestError, match="not a result of an audit"):
            AuditResult.from_dict(found.to_dict() | damage)
