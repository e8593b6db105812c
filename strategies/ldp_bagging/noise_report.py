"""How large the published noise was, compared with what Laplace(sensitivity / epsilon) and the LDP document say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from strategies.ldp_bagging.published import KINDS, SENSITIVITY

# "Noise Magnitude Statistics" of the document: its means and maxima at every level are these over epsilon. A Laplace
# variable of scale 1 / epsilon has mean size 1 / epsilon, so the printed noise is some 50 to 80 times too small.
DOCUMENT_MEAN = {"leaf values": 0.01892, "importances": 0.01253}
DOCUMENT_LARGEST = {"leaf values": 0.03451, "importances": 0.02876}


def expected_noise(epsilon: float) -> float:
    """Mean size of discrete Laplace noise of scale 1 / epsilon: 2 q / (1 - q^2) with q = exp(-epsilon)."""
    if math.isinf(epsilon):
        return 0.0
    return 1 / math.sinh(epsilon) if epsilon < 700 else 0.0


class NoiseReport:
    """Adds up the sizes that clients report.

    Parameters
    ----------
    epsilon : float
        Of each noised number.
    """

    def __init__(self, epsilon: float) -> None:
        self.expected = 0.0 if math.isinf(epsilon) else SENSITIVITY / epsilon
        self._epsilon = epsilon
        self._all: list[np.ndarray] = []
        self._round: list[np.ndarray] = []

    def add(self, noises: Sequence[np.ndarray]) -> None:
        """Take in one round: arrays of shape (kinds, columns) as in `strategies.ldp_bagging.published`."""
        self._round = list(noises)
        self._all += noises

    def round_columns(self) -> dict[str, float]:
        """Mean and largest size of the round, for its line of ``rounds.csv``."""
        facts = _facts(self._round)
        return {
            f"{kind.replace(' ', '_')}_noise_{name}": facts[kind][name]
            for kind in KINDS
            for name in ("mean", "largest")
        }

    def lines(self) -> list[str]:
        """The round's noise in words."""
        if not self.expected:
            return ["noise: none"]
        facts = _facts(self._round)
        lines = []
        for kind in KINDS:
            words = f"noise on {kind}: mean {facts[kind]['mean']:.3g}, largest {facts[kind]['largest']:.3g}"
            if facts[kind]["relative_change"] is not None:
                words += f", relative change {100 * facts[kind]['relative_change']:.0f} %"
            words += f"; Laplace(sensitivity / epsilon) has mean {self.expected:.3g}"
            if kind in DOCUMENT_MEAN:
                words += f", the document prints {DOCUMENT_MEAN[kind] * self.expected:.3g}, which is not it"
            lines.append(words)
        return lines

    def report(self) -> dict[str, Any]:
        """Sizes over the whole run, with what they should be and what the document prints."""
        return {
            kind: {
                **facts,
                "expected_mean": self.expected,
                "document_mean": DOCUMENT_MEAN[kind] * self.expected if kind in DOCUMENT_MEAN else None,
                "document_largest": DOCUMENT_LARGEST[kind] * self.expected if kind in DOCUMENT_LARGEST else None,
            }
            for kind, facts in _facts(self._all).items()
        }


def _facts(noises: Sequence[np.ndarray]) -> dict[str, dict[str, Any]]:
    found = {}
    for row, kind in enumerate(KINDS):
        numbers, total, _, relative, known = np.sum([noise[row] for noise in noises], axis=0).tolist()
        found[kind] = {
            "numbers": int(numbers),
            "mean": total / max(numbers, 1),
            "largest": max(float(noise[row, 2]) for noise in noises),
            "relative_change": relative / known if known else None,
        }
    return found
