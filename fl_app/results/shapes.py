"""What the values of a run folder must be, for all that reads them: one damaged value costs its run and no other."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from dpforest.errors import one_line
from dpforest.guarantee import Neighbours
from strategies.metrics import metrics_of

_LARGEST = 1e150  # squares of such numbers can still be added up
_LONGEST = 4096  # characters of a text, which may be a path
_MOST_CHARACTERS = 60
_MISSING = object()


class Misshapen(ValueError):
    """A value is not what its place in a run folder holds."""


@dataclass(frozen=True)
class Shape:
    """What a value must be.

    Parameters
    ----------
    words : str
        After "must be".
    fits : callable of object to bool
    """

    words: str
    fits: Callable[[Any], bool]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and value == int(value)


def _is_budget(value: Any) -> bool:
    return value == "inf" or (isinstance(value, float) and value == math.inf) or (_is_number(value) and value >= 0)


def _are_intervals(value: Any) -> bool:
    known = {metric.name for metric in metrics_of()}
    pairs = value.values() if isinstance(value, dict) and value.keys() <= known else [()]
    return all(isinstance(ends, list) and len(ends) == 2 and all(map(_is_number, ends)) for ends in pairs)


def _is_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _or_nothing(shape: Shape) -> Shape:
    return Shape(f"{shape.words}, or nothing", lambda value: value is None or shape.fits(value))


def _each(shape: Shape, kind: type[dict[str, Any]] | type[list[Any]], plural: str) -> Shape:
    def fits(value: Any) -> bool:
        return isinstance(value, kind) and all(map(shape.fits, value.values() if isinstance(value, dict) else value))

    return Shape(plural, fits)


def _of_numbers(shape: Shape) -> Shape:
    """A mapping of that shape from whole numbers, which are text in JSON."""
    words = f"{shape.words}, from whole numbers"
    return Shape(words, lambda value: shape.fits(value) and all(key.isdecimal() and len(key) < 10 for key in value))


_NUMBER = Shape("a number of usual size", _is_number)
_SIZE = Shape("a number of usual size, at least 0", lambda value: _is_number(value) and value >= 0)
_COUNT = Shape("a whole number, at least 0", _is_count)
_WHOLE = Shape("a whole number", lambda value: _is_number(value) and isinstance(value, int))
_EPSILON = Shape("a number, at least 0, or inf", _is_budget)
_DELTA = Shape("a number from 0 to 1", lambda value: _is_number(value) and 0 <= value <= 1)
_NAME = Shape("a name", _is_name)
_TEXT = Shape("text", lambda value: isinstance(value, str))
_FLAG = Shape("true or false", lambda value: isinstance(value, bool))
_MAPPING = Shape("a mapping", lambda value: isinstance(value, Mapping))
_NUMBERS = _each(_NUMBER, dict, "a mapping to numbers")
_SCORE = Shape("a number of usual size, or nothing", lambda value: _is_nothing(value) or _is_number(value))
_SIZE_OR_NONE = Shape(_SIZE.words + ", or nothing", lambda value: _is_nothing(value) or _SIZE.fits(value))

_SCORES = {metric.name: _SCORE for metric in metrics_of()}
_CONFIG = {
    "strategy": _MAPPING,
    "strategy.name": _NAME,
    "strategy.attack_share": _or_nothing(_NUMBER),
    "dataset": _MAPPING,
    "dataset.name": _NAME,
    "partition": _MAPPING,
    "partition.kind": _NAME,
    "partition.clients": _or_nothing(_COUNT),
    "partition.seed": _or_nothing(_WHOLE),
    "evaluation": _MAPPING,
    "evaluation.split": _NAME,
    "evaluation.part": _NAME,
    "evaluation.fold": _WHOLE,
    "evaluation.seed": _or_nothing(_WHOLE),
    "evaluation.public_share": _DELTA,
    "evaluation.metrics": _NAME,
    "privacy": _MAPPING,
    "privacy.epsilon": _EPSILON,
    "seed": _WHOLE,
    "rounds": _or_nothing(_COUNT),
}
_METRICS = {
    **_SCORES,
    "worst_client": _SCORE,
    "best_client": _SCORE,
    "intervals": Shape("a mapping of metrics to two numbers", _are_intervals),
    **dict.fromkeys(("clients", "trained", "rounds", "test_rows", "public_rows", "failures"), _COUNT),
    **dict.fromkeys(("bytes_down", "bytes_up", "bytes_of_rows", "seconds", "trees", "nodes", "depth"), _SIZE),
    "expected_noise_of_leaf_counts": _SIZE,
    "classes": _each(_NAME, list, "a list of names"),
    "confusion": _each(_each(_SIZE, list, "counts"), list, "a table of counts"),
    "importances": _NUMBERS,
    "owner_accuracy": _of_numbers(_NUMBERS),
    "memorization_rate": _of_numbers(_each(_SCORE, dict, "a mapping to numbers")),
    "noise": _each(_MAPPING, dict, "a mapping to what the noise of each kind was"),
    "comparison_methods": _each(_MAPPING, dict, "a mapping to what each method reached"),
    **dict.fromkeys(("epsilon_a_round", "epsilon_counted"), _EPSILON),
    "left_out": _each(_TEXT, dict, "a mapping to text"),
    "ended_early": _TEXT,
}
_PRIVACY = {
    **dict.fromkeys(("guarantee", "unit", "trust", "record"), _TEXT),
    **dict.fromkeys(("unit_name", "trust_model", "note", "noise", "evaluation", "dpforest"), _TEXT),
    "records_an_hour": _or_nothing(_COUNT),
    "holds": _FLAG,
    "neighbours": Shape(" or ".join(Neighbours), lambda value: value in list(Neighbours)),
    "reasons": _each(_TEXT, list, "a list of texts"),
    "epsilon": _EPSILON,
    "delta": _DELTA,
    "clients": _each(_MAPPING, dict, "a mapping to ledgers"),
}
_IN_EVERY_CONFIG = (
    "strategy.name", "dataset.name", "partition.kind", "evaluation.split", "evaluation.part", "evaluation.fold",
    "privacy.epsilon", "seed", "rounds",
)  # fmt: skip
_IN_ALL_METRICS = ("clients", "rounds", "bytes_down", "bytes_up", "seconds")
_IN_EVERY_PRIVACY = ("guarantee", "unit", "trust", "record", "epsilon", "delta", "clients")
_LEDGER = {
    "budget": _MAPPING,
    "budget.epsilon": _EPSILON,
    "budget.delta": _DELTA,
    "epsilon": _EPSILON,
    "entries": _each(_MAPPING, list, "a list of releases"),
}
_ENTRY = {
    **dict.fromkeys(("what", "mechanism", "note", "rows"), _TEXT),
    **dict.fromkeys(("epsilon", "mu"), _EPSILON),
    **dict.fromkeys(("scale", "sensitivity"), _or_nothing(_SIZE)),
    "times": _COUNT,
    "sampling": _DELTA,
    "protected": _FLAG,
}
_NOISE = {
    "numbers": _COUNT,
    **dict.fromkeys(("mean", "largest", "expected_mean"), _SIZE),
    **dict.fromkeys(("relative_change", "document_mean", "document_largest"), _or_nothing(_SIZE)),
}
_IN_TABLES = {
    **_SCORES,
    **dict.fromkeys(("client", "round"), _COUNT),
    **dict.fromkeys(("test_rows", "answered", "asked", "bytes_down", "bytes_up", "failures"), _SIZE_OR_NONE),
    **dict.fromkeys(("train_seconds", "evaluation_bytes_down", "evaluation_seconds"), _SIZE_OR_NONE),
}
_NEEDED = {"clients.csv": ("client", "trains"), "rounds.csv": ("round", "bytes_down", "bytes_up")}

_INTERVAL = Shape(
    "a number with the ends of its interval",
    lambda value: isinstance(value, list) and len(value) == 3 and all(map(_is_number, value)),
)
_RATES = _each(_or_nothing(_INTERVAL), dict, "a mapping to intervals")
_WORDS = _each(_TEXT, list, "a list of texts")
_LINES = _each(_MAPPING, list, "a list of lines")
_ATTACK = {
    "method": _NAME,
    "epsilon": _EPSILON,
    "delta": _DELTA,
    "holds": _FLAG,
    "models": _COUNT,
    "records": _COUNT,
    "seconds": _SIZE,
    "membership": _LINES,
    "score": _or_nothing(_NUMBER),
    "allowed": _or_nothing(_MAPPING),
    "influence": _or_nothing(_MAPPING),
    "reconstruction.lines": _LINES,
    "reconstruction.note": _TEXT,
    "attributes.lines": _LINES,
    "attributes.note": _TEXT,
    "controls": _LINES,
    "words": _WORDS,
}
_ALLOWED = {"area": _DELTA, "balanced_accuracy": _DELTA, "true_positives": _each(_DELTA, dict, "a mapping to shares")}
_INFLUENCE = {"kind": _NAME, **dict.fromkeys(("paid", "largest", "mean"), _SIZE)}
_MEMBERSHIP = {
    **dict.fromkeys(("of", "level", "attack", "whose"), _NAME),
    **dict.fromkeys(("area", "balanced_accuracy"), _INTERVAL),
    "true_positives": _RATES,
    **dict.fromkeys(("members", "others"), _COUNT),
}
_GUESS = {"of": _TEXT, "attack": _NAME, "needs_model": _FLAG, "cells": _INTERVAL}
_CONTROL = {"name": _NAME, "attack": _NAME, "area": _INTERVAL, "broke": _FLAG}


_BUDGET_OF_AUDIT = {"experiment.strategy", "experiment.privacy.epsilon", "experiment.privacy.delta"}
_RATES_OF_EVENT = {f"rates.{name}": _COUNT for name in ("hits", "draws", "false_hits", "false_draws")}
_FOUND = {**dict.fromkeys(("epsilon", "mu"), _EPSILON), "by": _TEXT, "repetitions": _COUNT, **_RATES_OF_EVENT}
_AUDIT = {
    **dict.fromkeys(("method", "created", "dpforest"), _NAME),
    **dict.fromkeys(("guarantee", "unit", "neighbours"), _TEXT),
    **dict.fromkeys(("claims", "violated", "has_power"), _FLAG),
    **dict.fromkeys(("culprits", "leaks"), _WORDS),
    **dict.fromkeys(("releases", "worlds"), _LINES),
    "result": _MAPPING,
    "result.epsilon": _EPSILON,
    **dict.fromkeys(("result.delta", "result.confidence"), _DELTA),
    **dict.fromkeys(("result.violated", "result.has_power"), _FLAG),
    "result.found": _MAPPING,
    "result.half_noise": _or_nothing(_MAPPING),
    "field": _or_nothing(_MAPPING),
    "seconds": _SIZE,
    "experiment": _MAPPING,
    **{f"experiment.{key}": shape for key, shape in _CONFIG.items()},
    "experiment.privacy.delta": _DELTA,
}
_RELEASE = {"what": _TEXT, **dict.fromkeys(("claim", "lower_bound", "half_noise"), _EPSILON)}
_WORLD = {"name": _TEXT, "auroc": _DELTA, "note": _TEXT}


def check_audit(found: Mapping[str, Any]) -> None:
    """Raise `Misshapen` unless ``audit.json`` holds what reports read."""
    place = "audit.json"
    _check_values(place, found)
    _check(place, found, _AUDIT, {key for key in _AUDIT if not key.startswith("experiment.")} | _BUDGET_OF_AUDIT)
    bounds = {"found": found["result"]["found"], "half_noise": found["result"]["half_noise"], "field": found["field"]}
    for name, bound in bounds.items():
        if bound is not None:
            _check(f"{place}: {name}", bound, _FOUND, _FOUND)
    for name, shapes in (("releases", _RELEASE), ("worlds", _WORLD)):
        for number, line in enumerate(found[name], 1):
            _check(f"{place}: {name} {number}", line, shapes, shapes)


def check_attack(found: Mapping[str, Any]) -> None:
    """Raise `Misshapen` unless ``attack.json`` holds what reports read."""
    place = "attack.json"
    _check_values(place, found)
    _check(place, found, _ATTACK, _ATTACK)
    for key, shapes in (("allowed", _ALLOWED), ("influence", _INFLUENCE)):
        if found[key] is not None:
            _check(f"{place}: {key}", found[key], shapes, shapes)
    tables = {
        "membership": (found["membership"], _MEMBERSHIP),
        "controls": (found["controls"], _CONTROL),
        "reconstruction": (found["reconstruction"]["lines"], _GUESS | {"rows": _INTERVAL}),
        "attributes": (found["attributes"]["lines"], _GUESS | {"whose": _NAME}),
    }
    for name, (lines, shapes) in tables.items():
        for number, line in enumerate(lines, 1):
            _check(f"{place}: {name} {number}", line, shapes, shapes)


def check_config(config: Mapping[str, Any]) -> None:
    """Raise `Misshapen` unless the keys of ``config.yaml`` that reports read hold what they should."""
    _check_values("config.yaml", config)
    _check("config.yaml", config, _CONFIG, _IN_EVERY_CONFIG)


def check_metrics(metrics: Mapping[str, Any]) -> None:
    """Raise `Misshapen` unless the keys of ``metrics.json`` that reports read hold what they should."""
    _check_values("metrics.json", metrics)
    _check("metrics.json", metrics, _METRICS, _IN_ALL_METRICS)
    confusion = metrics.get("confusion", [])
    sizes = {len(confusion), *(len(line) for line in confusion)}
    if len(sizes) > 1 or (confusion and sizes != {len(metrics.get("classes", []))}):
        raise Misshapen("metrics.json: confusion must be a square table with a line for each of the classes")
    for kind, facts in metrics.get("noise", {}).items():
        _check(f"metrics.json: noise on {kind}", facts, _NOISE, _NOISE)


def check_privacy(privacy: Mapping[str, Any]) -> None:
    """Raise `Misshapen` unless the keys of ``privacy.json`` that reports read hold what they should."""
    _check_values("privacy.json", privacy)
    newer = ("unit_name", "neighbours", "reasons") if "holds" in privacy else ()
    _check("privacy.json", privacy, _PRIVACY, {*_IN_EVERY_PRIVACY, *newer})
    for client, ledger in privacy["clients"].items():
        place = f"privacy.json: ledger of client {client}"
        _check(place, ledger, _LEDGER, _LEDGER)
        for number, entry in enumerate(ledger["entries"], 1):
            _check(f"{place}: release {number}", entry, _ENTRY, _ENTRY.keys() - {"scale", "sensitivity"})


def check_table(name: str, table: pd.DataFrame) -> None:
    """Raise `Misshapen` unless the columns of ``clients.csv`` or ``rounds.csv`` that reports read hold numbers."""
    needed = {*_NEEDED[name], *(["test_rows"] if name == "clients.csv" and set(_SCORES) & set(table) else [])}
    if missing := sorted(needed - set(table)):
        raise Misshapen(f"{name} has no column {missing[0]}")
    for column in map(str, table):
        shape = _shape_of(column)
        for value in table[column].tolist():
            if shape is not None and not shape.fits(value):
                raise _misshapen(name, column, value, shape)
            if isinstance(value, str):
                _check_text(name, value)


def _shape_of(column: str) -> Shape | None:
    """What a column holds; scores on public rows, and of methods run for comparison, have names of their own."""
    if column.removeprefix("public_") in _SCORES or column.startswith(tuple(f"{name}_" for name in _SCORES)):
        return _SCORE
    return _SIZE_OR_NONE if column.endswith("_ms") else _IN_TABLES.get(column)


def _check(place: str, plain: Mapping[str, Any], shapes: Mapping[str, Shape], needed: Collection[str]) -> None:
    """Hold the keys with dots of a mapping against their shapes."""
    for key, shape in shapes.items():
        value: Any = plain
        for part in key.split("."):
            value = value.get(part, _MISSING) if isinstance(value, Mapping) else _MISSING
        if value is _MISSING:
            if key in needed:
                raise Misshapen(f"{place}: {key} is missing")
        elif not shape.fits(value):
            raise _misshapen(place, key, value, shape)


def _misshapen(place: str, key: str, value: Any, shape: Shape) -> Misshapen:
    return Misshapen(f"{place}: {key} is {one_line(ascii(value), _MOST_CHARACTERS)}, and must be {shape.words}")


def _check_values(place: str, plain: Any) -> None:
    """All keys and values are such as JSON has, and texts can be written."""
    for value in _values(place, plain):
        if isinstance(value, str):
            _check_text(place, value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            if _LARGEST < abs(value) < math.inf:
                raise Misshapen(f"{place}: {one_line(str(value), _MOST_CHARACTERS)} is larger than any number there")
        elif value is not None and not isinstance(value, bool):
            raise Misshapen(f"{place}: {one_line(ascii(value), _MOST_CHARACTERS)} is no text, number, list or mapping")


def _check_text(place: str, text: str) -> None:
    if len(text) > _LONGEST or any("\ud800" <= character <= "\udfff" for character in text):
        raise Misshapen(f"{place}: {one_line(ascii(text), _MOST_CHARACTERS)} is longer than {_LONGEST}, or not text")


def _values(place: str, plain: Any) -> Iterator[Any]:
    if isinstance(plain, Mapping):
        for key, value in plain.items():
            if not isinstance(key, str):
                raise Misshapen(f"{place}: {one_line(ascii(key), _MOST_CHARACTERS)} is a key, and must be text")
            yield key
            yield from _values(place, value)
    elif isinstance(plain, list):
        for value in plain:
            yield from _values(place, value)
    else:
        yield plain
