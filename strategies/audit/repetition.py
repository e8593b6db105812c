"""One repetition: what was sent, what was drawn, and how much likelier it is with the record."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dpforest.audit.likelihood import log_ratio
from strategies.audit.witness import Draw

Fields = Mapping[str, np.ndarray]


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
        if self.values is None:
            return {}
        groups: dict[tuple[str, int], float] = {}
        sampling: dict[tuple[str, int], float] = {}
        for draw, outside, inside in zip(self.draws, *self.values, strict=True):
            place = draw.what, draw.group
            groups[place] = groups.get(place, 0.0) + log_ratio(draw.mechanism, draw.seen, inside, outside)
            sampling[place] = draw.mechanism.cost.sampling
        totals: dict[str, float] = {}
        for (what, group), ratio in groups.items():
            totals[what] = totals.get(what, 0.0) + _sampled(ratio, sampling[what, group])
        return totals


def values_of(draws: Sequence[Draw]) -> list[np.ndarray]:
    """What went into the mechanisms."""
    return [draw.values for draw in draws]


def _sampled(ratio: float, probability: float) -> float:
    """The log ratio where the record is in the sample with a probability only, and nobody sees whether it is."""
    if probability == 1:
        return ratio
    return float(np.logaddexp(math.log1p(-probability), math.log(probability) + ratio))
