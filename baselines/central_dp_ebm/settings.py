"""Settings of DP-EBM; the defaults are interpret-core's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from dpforest.settings import Positive, Range, Settings, Whole


@dataclass(frozen=True)
class DpEbmSettings(Settings):
    """An explainable boosting machine with differential privacy.

    Parameters
    ----------
    max_bins
        Cells of a column, with those for missing and for unknown values.
    boosting_rounds
        Times that each column is boosted.
    max_leaves
        Leaves of the tree of one column in one round.
    learning_rate
        Of each step.
    """

    max_bins: Annotated[int, Range(3, 2**15)] = 32
    boosting_rounds: Whole = 300
    max_leaves: Annotated[int, Range(2, 2**15)] = 3
    learning_rate: Positive = 0.01
