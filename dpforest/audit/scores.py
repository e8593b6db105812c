"""Scores of repetitions with and without a record, and what they prove."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpforest.audit.bounds import CHOOSING, CONFIDENCE, ErrorRates
from dpforest.errors import DPForestError

_THRESHOLDS = 128  # that are tried
# Of many events on few repetitions the best one is often the luckiest: they are compared by more cautious bounds.
_MISS_OF_CHOICE = 1e-3
Bound = Callable[[ErrorRates, float], float]  # of error rates, at a confidence


@dataclass(frozen=True)
class Event:
    """What is looked for: a score of at least a threshold, or, swapped, one below it.

    Parameters
    ----------
    threshold : float
    swapped : bool
        A low score shows that the record is absent.
    """

    threshold: float
    swapped: bool = False

    def rates(self, inside: np.ndarray, outside: np.ndarray) -> ErrorRates:
        """How often it occurred."""
        hits, false_hits = (int((scores >= self.threshold).sum()) for scores in (inside, outside))
        rates = ErrorRates(hits, len(inside), false_hits, len(outside))
        return rates.swapped() if self.swapped else rates


class CanaryScores:
    """Scores that an attack gave to independent repetitions with a record and without it; high ones say that it is in.

    The event is chosen on some repetitions and counted on the rest, so that its choice costs no confidence.

    Parameters
    ----------
    inside, outside : ndarray of float, shape (n_repetitions,)
        With the record, and without; 2 or more of each.
    every : int
        One repetition in so many chooses. A threshold needs few of them; where a score is learned as well, it is every
        other one.

    Raises
    ------
    DPForestError
        They are too few, or not all are numbers.
    """

    def __init__(self, inside: np.ndarray, outside: np.ndarray, *, every: int = CHOOSING) -> None:
        self._every = every
        self.inside, self.outside = (np.asarray(scores, dtype=np.float64).ravel() for scores in (inside, outside))
        for scores in (self.inside, self.outside):
            if len(scores) < 2 or np.isnan(scores).any():
                raise DPForestError(f"{len(scores)} scores: give 2 numbers or more with the record, and without it")

    def event(self, bound: Bound) -> Event:
        """The event with the largest bound on the repetitions that choose."""
        inside, outside = self.inside[:: self._every], self.outside[:: self._every]
        both = np.unique(np.concatenate([inside, outside]))
        thresholds = both[np.unique(np.linspace(0, len(both) - 1, _THRESHOLDS).round().astype(int))]
        events = [Event(float(threshold), swapped) for threshold in thresholds for swapped in (False, True)]

        def worth(event: Event) -> tuple[float, float]:
            rates = event.rates(inside, outside)
            return bound(rates, 1 - _MISS_OF_CHOICE), rates.hits / rates.draws - rates.false_hits / rates.false_draws

        return max(events, key=worth)

    def rates(self, event: Event) -> ErrorRates:
        """How often an event occurred in the repetitions that did not choose it."""
        return event.rates(*(np.delete(scores, np.s_[:: self._every]) for scores in (self.inside, self.outside)))

    def rates_of_best(self, bound: Bound) -> ErrorRates:
        """Error rates of the event that is best, on the repetitions that did not choose it."""
        return self.rates(self.event(bound))

    def epsilon_lower_bound(self, delta: float = 0.0, confidence: float = CONFIDENCE) -> float:
        """Of any mechanism; see `ErrorRates.epsilon`."""
        return self.rates_of_best(lambda rates, sure: rates.epsilon(delta, sure)).epsilon(delta, confidence)

    def mu_lower_bound(self, confidence: float = CONFIDENCE) -> float:
        """Of a Gaussian mechanism; see `ErrorRates.mu`."""
        return self.rates_of_best(ErrorRates.mu).mu(confidence)

    def auroc(self) -> float:
        """Chance that a repetition with the record scores above one without it, ties counted half."""
        order = np.sort(self.outside)
        below = np.searchsorted(order, self.inside, "left") + np.searchsorted(order, self.inside, "right")
        return float(below.mean() / (2 * len(order)))
