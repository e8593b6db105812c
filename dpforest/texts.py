"""JSON and YAML that somebody else wrote, as plain data that all code behind can work with; and words for cells."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import yaml

from dpforest.errors import DPForestError, printable

# The C parser, where PyYAML was built with it: ten times as fast.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DEEPEST = 60  # levels; far less than what Python can walk
_LARGEST = 10**300
_MOST = 10_000_000
_LINE_ENDS = "\t\r\n"
_FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")  # beginnings of a cell that spreadsheets calculate; some wide


class BadText(DPForestError):
    """A text is no plain data."""


def parse_json(text: str) -> Any:
    """Plain data of a JSON text; what is large or deep about it is left to `check_plain`.

    Raises
    ------
    BadText
        It is not valid.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:  # also an integer of thousands of digits
        raise BadText(f"not valid JSON (was it cut short?): {error}") from error


def parse_yaml(text: str) -> Any:
    """Plain data of a YAML text.

    Raises
    ------
    BadText
        It is not valid, or see `check_plain`.
    """
    try:
        plain = yaml.load(text, Loader=_LOADER)
    except Exception as error:
        # PyYAML lets errors of all kinds through: of a date that does not exist, of a number without digits.
        raise BadText(f"not valid YAML: {error or 'nested too deeply'}") from error
    check_plain(plain, len(text) + 1)
    return plain


def check_plain(plain: Any, most: int = _MOST) -> None:
    """Refuse data that is nested too deeply, too large, or holds whole numbers that no float can hold.

    Parameters
    ----------
    plain : object
        As parsers make it. What YAML repeats by an alias counts as often as it is there, so that a text of a few lines
        does not become gigabytes in the words of an error.
    most : int
        Values and characters that it may have.

    Raises
    ------
    BadText
    """
    size = 0
    left = [(plain, 0)]
    while left:
        value, depth = left.pop()
        size += 1
        if isinstance(value, str | bytes):
            size += len(value)
        elif isinstance(value, int) and abs(value) > _LARGEST:
            raise BadText("a whole number has more than 300 digits: write one of usual size")
        elif isinstance(value, Mapping | list | tuple | set | frozenset):
            if depth >= _DEEPEST:
                raise BadText(f"nested deeper than {_DEEPEST} levels: write it flatter")
            left += [(part, depth + 1) for part in value]
            if isinstance(value, Mapping):
                left += [(part, depth + 1) for part in value.values()]
        if size > most:
            raise BadText(f"more than {most} values and characters: write less, and no aliases that multiply")


def harmless_cell(text: str) -> str:
    """Words of others as a cell of a table that no spreadsheet calculates and no terminal obeys; a number stays one."""
    text = printable(text, but=_LINE_ENDS)  # a cell with those is quoted
    try:
        float(text)  # "-1" is a word as any other
    except ValueError:
        return f"'{text}" if text.startswith(_FORMULA) else text
    return text
