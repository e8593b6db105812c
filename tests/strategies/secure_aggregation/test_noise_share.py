"""The room for noise in a secure sum."""

from __future__ import annotations

import numpy as np

from strategies.secure_aggregation.noise_share import noise_tail


def test_tail_is_wide_enough() -> None:
    share, draws, failure = 1.5, 10, 1e-3
    tail = noise_tail(share, draws, failure)
    z = np.arange(-60, 61)
    weights = np.exp(-(z**2) / (2 * share**2))
    beyond = weights[np.abs(z) > tail].sum() / weights.sum()
    assert draws * beyond <= failure
