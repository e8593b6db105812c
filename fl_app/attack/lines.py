"""Lines of the table of membership, as JSON holds them."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from dpforest.attacks import Estimate, rates


def line(
    of: str, level: str, name: str, whose: str, scores: np.ndarray, members: np.ndarray, groups: np.ndarray
) -> dict[str, Any]:
    """A line of the table of membership."""
    found = rates(scores.ravel(), members.ravel(), groups)
    return {
        "of": of,
        "level": level,
        "attack": name,
        "whose": whose,
        "area": plain(found.area),
        "balanced_accuracy": plain(found.balanced_accuracy),
        "true_positives": {f"{rate:g}": plain(each) for rate, each in found.true_positives.items()},
        "members": found.members,
        "others": found.others,
    }


def plain(estimate: Estimate | None) -> list[float] | None:
    """An estimate as JSON: its value and the ends of its interval."""
    return None if estimate is None else [round(each, 5) for each in dataclasses.astuple(estimate)]
