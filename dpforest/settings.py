"""Settings: frozen dataclasses whose annotations say what is allowed and whose docstrings say what it means.

Checks, the sentences that refuse a value, and the list of options follow from these two. An annotation is made of
``int``, ``float``, ``bool`` and ``str``, of ``Literal`` words, ``None``, lists and mappings, joined by ``|``, and
narrowed by ``Annotated[int, Range(1, 20)]`` or ``Annotated[str, OneOf(names)]``.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
import sys
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, Self, Union, get_args, get_origin

from dpforest.errors import DPForestError, did_you_mean

Auto = Literal["auto"]
# Characters of a wrong value that an error shows.
_LONGEST = 200


@dataclass(frozen=True)
class Range:
    """Allowed numbers; infinity is one only where that is said.

    Parameters
    ----------
    low, high : float
        The ends.
    above, below : bool
        Whether the lower or the upper end itself is refused.
    infinite : bool
        Whether infinity is allowed.
    """

    low: float = -math.inf
    high: float = math.inf
    above: bool = False
    below: bool = False
    infinite: bool = False

    def __contains__(self, value: float) -> bool:
        if not abs(value) <= sys.float_info.max:
            return self.infinite and value == math.inf
        return (value > self.low or (value == self.low and not self.above)) and (
            value < self.high or (value == self.high and not self.below)
        )

    def words(self, whole: bool) -> str:
        """What is allowed, such as "a number from 0 to below 1"."""
        kind = "a whole number" if whole else "a number"
        low, high = (str(end) if isinstance(end, int) else f"{end:g}" for end in (self.low, self.high))
        if math.isinf(self.high):
            if math.isinf(self.low):
                return kind
            kind = kind if whole else "a positive number" if self.infinite else "a finite number"
            words = f"{kind} {'above' if self.above else 'from'} {low}"
            return f"{words}, or inf" if self.infinite else words
        if self.above:
            return f"{kind} above {low} and {'below' if self.below else 'at most'} {high}"
        return f"{kind} from {low} to below {high}" if self.below else f"{kind} from {low} to {high}"


def inside(low: float, high: float) -> Range:
    """Numbers between two that are not allowed themselves."""
    return Range(low, high, above=True, below=True)


class OneOf:
    """Allowed words that stand in a table; words that stand nowhere else are a ``Literal``."""

    def __init__(self, names: Collection[str]) -> None:
        self.names = tuple(names)


@dataclass(frozen=True)
class Says:
    """The sentence for what is refused, after "must", where the usual one says less: a unit, or what to do."""

    words: str


Share = Annotated[float, Range(0, 1, below=True)]
InnerShare = Annotated[float, inside(0, 1), Says("be a number between 0 and 1")]
Positive = Annotated[float, Range(0, above=True)]
Whole = Annotated[int, Range(1, 10**9)]
FromZero = Annotated[int, Range(0, 10**9)]
Seed = Annotated[int, Range(0, 2**63 - 1)]


@dataclass(frozen=True)
class Settings:
    """Base of all settings: values are checked when they are made.

    A subclass checks what its values mean together in its own ``__post_init__``, after this one. Lists become tuples.
    """

    # What stands before a setting's name in an error, and the error's type.
    group: ClassVar[str] = ""
    error: ClassVar[type[DPForestError]] = DPForestError
    # Other settings that explain those of the same name.
    explained_by: ClassVar[tuple[type[Settings], ...]] = ()

    def __post_init__(self) -> None:
        for name, hint in _hints(type(self)).items():
            value = getattr(self, name)
            if sentence := refusal(value, hint, self.unknown_word):
                raise self.error(f"{self.group}{name}{sentence}")
            if isinstance(value, list):
                object.__setattr__(self, name, tuple(value))

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any], where: str) -> Self:
        """Settings with these values, and the default of each other one.

        Raises
        ------
        DPForestError
            An option is unknown (the nearest is named), missing, or has a bad value.
        """
        for name in values:
            if name not in _hints(cls):
                raise cls.error(cls.unknown_option(str(name), where))
        for field in dataclasses.fields(cls):
            if field.name not in values and _default(field) is dataclasses.MISSING:
                raise cls.error(f"{where}: missing option {field.name!r}")
        return cls(**values)

    @classmethod
    def unknown_option(cls, name: str, where: str) -> str:
        """The sentence about an option that does not exist."""
        known = list(_hints(cls))
        return f"{where}: unknown option {quoted(name)}{did_you_mean(name, known)} (options: {', '.join(known)})"

    @staticmethod
    def unknown_word(value: Any, words: Sequence[str]) -> str:
        """The sentence about a value that is none of the words."""
        return f"{quoted(value)} must be {_one_of(words)}{did_you_mean(value, words)}"


@dataclass(frozen=True)
class Option:
    """One setting, as the documentation shows it.

    Parameters
    ----------
    name : str
    type : str
        Such as ``int | str``.
    default : object
        `dataclasses.MISSING` where one must be given.
    allowed : str
        Values, in words.
    meaning : str
        From the docstring.
    """

    name: str
    type: str
    default: Any
    allowed: str
    meaning: str


def describe(kind: type[Settings]) -> list[Option]:
    """All settings of a dataclass, in its order."""
    hints, meanings = _hints(kind), _meanings(kind)
    return [
        Option(f.name, _type_words(hints[f.name]), _default(f), allowed_words(hints[f.name]), meanings.get(f.name, ""))
        for f in dataclasses.fields(kind)
    ]


def check_setting(name: str, value: Any, hint: Any, error: type[DPForestError] = DPForestError) -> None:
    """Refuse a value that its annotation does not allow.

    Raises
    ------
    DPForestError
        Of type ``error``.
    """
    if sentence := refusal(value, hint):
        raise error(f"{name}{sentence}")


def refusal(value: Any, hint: Any, unknown_word: Any = Settings.unknown_word) -> str | None:
    """The rest of the sentence about a value that is not allowed, after its name; None for one that is.

    Of a list or mapping it names the first part that is not allowed.
    """
    hint, notes = _open(hint)
    if _fits(value, hint, notes):
        return None
    said = next((note.words for note in reversed(notes) if isinstance(note, Says)), None)
    for each in _alternatives(hint):
        for place, part, inner in _parts(value, _open(each)[0]):
            if not said and (sentence := refusal(part, inner, unknown_word)):
                return place + sentence
    if said:
        return f" {quoted(value)} must {said}"
    words = _words_of(hint, notes)
    if isinstance(value, str):
        words = words or next(
            (note.names for each in _alternatives(hint) for note in _open(each)[1] if isinstance(note, OneOf)), ()
        )
    if words and all(isinstance(word, str) for word in words):
        return f" {unknown_word(value, words)}"
    return f" {quoted(value)} must be {_allowed(hint, notes)}"


def allowed_words(hint: Any) -> str:
    """Values that an annotation allows, in words."""
    return _allowed(*_open(hint))


def _fits(value: Any, hint: Any, notes: Sequence[Any] = ()) -> bool:
    if len(alternatives := _alternatives(hint)) > 1:
        return any(_fits(value, *_open(each)) for each in alternatives)
    if words := _words_of(hint, notes):
        return any(value == word and type(value) is type(word) for word in words)
    if hint in (int, float):
        if isinstance(value, bool) or not isinstance(value, int if hint is int else int | float):
            return False
        ranges = [note for note in notes if isinstance(note, Range)] or [Range()]
        return all(value in each for each in ranges)
    kind = get_origin(hint) or hint
    if kind is Any:
        return True
    if kind is tuple:
        return _is_list(value) and len(value) == _length(hint, value) and _all_fit(value, hint)
    if kind is Sequence:
        return _is_list(value) and _all_fit(value, hint)
    return isinstance(value, kind) and _all_fit(value, hint)


def _all_fit(value: Any, hint: Any) -> bool:
    return all(_fits(part, *_open(inner)) for _, part, inner in _parts(value, hint))


def _parts(value: Any, hint: Any) -> Iterator[tuple[str, Any, Any]]:
    """Parts of a list or mapping, each with its place and annotation; none for what is no such thing."""
    kind, inner = get_origin(hint), get_args(hint)
    if kind is Mapping and isinstance(value, Mapping):
        for key, each in value.items():
            yield from (("", key, inner[0]), (f".{key}", each, inner[1]))
    elif kind in (tuple, Sequence) and _is_list(value) and len(value) == _length(hint, value):
        for position, each in enumerate(value):
            yield "", each, inner[0 if kind is Sequence or inner[-1] is ... else position]


def _length(hint: Any, value: Sequence[Any]) -> int:
    inner = get_args(hint)
    return len(value) if get_origin(hint) is Sequence or inner[-1] is ... else len(inner)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _open(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """An annotation, and what narrows it."""
    return (hint.__origin__, hint.__metadata__) if get_origin(hint) is Annotated else (hint, ())


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _words_of(hint: Any, notes: Sequence[Any]) -> tuple[Any, ...]:
    """The allowed values, where all of them can be listed."""
    for note in notes:
        if isinstance(note, OneOf):
            return note.names
    words: list[Any] = []
    for each in _alternatives(hint):
        if get_origin(each) is not Literal:
            return ()
        words.extend(get_args(each))
    return tuple(words)


def quoted(value: Any) -> str:
    """A wrong value as an error shows it."""
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _one_of(words: Sequence[Any]) -> str:
    return ("one of " if len(words) > 1 else "") + ", ".join(map(str, words))


def _allowed(hint: Any, notes: Sequence[Any]) -> str:
    if words := _words_of(hint, notes):
        return _one_of(words)
    alternatives = _alternatives(hint)
    if len(alternatives) > 1:
        texts = [", ".join(map(str, _words_of(*_open(each)))) or allowed_words(each) for each in alternatives]
        return f"{', '.join(texts[:-1])}, or {texts[-1]}"
    if hint in (int, float):
        return next((note for note in notes if isinstance(note, Range)), Range()).words(hint is int)
    inner = get_args(hint)
    if get_origin(hint) is tuple and inner[-1] is not ...:
        return f"a list of {len(inner)}: {', '.join(map(allowed_words, inner))}"
    if get_origin(hint) in (tuple, Sequence):
        one = allowed_words(inner[0])
        return f"a list of {one.removeprefix('a ').replace('number', 'numbers')}"
    if get_origin(hint) is Mapping:
        return f"a mapping of {allowed_words(inner[0])} to {allowed_words(inner[1])}"
    if isinstance(hint, type) and issubclass(hint, Settings):
        return "a group of settings"
    return {bool: "true or false", str: "a text", types.NoneType: "null"}.get(hint, "anything")


def _type_words(hint: Any) -> str:
    hint, _ = _open(hint)
    names = []
    for each in _alternatives(hint):
        kind = get_origin(_open(each)[0]) or _open(each)[0]
        names.append(
            {tuple: "list", Sequence: "list", Mapping: "mapping", types.NoneType: "null", Literal: "str"}.get(kind)
            or str(getattr(kind, "__name__", kind))
        )
    return " | ".join(dict.fromkeys(names))


def _default(field: dataclasses.Field[Any]) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _read_hints(kind: type[Settings]) -> dict[str, Any]:
    hints = typing.get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


# mypy takes the hash of an instance for that of its class.
_hints: Callable[[Any], dict[str, Any]] = cache(_read_hints)


def _meanings(kind: type[Settings]) -> Mapping[str, str]:
    """What each setting means: as its own class says, or the one that it comes from."""
    found: dict[str, str] = {}
    for other in reversed(kind.explained_by):
        found |= _meanings(other)
    for each in reversed(kind.__mro__):
        if dataclasses.is_dataclass(each):
            found |= _parameters(each.__doc__ or "")
    return found


def _parameters(text: str) -> dict[str, str]:
    """The section "Parameters" of a numpydoc docstring, in one line a parameter."""
    _, _, section = inspect.cleandoc(text).partition("Parameters\n----------\n")
    section = re.split(r"\n\n\w+\n---", section)[0]
    found: dict[str, list[str]] = {}
    names: list[str] = []
    for line in filter(None, section.splitlines()):
        if line.startswith(" "):
            for name in names:
                found.setdefault(name, []).append(line.strip())
        else:
            names = [name.strip() for name in line.split(" : ")[0].split(",")]
    return {name: " ".join(parts) for name, parts in found.items()}
