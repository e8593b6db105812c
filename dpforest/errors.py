"""Errors of the library: each names the value, what is allowed and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_LONGEST = 2000


def one_line(text: str, longest: int = _LONGEST) -> str:
    """Words that somebody else may have had a part in, fit for a log and a terminal.

    Without line breaks and escape codes, and no longer than so many characters.
    """
    plain = "".join(character if character.isprintable() else " " for character in text[: 10 * longest])
    return " ".join(plain.split())[:longest]


def printable(name: str, but: str = "") -> str:
    """A name of somebody else's, with escape codes and the like written out in letters, but for some characters."""
    if name.isprintable():
        return name
    return "".join(c if c.isprintable() or c in but else c.encode("unicode_escape").decode("ascii") for c in name)


class DPForestError(ValueError):
    """Base of all errors that bad input to dpforest raises.

    Its words are one line, whatever names and values of others they quote.
    """

    def __str__(self) -> str:
        return one_line(super().__str__())


class SchemaError(DPForestError):
    """A schema is malformed, or data does not fit the schema."""


class BudgetExceeded(DPForestError):
    """A release would cost more than the privacy budget has left."""


class NothingToLearn(DPForestError):
    """No model stands out of the noise that the budget asks for: another try would end like this one."""


class InvalidForest(DPForestError):
    """A forest (from a file or from the network) breaks a structural rule."""


class PrivacyLeakWarning(UserWarning):
    """Something about the data becomes known without a mechanism: the guarantee is lost."""


def did_you_mean(name: object, options: Iterable[str]) -> str:
    """The end of a sentence, "; did you mean 'x'?" with the nearest option, or nothing where none is near."""
    near = difflib.get_close_matches(str(name)[:100], list(options), n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""
