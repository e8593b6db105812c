"""Growers: pure functions (rows, schema, settings, budget, noise) -> trees."""

from dpforest.growers.grow import grow_classifier, planned_entries
from dpforest.growers.leaves import balance_votes, finish_classifier
from dpforest.growers.settings import GrowerSettings, ResolvedSettings, resolve

__all__ = [
    "GrowerSettings",
    "ResolvedSettings",
    "balance_votes",
    "finish_classifier",
    "grow_classifier",
    "planned_entries",
    "resolve",
]
