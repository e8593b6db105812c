"""The options of a run with meaning, type and default, as the dataclasses of their settings tell them."""

from __future__ import annotations

import dataclasses
import inspect
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from omegaconf import DictConfig, OmegaConf

from fl_app.commands.settings import EngineSettings, RunSettings, TrackingSettings
from fl_app.config import check_overrides, load_config, option_groups, parse_overrides, plain_overrides, started_hydra
from fl_app.data import Evaluation, Partition
from fl_app.data.registry import SOURCES
from fl_app.experiment import Experiment, Privacy
from strategies.registry import get_method

_WIDTH = 100


class Option(NamedTuple):
    """One option: its type as its docstring says it, and what it means."""

    name: str
    type: str
    meaning: str


def options_text(overrides: Sequence[str]) -> str:
    """All options under some choices of strategy, data set and so on, with the values that they then have.

    Raises
    ------
    ConfigurationError
        A choice does not exist.
    """
    with started_hydra():
        overrides = plain_overrides(overrides)
        check_overrides(overrides)
        config = load_config(overrides)
        groups = option_groups(parse_overrides(overrides))
    return "\n".join(_lines(config, groups))


def _lines(config: DictConfig, groups: Mapping[str, list[str]]) -> Iterator[str]:
    chosen = config.hydra.runtime.choices
    for group, kind in _kinds(config).items():
        yield f"{group}={chosen[group]}  (there are {', '.join(groups[group])})" if group in groups else f"{group}."
        values = config.get(group, {})
        yield from _section(f"{group}.", kind, values, leave_out=("name",) if group in ("strategy", "dataset") else ())
    yield "others"
    parts = {*_kinds(config), "strategy", "dataset"}
    yield from _section("", Experiment, config, leave_out=tuple(parts))
    yield from _section("", RunSettings, config)
    for group in ("experiment", "case"):
        yield f"  {group}={chosen.get(group, 'null')}  (there are {', '.join(groups[group])})"


def _kinds(config: DictConfig) -> dict[str, type]:
    """The dataclass behind each group of options."""
    return {
        "strategy": get_method(config.strategy.name).settings,
        "dataset": SOURCES[config.dataset.name].Settings,
        "partition": Partition,
        "evaluation": Evaluation,
        "privacy": Privacy,
        "tracking": TrackingSettings,
        "engine": EngineSettings,
    }


def _section(prefix: str, kind: type, values: Mapping[str, Any], leave_out: Sequence[str] = ()) -> Iterator[str]:
    for option in describe(kind):
        if option.name in leave_out:
            continue
        yield f"  {prefix}{option.name} : {option.type}, default {_default(kind, option.name, values)}"
        yield from textwrap.wrap(option.meaning, _WIDTH, initial_indent="      ", subsequent_indent="      ")
    yield ""


def _default(kind: type, name: str, values: Mapping[str, Any]) -> str:
    """The value of the configuration, or the dataclass's own where no file sets it."""
    if name in values:
        value = values[name]
        return _text(OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value)
    (field,) = (each for each in dataclasses.fields(kind) if each.name == name)
    if field.default is not dataclasses.MISSING:
        return _text(field.default)
    return _text(field.default_factory()) if field.default_factory is not dataclasses.MISSING else "none: give one"


def _text(value: Any) -> str:
    """As an override would say it."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return str(value)


def describe(kind: type) -> list[Option]:
    """All fields of a dataclass with what its docstring, or that of a class it comes from, says of them."""
    meanings: dict[str, tuple[str, str]] = {}
    for each in reversed(kind.__mro__):
        if dataclasses.is_dataclass(each):
            meanings |= _parameters(each.__doc__ or "")
    fields = dataclasses.fields(kind)
    options = [(field, *meanings.get(field.name, ("", ""))) for field in fields]
    return [Option(field.name, words or str(field.type), meaning) for field, words, meaning in options]


def _parameters(docstring: str) -> dict[str, tuple[str, str]]:
    """Type and meaning of the parameters of a numpydoc docstring."""
    _, _, section = inspect.cleandoc(docstring).partition("Parameters\n----------\n")
    found: dict[str, tuple[str, str]] = {}
    names: list[str] = []
    for line in section.partition("\n\n")[0].splitlines():
        if not line.startswith(" "):
            left, _, kind = line.partition(" : ")
            names = [name.strip() for name in left.split(",")]
            found |= dict.fromkeys(names, (kind, ""))
        else:
            found |= {name: (found[name][0], f"{found[name][1]} {line.strip()}".strip()) for name in names}
    return found
