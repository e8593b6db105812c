"""What error rates of an attack prove about epsilon: bounds that hold but for a chance that is chosen.

A mechanism that is (epsilon, delta)-private allows no event to have ``P[in] > exp(epsilon) P[out] + delta``, whichever
of two neighbouring inputs is "in". Both probabilities are replaced by exact binomial (Clopper, Pearson 1934) bounds, so
that a private mechanism is found guilty with at most the chance that was chosen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.special import betaincinv, ndtri

from dpforest.errors import DPForestError
from dpforest.ledger import Entry, epsilon_of_gaussian, total_epsilon

CONFIDENCE = 0.95
CHOOSING = 5  # one repetition in so many chooses the event, and the others count it
_STEPS_OF_FACTOR = 9
_DELTAS_OF_CURVE = (0.3, 0.15, 0.08, 0.04, 0.02, 0.01, 0.003, 1e-3, 1e-4)
_LARGEST_FACTOR = 4.0
_LARGEST = 1e3  # epsilon of bisections


@dataclass(frozen=True)
class ErrorRates:
    """How often an event occurred with a record and without it.

    Parameters
    ----------
    hits, draws : int
        With the record.
    false_hits, false_draws : int
        Without it.
    """

    hits: int
    draws: int
    false_hits: int
    false_draws: int

    def __post_init__(self) -> None:
        if not (0 <= self.hits <= self.draws and 0 <= self.false_hits <= self.false_draws):
            raise DPForestError(
                f"{self.hits} of {self.draws} and {self.false_hits} of {self.false_draws}: no counts of an event"
            )

    def __str__(self) -> str:
        shares = (
            hits / max(draws, 1) for hits, draws in ((self.hits, self.draws), (self.false_hits, self.false_draws))
        )
        return "{:.3g} with the record, {:.3g} without".format(*shares)

    def swapped(self) -> ErrorRates:
        """The event's complement, and the other way round: what shows the record's absence."""
        return ErrorRates(self.false_draws - self.false_hits, self.false_draws, self.draws - self.hits, self.draws)

    def bounds(self, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """Least rate of hits and largest rate of false ones that are compatible with the counts, together."""
        miss = (1 - confidence) / 2
        low = float(clopper_pearson(self.hits, self.draws, miss)[0])
        return low, float(clopper_pearson(self.false_hits, self.false_draws, miss)[1])

    def epsilon(self, delta: float = 0.0, confidence: float = CONFIDENCE) -> float:
        """Lower bound of epsilon; 0 where the event proves nothing."""
        low, high = self.bounds(confidence)
        return max(0.0, math.log((low - delta) / high)) if low > delta else 0.0

    def mu(self, confidence: float = CONFIDENCE) -> float:
        """Lower bound of mu of a Gaussian mechanism (Nasr et al. 2023; Dong, Roth, Su 2022); 0 where nothing is proved.

        The best test of mu-Gaussian privacy has ``TPR = Phi(Phi^-1(FPR) + mu)``.
        """
        low, high = self.bounds(confidence)
        if not (low > 0 and high < 1):
            return 0.0
        return max(0.0, float(ndtri(low) - ndtri(high)))


def clopper_pearson(hits: np.ndarray | int, draws: int, miss: float) -> tuple[np.ndarray, np.ndarray]:
    """Exact bounds of a probability from counts (Clopper, Pearson 1934).

    Parameters
    ----------
    hits : ndarray of int, or int
    draws : int
    miss : float
        Chance that the probability lies below the lower bound, and the same for the upper one.

    Returns
    -------
    low, high : ndarray of float
    """
    hits = np.asarray(hits, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        low = np.where(hits > 0, betaincinv(np.maximum(hits, 1), draws - hits + 1, miss), 0.0)
        high = np.where(hits < draws, betaincinv(hits + 1, np.maximum(draws - hits, 1), 1 - miss), 1.0)
    return low, high


def certain_loss(cells: np.ndarray, neighbour_cells: np.ndarray, n_cells: int, alarm: float = 1e-6) -> float:
    """Pure privacy loss that is certainly reached by outputs that are one of a few: compare with epsilon.

    All events of a list are tried at once, and none is chosen by the draws.

    Parameters
    ----------
    cells, neighbour_cells : ndarray of int, shape (n_draws,)
        Output of every independent run on the one and on the other input, numbered from 0.
    n_cells : int
        Number of outputs, chosen before the draws. Events are each output, "at most k" and "at least k".
    alarm : float
        Chance that the result is above the true loss.

    Raises
    ------
    DPForestError
        An output lies outside the numbered cells.
    """
    events = 3 * n_cells
    bounds = []
    for sample in (cells, neighbour_cells):
        counts = np.bincount(sample, minlength=n_cells)
        if len(counts) != n_cells:
            raise DPForestError(f"an output is cell {len(counts) - 1}, outside the {n_cells} that are numbered")
        hits = np.concatenate([counts, np.cumsum(counts), np.cumsum(counts[::-1])])
        bounds.append(clopper_pearson(hits, len(sample), alarm / (4 * events)))
    (low, high), (neighbour_low, neighbour_high) = bounds
    with np.errstate(divide="ignore"):
        return float(max(np.log(low / neighbour_high).max(), np.log(neighbour_low / high).max()))


class ReleaseFamily:
    """Releases that may cost more or less than the ledger says, all by the same factor.

    The least factor is found whose trade-off curve allows some error rates. Of Gaussian noise it is a factor of mu
    (Nasr et al. 2023). Of pure releases the curve is that of the best composition (Kairouz, Oh, Viswanath 2015), which
    no noise exceeds, so that a factor above 1 refutes the ledger whatever the noise is. Where a budget is spread over
    many releases, far fewer repetitions are needed than by `ErrorRates.epsilon`, which asks for an outcome that shows
    what all of them cost at once.

    Parameters
    ----------
    entries : sequence of Entry
        What the ledger says.
    delta : float
        At which epsilon is wanted.
    """

    def __init__(self, entries: Sequence[Entry], delta: float) -> None:
        self._entries, self._delta = tuple(entries), delta
        self._gaussian = all(entry.mu and entry.sampling == 1 for entry in self._entries)

    def worth(self, rates: ErrorRates, confidence: float) -> float:
        """How near error rates come to what the claim forbids: to compare events by."""
        return rates.mu(confidence) if self._gaussian else self._nearness(rates, confidence, 1.0)

    def epsilon(self, rates: ErrorRates, confidence: float = CONFIDENCE) -> float:
        """Lower bound of epsilon."""
        if self._gaussian:
            return epsilon_of_gaussian(rates.mu(confidence), self._delta)
        forbidden = self._nearness(rates, confidence, 1.0) > 1
        none, some = (1.0, _LARGEST_FACTOR) if forbidden else (0.0, 1.0)
        for _ in range(_STEPS_OF_FACTOR):
            factor = (none + some) / 2
            forbidden = self._nearness(rates, confidence, factor) > 1
            none, some = (factor, some) if forbidden else (none, factor)
        by_factor = total_epsilon(_scaled(self._entries, none), self._delta) if none else 0.0
        return max(by_factor, rates.epsilon(self._delta, confidence))

    def _nearness(self, rates: ErrorRates, confidence: float, factor: float) -> float:
        """Above 1 where releases at so many times their cost allow no such test, by some delta, in some direction."""
        low, high = rates.bounds(confidence)
        both = ((low, high), (1 - high, 1 - low))
        curve = _curve(self._entries, factor, self._delta)
        shares = [
            math.log((hit - delta) / miss) / epsilon
            for hit, miss in both
            for delta, epsilon in curve
            if hit > delta and miss > 0 and epsilon > 0
        ]
        return max([0.0, *shares])


@lru_cache(maxsize=256)
def _curve(entries: tuple[Entry, ...], factor: float, delta: float) -> list[tuple[float, float]]:
    """Deltas and what the entries cost by each, at so many times their cost."""
    scaled = _scaled(entries, factor)
    return [(each, total_epsilon(scaled, each)) for each in (*_DELTAS_OF_CURVE, delta)]


def _scaled(entries: Sequence[Entry], factor: float) -> list[Entry]:
    return [replace(entry, mu=entry.mu * factor, epsilon=entry.epsilon * factor) for entry in entries]


def one_run_epsilon(
    correct: int, guesses: int, canaries: int, delta: float = 0.0, confidence: float = CONFIDENCE
) -> float:
    """Lower bound of epsilon from one run with many records, each of which was in or out by a fair coin.

    Steinke, Nasr, Jagielski 2023, theorem 5.2: of ``guesses`` guesses under (epsilon, delta)-privacy, the number of
    correct ones is dominated by a binomial with probability ``exp(epsilon) / (1 + exp(epsilon))`` but for
    ``2 canaries delta max_i P[v - i <= B < v] / i``.

    Parameters
    ----------
    correct, guesses : int
        Guesses whether a record was in, and how many of them were right. How many are made must not follow from what
        came out.
    canaries : int
        Records whose coin was tossed, guessed or not.
    delta, confidence : float
    """
    if not 0 <= correct <= guesses <= canaries:
        raise DPForestError(f"{correct} correct of {guesses} guesses about {canaries} canaries: each at most the next")
    if _chance_of(correct, guesses, canaries, 0.0, delta) >= 1 - confidence:
        return 0.0
    low, high = 0.0, 1.0
    while high < _LARGEST and _chance_of(correct, guesses, canaries, high, delta) < 1 - confidence:
        low, high = high, 2 * high
    for _ in range(50):
        middle = (low + high) / 2
        if _chance_of(correct, guesses, canaries, middle, delta) < 1 - confidence:
            low = middle
        else:
            high = middle
    return low


def _chance_of(correct: int, guesses: int, canaries: int, epsilon: float, delta: float) -> float:
    """Largest chance of so many correct guesses or more under (epsilon, delta)-privacy."""
    from scipy.stats import binom  # slow to import, and every statement loads this module

    right = 1 / (1 + math.exp(-epsilon))
    chance = float(binom.sf(correct - 1, guesses, right))
    if delta and correct:
        below = np.cumsum(binom.pmf(np.arange(correct - 1, -1, -1), guesses, right))
        chance += 2 * canaries * delta * float((below / np.arange(1, correct + 1)).max())
    return min(1.0, chance)


def needed_repetitions(
    epsilon: float, delta: float = 0.0, confidence: float = CONFIDENCE, mu: float = 0.0, every: int = CHOOSING
) -> int:
    """Repetitions with the record, and as many without, from which an event could be seen that breaks a claim.

    For the clearest event, one that always occurs with the record and never without.

    Parameters
    ----------
    epsilon, delta : float
        The claim.
    confidence : float
    mu : float
        What the claim is in Gaussian differential privacy, where error rates are held against that; 0: they are not.
    every : int
        One repetition in so many chooses the event (`CanaryScores`).
    """
    if math.isinf(epsilon):
        return 2
    few, many = 1, 2
    while not _could_break(many, epsilon, delta, confidence, mu):
        few, many = many, 2 * many
        if many > 2**40:
            raise DPForestError(f"no number of repetitions shows epsilon {epsilon:g} with {confidence:g} confidence")
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if _could_break(middle, epsilon, delta, confidence, mu) else (middle, many)
    return many + math.ceil(many / (every - 1))


def _could_break(draws: int, epsilon: float, delta: float, confidence: float, mu: float) -> bool:
    clearest = ErrorRates(draws, draws, 0, draws)
    return clearest.mu(confidence) > mu if mu else clearest.epsilon(delta, confidence) > epsilon
