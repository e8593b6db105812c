"""Checks of settings: a `DPForestError` in one line that names the value and what is allowed."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from dpforest.errors import DPForestError


def check_whole(name: str, value: Any, low: int = 1, high: int | None = None) -> None:
    """Refuse what is no whole number from ``low``, or to ``high`` if that is given."""
    if isinstance(value, bool) or not isinstance(value, int) or value < low or (high is not None and value > high):
        end = "" if high is None else f" to {high}"
        raise DPForestError(f"{name} {value!r} must be a whole number from {low}{end}")


def check_number(
    name: str, value: Any, low: float, high: float, open_ends: bool = False, open_low: bool = False
) -> None:
    """Refuse what is no finite number from ``low`` to ``high``, with or without the ends."""
    fits = isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high
    if fits and ((open_ends and value in (low, high)) or (open_low and value == low)):
        fits = False
    if not fits or math.isinf(value):
        words = f"between {low:g} and {high:g}" if open_ends else f"from {low:g} to {high:g}"
        raise DPForestError(f"{name} {value!r} must be a number {words}")


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
