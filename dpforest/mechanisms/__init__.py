"""Mechanisms: each draws its noise and writes its cost to the ledger; nothing else touches data."""

from dpforest.mechanisms.counts import DiscreteLaplaceCounts
from dpforest.mechanisms.gaussian import DiscreteGaussianSums
from dpforest.mechanisms.selection import SELECTIONS, Selection
from dpforest.mechanisms.whole import whole_numbers

__all__ = ["SELECTIONS", "DiscreteGaussianSums", "DiscreteLaplaceCounts", "Selection", "whole_numbers"]
