"""Audits of anybody's mechanism: a function of rows and noise, or an estimator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpforest.audit.bounds import CHOOSING, CONFIDENCE, ErrorRates, needed_repetitions, one_run_epsilon
from dpforest.audit.messages import LEARNING, field_rates, fields_of
from dpforest.audit.mutants import HalvedNoise
from dpforest.audit.result import AuditResult, Claim, Found
from dpforest.audit.scores import Bound, CanaryScores
from dpforest.errors import DPForestError
from dpforest.ledger import epsilon_of_gaussian, gaussian_mu
from dpforest.noise import Noise, Secure, Seeded

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

Release = Callable[[np.ndarray, Noise], Any]
Score = Callable[[Any], float]
_LEAST = 8  # repetitions of which each of the parts that learn, choose and count has one


def audit(
    release: Release,
    rows: np.ndarray,
    record: np.ndarray,
    claim: Claim,
    *,
    score: Score | None = None,
    repetitions: int = 10_000,
    confidence: float = CONFIDENCE,
    seed: int | None = 0,
    gaussian: bool = False,
    half_noise: bool = True,
) -> AuditResult:
    """Measure a lower bound of epsilon of any function of rows and noise.

    Parameters
    ----------
    release : callable of (rows, Noise) to message
        What goes out: a number, an array, or a mapping or sequence of these. All its randomness comes from the noise.
    rows : ndarray of shape (n_rows, n_columns)
        There may be none.
    record : ndarray of shape (n_columns,)
        Is appended in half of the repetitions.
    claim : Claim
    score : callable of message to float, optional
        High where the record seems to be in. By default a test is learned, of the field that shows it best.
    repetitions : int
        With and without the record together.
    confidence : float
    seed : int or None
        None draws cryptographic noise.
    gaussian : bool
        The noise is Gaussian, of whatever size: the bound is of mu (Nasr et al. 2023), which takes fewer repetitions.
    half_noise : bool
        Audit the same with half the noise too.

    Returns
    -------
    AuditResult

    Raises
    ------
    DPForestError
        The repetitions are too few to refute the claim whatever comes out; says how many are needed.

    Examples
    --------
    >>> import numpy as np
    >>> from dpforest.audit import Claim, audit
    >>> def release(rows, noise):
    ...     return {"sum": len(rows) + noise.discrete_laplace(1.0, 1), "largest": rows.max()}
    >>> found = audit(release, np.zeros(9), record=np.array([1.0]), claim=Claim(epsilon=1.0), repetitions=500)
    >>> found.violated
    True
    """
    each = _check_enough(repetitions, claim, confidence, gaussian, CHOOSING if score else LEARNING)
    rows = np.asarray(rows)
    with_record = np.concatenate([rows.reshape(-1, *np.shape(record)), np.asarray(record)[None]])

    def repeated(mutant: Callable[[Noise], Noise], purpose: int) -> Found:
        inside, outside = (
            [release(data, mutant(_noise(seed, purpose, side, number))) for number in range(each)]
            for side, data in enumerate((with_record, rows))
        )
        return found(inside, outside, claim, score=score, confidence=confidence, gaussian=gaussian)

    broken = repeated(HalvedNoise, 1) if half_noise else None
    return AuditResult(claim, repeated(lambda noise: noise, 0), broken, confidence)


def audit_estimator(
    estimator: BaseEstimator,
    X: np.ndarray,
    y: np.ndarray,
    record: tuple[np.ndarray, Any],
    claim: Claim,
    *,
    observe: Callable[[Any], Any] | None = None,
    repetitions: int = 2_000,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> AuditResult:
    """Measure a lower bound of epsilon of what a fitted scikit-learn style estimator shows.

    Parameters
    ----------
    estimator : estimator
        Is cloned and fitted again and again, each time with another ``random_state`` where it has one.
    X, y : ndarray of shape (n_rows, n_features) and (n_rows,)
    record : tuple
        A row and its target, appended in half of the repetitions.
    claim : Claim
    observe : callable of fitted estimator to message, optional
        What is looked at; by default its prediction of the record (chances of classes where it gives any).
    repetitions, confidence, seed
        As in `audit`; an estimator has no noise that could be halved from outside.

    Returns
    -------
    AuditResult
        What was found, with the claim.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from dpforest.audit import Claim, audit_estimator
    >>> X, y = np.zeros((4, 1)), np.array([0, 0, 1, 1])
    >>> nearest = KNeighborsClassifier(n_neighbors=1)
    >>> audit_estimator(nearest, X, y, (np.array([5.0]), 1), Claim(epsilon=1.0), repetitions=200).violated
    True
    """
    each = _check_enough(repetitions, claim, confidence, False, LEARNING)
    row, target = np.asarray(record[0])[None], np.asarray(record[1])[None]
    tables = (np.concatenate([X, row]), np.concatenate([y, target])), (np.asarray(X), np.asarray(y))
    look = observe or (lambda fitted: _prediction(fitted, row))

    def seen(side: int) -> list[Any]:
        own_X, own_y = tables[side]
        states = np.random.SeedSequence(seed, spawn_key=(side,)).generate_state(each)
        return [look(_with_state(estimator, int(state) >> 1).fit(own_X, own_y)) for state in states]

    return AuditResult(claim, found(seen(0), seen(1), claim, confidence=confidence), None, confidence)


def audit_one_run(
    release: Release,
    rows: np.ndarray,
    canaries: np.ndarray,
    scores: Callable[[Any, np.ndarray], np.ndarray],
    claim: Claim,
    *,
    guesses: float = 0.5,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> AuditResult:
    """Measure a lower bound of epsilon from one run with many canaries (Steinke, Nasr, Jagielski 2023).

    Parameters
    ----------
    release : callable of (rows, Noise) to message
    rows : ndarray of shape (n_rows, n_columns)
    canaries : ndarray of shape (n_canaries, n_columns)
        Each is in by a coin of its own.
    scores : callable of (message, canaries) to ndarray
        High for the canaries that seem to be in, shape (n_canaries,).
    claim : Claim
    guesses : float
        Share of the canaries about which a guess is made: those with the highest scores and, as many, the lowest.
    confidence : float
        Of the bound.
    seed : int
        Of the coins and of the noise.

    Returns
    -------
    AuditResult
        What was found, with the claim.

    Examples
    --------
    >>> import numpy as np
    >>> from dpforest.audit import Claim, audit_one_run
    >>> canaries = np.eye(200)
    >>> def release(rows, noise):
    ...     return rows.sum(axis=0)
    >>> def scores(message, canaries):
    ...     return canaries @ message
    >>> audit_one_run(release, np.zeros((1, 200)), canaries, scores, Claim(epsilon=1.0)).violated
    True
    """
    coins = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(2,))).random(len(canaries)) < 0.5
    message = release(np.concatenate([rows, canaries[coins]]), _noise(seed, 2, 0, 0))
    return AuditResult(claim, one_run(coins, scores(message, canaries), claim, guesses, confidence), None, confidence)


def one_run(coins: np.ndarray, scores: np.ndarray, claim: Claim, guesses: float, confidence: float) -> Found:
    """What guesses by the scores of one run prove."""
    each = int(len(coins) * guesses / 2)
    if not 1 <= each <= len(coins) // 2:
        raise DPForestError(
            f"guesses {guesses} of {len(coins)} canaries: give a share above 0, at most 1, of 2 or more"
        )
    order = np.argsort(scores, kind="stable")
    right_in, wrong_out = int(coins[order[-each:]].sum()), int(coins[order[:each]].sum())
    correct = right_in + each - wrong_out
    epsilon = one_run_epsilon(correct, 2 * each, len(coins), claim.delta, confidence)
    by = f"{correct} right of {2 * each} guesses about {len(coins)} canaries of one run"
    return Found(epsilon, by, ErrorRates(right_in, each, wrong_out, each), 1)


def found(
    inside: Sequence[Any],
    outside: Sequence[Any],
    claim: Claim,
    *,
    score: Score | None = None,
    confidence: float = CONFIDENCE,
    gaussian: bool = False,
) -> Found:
    """What messages with a record and without it prove."""
    bound = bound_for(claim, gaussian)
    if score is None:
        with_it, without = ([fields_of(message) for message in messages] for messages in (inside, outside))
        test, rates = field_rates(with_it, without, bound)
        by = test.words
    else:
        each = [np.array([score(message) for message in part]) for part in (inside, outside)]
        scores = CanaryScores(each[0], each[1])
        rates, by = scores.rates_of_best(bound), "the score"
    return found_by(rates, by, claim, confidence, gaussian, len(inside) + len(outside))


def bound_for(claim: Claim, gaussian: bool) -> Bound:
    """What events are compared by."""
    return ErrorRates.mu if gaussian else lambda rates, confidence: rates.epsilon(claim.delta, confidence)


def found_by(rates: ErrorRates, by: str, claim: Claim, confidence: float, gaussian: bool, repetitions: int) -> Found:
    """A lower bound by error rates, of mu first where the noise is Gaussian."""
    mu = rates.mu(confidence) if gaussian else 0.0
    epsilon = epsilon_of_gaussian(mu, claim.delta) if gaussian else rates.epsilon(claim.delta, confidence)
    return Found(epsilon, by, rates, repetitions, mu)


def _check_enough(repetitions: int, claim: Claim, confidence: float, gaussian: bool, every: int) -> int:
    """Repetitions on each side."""
    if not 0 < confidence < 1:
        raise DPForestError(f"confidence {confidence} must lie between 0 and 1, such as {CONFIDENCE}")
    mu = gaussian_claim(claim) if gaussian else 0.0
    needed = max(_LEAST, needed_repetitions(claim.epsilon, claim.delta, confidence, mu, every))
    if repetitions < 2 * needed:
        raise DPForestError(
            f"{repetitions} repetitions are too few to refute {claim} with {100 * confidence:g} per cent confidence, "
            f"whatever comes out: give {2 * needed} or more"
        )
    return repetitions // 2


def gaussian_claim(claim: Claim) -> float:
    """The mu of a claim about Gaussian noise."""
    if not claim.delta:
        raise DPForestError(f"{claim}: Gaussian noise has no pure epsilon; claim a delta, such as 1e-6")
    return gaussian_mu(claim.epsilon, claim.delta)


def _noise(seed: int | None, *key: int) -> Noise:
    return Secure() if seed is None else Seeded(np.random.SeedSequence(seed, spawn_key=key))


def _with_state(estimator: BaseEstimator, state: int) -> Any:
    from sklearn.base import clone  # slow to import

    fresh = clone(estimator)
    return fresh.set_params(random_state=state) if "random_state" in fresh.get_params() else fresh


def _prediction(fitted: Any, row: np.ndarray) -> np.ndarray:
    predict = getattr(fitted, "predict_proba", fitted.predict)
    return np.asarray(predict(row), dtype=np.float64).ravel()
