"""The options of a run with meaning, type and default, as the dataclasses of their settings tell them."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from omegaconf import DictConfig, OmegaConf

from dpforest.settings import Option, Settings, describe
from fl_app.config.compose import (
    check_overrides,
    load_config,
    option_groups,
    parse_overrides,
    plain_overrides,
    started_hydra,
)
from fl_app.data import Evaluation, Partition
from fl_app.data.registry import SOURCES
from fl_app.engine.experiment import Experiment, Privacy
from fl_app.jobs.settings import EngineSettings, ReportSettings, RunSettings, TrackingSettings
from strategies.registry import get_method

_WIDTH = 100


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


def _kinds(config: DictConfig) -> dict[str, type[Settings]]:
    """The dataclass behind each group of options."""
    return {
        "strategy": get_method(config.strategy.name).settings,
        "dataset": SOURCES[config.dataset.name].Settings,
        "partition": Partition,
        "evaluation": Evaluation,
        "privacy": Privacy,
        "tracking": TrackingSettings,
        "engine": EngineSettings,
        "report": ReportSettings,
    }


def _section(
    prefix: str, kind: type[Settings], values: Mapping[str, Any], leave_out: Sequence[str] = ()
) -> Iterator[str]:
    for option in describe(kind):
        if option.name in leave_out:
            continue
        yield f"  {prefix}{option.name} : {option.type}, default {_default(option, values)}"
        yield from textwrap.wrap(
            f"{option.meaning} Allowed: {option.allowed}.", _WIDTH, initial_indent="      ", subsequent_indent="      "
        )
    yield ""


def _default(option: Option, values: Mapping[str, Any]) -> str:
    """The value of the configuration, or the dataclass's own where no file sets it."""
    if option.name in values:
        value = values[option.name]
        return _text(OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value)
    return "none: give one" if option.default is dataclasses.MISSING else _text(option.default)


def _text(value: Any) -> str:
    """As an override would say it."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return str(value)
