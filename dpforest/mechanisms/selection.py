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
from dpforest.mechanisms.base import Cost, Mechanism
from dpforest.noise import Noise, check_scale

SELECTIONS = ("permute_and_flip", "exponential")
SelectionKind = Literal["permute_and_flip", "exponential"]


@dataclass(frozen=True)
class Selection(Mechanism):
    """Choose one candidate per group of disjoint records.

    Parameters
    ----------
    epsilon : float
        Cost of the choice; ``inf`` takes the best.
    sensitivity : int
        Largest rise of a score when one record is added; no score may fall.
    kind : {"permute_and_flip", "exponential"}

    Examples
    --------
    >>> import numpy as np
    >>> from dpforest.ledger import Budget, Ledger
    >>> from dpforest.noise import Seeded
    >>> choose = Selection(epsilon=5.0, sensitivity=1)
    >>> choose.release(np.array([[0, 100, 3]]), choose.entry("choice"), Ledger(Budget(5.0)), Seeded(0)).tolist()
    [1]
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

    @property
    def cost(self) -> Cost:
        name = {"permute_and_flip": "permute-and-flip", "exponential": "exponential mechanism"}[self.kind]
        return Cost(name, epsilon=self.epsilon, sensitivity=self.sensitivity, scale=self.scale)

    def _noised(self, values: np.ndarray, noise: Noise) -> np.ndarray:
        """Chosen columns, int64 of shape (n_groups,).

        Parameters
        ----------
        values : ndarray of int64, shape (n_groups, n_candidates)
            Scores; a record may change those of one group only.
        """
        if math.isinf(self.epsilon):
            return np.argmax(values, axis=1)
        if self.kind == "exponential":
            return noise.exponential_mechanism(values, self.scale)
        return noise.permute_and_flip(values, self.scale)
