"""Checks of settings: one line that names the value and what is allowed."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from dpforest.errors import DPForestError


def check_whole(name: str, value: Any, low: int = 1) -> None:
    """Refuse what is no whole number from ``low``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < low:
        raise DPForestError(f"{name} {value!r} must be a whole number from {low}")


def check_positive(name: str, value: Any) -> None:
    """Refuse what is no finite number above 0."""
    if not _is_number(value) or value <= 0:
        raise DPForestError(f"{name} {value!r} must be a finite number above 0")


def check_from_zero(name: str, value: Any) -> None:
    """Refuse what is no finite number from 0."""
    if not _is_number(value) or value < 0:
        raise DPForestError(f"{name} {value!r} must be a finite number from 0")


def check_flag(name: str, value: Any) -> None:
    """Refuse what is neither true nor false."""
    if not isinstance(value, bool):
        raise DPForestError(f"{name} {value!r} must be true or false")


def check_share(name: str, value: Any) -> None:
    """Refuse what is no number from 0 to below 1."""
    if not _is_number(value) or not 0 <= value < 1:
        raise DPForestError(f"{name} {value!r} must be a number from 0 to below 1")


def check_choice(name: str, value: Any, allowed: Collection[str]) -> None:
    """Refuse what is not among the allowed words."""
    if value not in allowed:
        raise DPForestError(f"{name} {value!r} must be one of {', '.join(allowed)}")


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, int | float) and math.isfinite(value)
