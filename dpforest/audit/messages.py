"""Tests of messages that know nothing of how they are made: numbers that come with a record, and sums that move."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from dpforest.audit.bounds import CONFIDENCE, ErrorRates
from dpforest.audit.scores import Bound, CanaryScores

Fields = Mapping[str, np.ndarray]
LEARNING = 2  # every other message teaches a test and chooses its event
_MOST_NUMBERS = 20_000  # of a field, that are looked up
_MOST_KEPT = 200
_LEAST_RATIO = 1.0


def fields_of(message: object) -> dict[str, np.ndarray]:
    """A message as named arrays of numbers: an array, a number, or a mapping or sequence of these."""
    if isinstance(message, Mapping):
        parts = {f"{name}.{inner}" if inner else str(name): value for name, part in message.items()
                 for inner, value in fields_of(part).items()}  # fmt: skip
        return parts
    if isinstance(message, list | tuple) and any(np.ndim(part) or isinstance(part, Mapping) for part in message):
        return fields_of(dict(enumerate(message)))
    return {"": np.atleast_1d(np.asarray(message, dtype=np.float64))}


class FieldTest:
    """A score of messages by one field, learned from messages with the record and without.

    Parameters
    ----------
    name : str
        Of the field.
    inside, outside : sequence of mapping
        Messages to learn from.
    by_numbers : bool
        Look for numbers that come with the record or go with it, wherever they stand; else for sums of its numbers
        that move, place by place.
    """

    def __init__(self, name: str, inside: Sequence[Fields], outside: Sequence[Fields], by_numbers: bool) -> None:
        self.name, self.by_numbers = name, by_numbers
        if by_numbers:
            self._learn_numbers(inside, outside)
        else:
            self._learn_direction(inside, outside)

    @property
    def words(self) -> str:
        """The test in words."""
        how = "numbers in it" if self.by_numbers else "a weighted sum of it"
        return f"{how} ({self.name or 'the message'})"

    def scores(self, messages: Sequence[Fields]) -> np.ndarray:
        """High where the record seems to be in, shape (n_messages,)."""
        return np.array([self._score(message.get(self.name, np.empty(0))) for message in messages])

    def _learn_numbers(self, inside: Sequence[Fields], outside: Sequence[Fields]) -> None:
        with_it, without = (self._count(messages) for messages in (inside, outside))
        ratios = {
            number: np.log((with_it[number] + 0.5) / (len(inside) + 1))
            - np.log((without[number] + 0.5) / (len(outside) + 1))
            for number in with_it.keys() | without.keys()
        }
        clear = sorted(ratios, key=lambda number: -abs(ratios[number]))[:_MOST_KEPT]
        self._ratios = {number: ratios[number] for number in clear if abs(ratios[number]) > _LEAST_RATIO}

    def _count(self, messages: Sequence[Fields]) -> Counter[float]:
        counted: Counter[float] = Counter()
        for message in messages:
            counted.update(_numbers(message.get(self.name, np.empty(0))))
        return counted

    def _learn_direction(self, inside: Sequence[Fields], outside: Sequence[Fields]) -> None:
        shapes = Counter(np.shape(message.get(self.name, ())) for message in (*inside, *outside))
        self._shape = shapes.most_common(1)[0][0]
        with_it, without = (
            np.array([m[self.name].ravel() for m in messages if np.shape(m.get(self.name, ())) == self._shape])
            for messages in (inside, outside)
        )
        if not (with_it.size and without.size):
            self._direction = np.zeros(int(np.prod(self._shape)))
            return
        moved = with_it.mean(axis=0) - without.mean(axis=0)
        variance = (with_it.var(axis=0) + without.var(axis=0)) / 2
        # A move that chance explains is worth nothing, and one of many is not worth its own noise.
        error = variance * (1 / len(with_it) + 1 / len(without))
        kept = moved**2 > max(4.0, 2 * np.log(moved.size)) * error
        least = np.where(kept, 1e-12 * moved**2, 1.0)
        self._direction = np.where(kept, moved / np.maximum(variance, least), 0.0)

    def _score(self, field: np.ndarray) -> float:
        if self.by_numbers:
            return float(sum(self._ratios.get(number, 0.0) for number in _numbers(field)))
        if np.shape(field) != self._shape:
            return -np.inf
        return float(np.nan_to_num(field.ravel() @ self._direction))


def best_test(inside: Sequence[Fields], outside: Sequence[Fields], bound: Bound) -> FieldTest:
    """The test of a field that proves most: learned on every other message, compared on the rest."""
    names = sorted({name for message in (*inside, *outside) for name in message})
    tests = [FieldTest(name, inside[::2], outside[::2], by_numbers) for name in names for by_numbers in (True, False)]

    def worth(test: FieldTest) -> float:
        scores = CanaryScores(test.scores(inside[1::2]), test.scores(outside[1::2]))
        return bound(scores.rates_of_best(bound), CONFIDENCE)

    return max(tests, key=worth)


def field_rates(inside: Sequence[Fields], outside: Sequence[Fields], bound: Bound) -> tuple[FieldTest, ErrorRates]:
    """The best test of a field, chosen with its event on every other message, and its error rates on the rest."""
    test = best_test(inside[::2], outside[::2], bound)
    scores = CanaryScores(test.scores(inside), test.scores(outside), every=LEARNING)
    return test, scores.rates_of_best(bound)


def _numbers(field: np.ndarray) -> set[float]:
    return set(np.round(field.ravel()[:_MOST_NUMBERS].astype(np.float64), 9).tolist())
