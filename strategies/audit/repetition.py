"""One repetition: what was sent, what was drawn, and how much likelier it is with the record."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dpforest.audit.likelihood import divergence, log_ratio
from strategies.audit.witness import Draw

Fields = Mapping[str, np.ndarray]
_MOST_EXPONENT = 50.0


@dataclass(frozen=True)
class Repetition:
    """What came out once.

    Parameters
    ----------
    fields : mapping of str to ndarray
        All that was sent.
    draws : sequence of Draw
        What the mechanisms let through.
    values : tuple of two lists of ndarray, or None
        What went into the mechanisms, or would have gone, without the record and with it, given what they had let
        through before.
    different : tuple of str
        What depends on the record although the mechanisms let the same through.
    """

    fields: Fields
    draws: Sequence[Draw] = ()
    values: tuple[list[np.ndarray], list[np.ndarray]] | None = None
    different: tuple[str, ...] = field(default=())

    def log_ratios(self) -> dict[str, float]:
        """Log of the likelihood with the record over that without, of each release by its name."""
        totals: dict[str, float] = {}
        ratios = self._by_sample(lambda draw, inside, outside: log_ratio(draw.mechanism, draw.seen, inside, outside))
        for what, probability, ratio in ratios:
            totals[what] = totals.get(what, 0.0) + _sampled(ratio, probability)
        return totals

    def divergence(self) -> float:
        """How far the record can be seen in such a repetition, on average over what comes out of the mechanisms."""
        parts = self._by_sample(lambda draw, inside, outside: divergence(draw.mechanism, inside, outside))
        return math.fsum(_divergence_of_sample(part, probability) for _, probability, part in parts)

    def _by_sample(self, of: Callable[[Draw, np.ndarray, np.ndarray], float]) -> list[tuple[str, float, float]]:
        """Name, probability of being in the sample, and the sum of something over all draws of one sample."""
        if self.values is None:
            return []
        sums: dict[tuple[str, int], float] = {}
        sampling: dict[tuple[str, int], float] = {}
        for draw, outside, inside in zip(self.draws, *self.values, strict=True):
            place = draw.what, draw.group
            sums[place] = sums.get(place, 0.0) + of(draw, inside, outside)
            sampling[place] = draw.mechanism.cost.sampling
        return [(what, sampling[what, group], total) for (what, group), total in sums.items()]


def values_of(draws: Sequence[Draw]) -> list[np.ndarray]:
    """What went into the mechanisms."""
    return [draw.values for draw in draws]


def _sampled(ratio: float, probability: float) -> float:
    """The log ratio where the record is in the sample with a probability only, and nobody sees whether it is."""
    if probability == 1:
        return ratio
    return float(np.logaddexp(math.log1p(-probability), math.log(probability) + ratio))


def _divergence_of_sample(full: float, probability: float) -> float:
    """What is left of a divergence where the record is in the sample with a probability only (Bu et al. 2020)."""
    return full if probability == 1 else probability**2 * math.expm1(min(full, _MOST_EXPONENT))
