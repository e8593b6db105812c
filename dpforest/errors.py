"""Errors of the library: each names the value, what is allowed and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class DPForestError(ValueError):
    """Base of all errors that bad input to dpforest raises."""


class SchemaError(DPForestError):
    """A schema is malformed, or data does not fit the schema."""


class BudgetExceeded(DPForestError):
    """A release would cost more than the privacy budget has left."""


class InvalidForest(DPForestError):
    """A forest (from a file or from the network) breaks a structural rule."""


class PrivacyLeakWarning(UserWarning):
    """Something about the data becomes known without a mechanism: the guarantee is lost."""


def did_you_mean(name: object, options: Iterable[str]) -> str:
    """ "; did you mean 'x'?" with the nearest option, or nothing where none is near."""
    near = difflib.get_close_matches(str(name)[:100], list(options), n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""
