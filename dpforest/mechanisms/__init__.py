"""Mechanisms: each draws its noise and writes its cost to the ledger; nothing else touches data."""

from dpforest.mechanisms.base import Cost, Mechanism, Paid, Witness, witnessed
from dpforest.mechanisms.counts import DiscreteLaplaceCounts
from dpforest.mechanisms.gaussian import DiscreteGaussianSums, scaled_sums
from dpforest.mechanisms.real_sums import GaussianSums
from dpforest.mechanisms.row_vectors import squared_norm, whole_sum
from dpforest.mechanisms.selection import SELECTIONS, Selection
from dpforest.mechanisms.vectors import clipped_vector, unit_vector
from dpforest.mechanisms.whole import whole_numbers

__all__ = [
    "SELECTIONS",
    "Cost",
    "DiscreteGaussianSums",
    "DiscreteLaplaceCounts",
    "GaussianSums",
    "Mechanism",
    "Paid",
    "Selection",
    "Witness",
    "clipped_vector",
    "scaled_sums",
    "squared_norm",
    "unit_vector",
    "whole_numbers",
    "whole_sum",
    "witnessed",
]
