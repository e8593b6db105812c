"""Private choice of the best of many candidates.

Proof. Let adding a record raise every candidate's score by some D_i in [0, R] (the score is monotone and R is
its sensitivity).

*Exponential mechanism* (McSherry, Talwar 2007): candidate i is drawn with P(i) proportional to
``exp(epsilon s_i / R)``. With l = epsilon / R, ``P'(i) / P(i) = exp(l D_i) / mean_P(exp(l D_j))``, which lies in
``[exp(-l R), exp(l R)] = [exp(-epsilon), exp(epsilon)]``.

*Permute-and-flip* (McKenna, Sheldon 2020), here as report-noisy-max with Exponential(R / epsilon) noise (Ding et
al. 2021): fix the noise of all others; i wins iff its noise exceeds a threshold r, and on the neighbour iff it
exceeds some r' <= r + R. ``P[noise > r + R] >= exp(-epsilon) P[noise > r]``. Its expected score is never below
the exponential mechanism's.

Scores are integers (see `dpforest.growers.kernels`), so both are exact in a `Secure` source.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpforest.errors import DPForestError
from dpforest.ledger import ALL_ROWS, Entry, Ledger
from dpforest.noise import Noise, check_scale

SELECTIONS = ("permute_and_flip", "exponential")
SelectionKind = Literal["permute_and_flip", "exponential"]


@dataclass(frozen=True)
class Selection:
    """Choose one candidate per group of disjoint records.

    Parameters
    ----------
    epsilon : float
        Cost of the choice; ``inf`` takes the best.
    sensitivity : int
        Largest rise of a score when one record is added; no score may fall.
    kind : {"permute_and_flip", "exponential"}
    """

    epsilon: float
    sensitivity: int
    kind: SelectionKind = "permute_and_flip"

    def __post_init__(self) -> None:
        if self.kind not in SELECTIONS:
            raise DPForestError(f"selection {self.kind!r} must be one of {', '.join(SELECTIONS)}")
        check_scale(self.scale)

    @property
    def scale(self) -> float:
        """Of the noise, or what scores are divided by in the exponential mechanism."""
        return self.sensitivity / self.epsilon if self.epsilon else math.inf

    def entry(self, what: str, rows: str = ALL_ROWS, times: int = 1, note: str = "") -> Entry:
        """The ledger line of such a choice, for plans."""
        name = {"permute_and_flip": "permute-and-flip", "exponential": "exponential mechanism"}[self.kind]
        return Entry(
            what,
            name,
            epsilon=self.epsilon,
            rows=rows,
            times=times,
            note=note,
            sensitivity=self.sensitivity,
            scale=self.scale,
        )

    def release(self, scores: np.ndarray, entry: Entry, ledger: Ledger, noise: Noise) -> np.ndarray:
        """Charge ``entry`` and choose one candidate a row.

        Parameters
        ----------
        scores : ndarray of int64, shape (n_groups, n_candidates)
            A record may change the scores of one group only.
        entry : Entry
            From `entry`.

        Returns
        -------
        ndarray of int64, shape (n_groups,)
            Chosen columns.
        """
        ledger.charge(entry)
        if math.isinf(self.epsilon):
            return np.argmax(scores, axis=1)
        if self.kind == "exponential":
            return noise.exponential_mechanism(scores, self.scale)
        return noise.permute_and_flip(scores, self.scale)
