"""The options of a run with meaning, type and default, as the dataclasses of their settings tell them."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

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


class Section(NamedTuple):
    """A group of options under some choices of strategy, data set and so on.

    Parameters
    ----------
    group : str
        Such as ``strategy``; empty for options that stand in none.
    chosen : str, optional
        The file that the group was chosen by.
    choices : tuple of str
        All files of the group.
    options : tuple of (Option, str)
        Each with the value that it then has, as an override would say it.
    """

    group: str
    chosen: str | None
    choices: tuple[str, ...]
    options: tuple[tuple[Option, str], ...]

    @property
    def prefix(self) -> str:
        """What stands before the name of each option."""
        return f"{self.group}." if self.options and self.group else ""


def options_text(overrides: Sequence[str]) -> str:
    """All options under some choices of strategy, data set and so on, with the values that they then have.

    Raises
    ------
    ConfigurationError
        A choice does not exist.
    """
    return "\n".join(line for section in option_sections(overrides) for line in _lines(section))


def option_sections(overrides: Sequence[str]) -> list[Section]:
    """The same as `options_text`, to be shown in another form.

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
    chosen = config.hydra.runtime.choices

    def section(group: str, options: Iterable[tuple[Option, str]] = ()) -> Section:
        return Section(group, chosen.get(group), tuple(groups.get(group, ())), tuple(options))

    kinds = _kinds(config)
    named = [
        section(group, _options(kind, config.get(group, {}), ("name",) if group in ("strategy", "dataset") else ()))
        for group, kind in kinds.items()
    ]
    others = [*_options(Experiment, config, tuple({*kinds, "strategy", "dataset"})), *_options(RunSettings, config)]
    return [*named, section("", others), *map(section, ("experiment", "case"))]


def _lines(section: Section) -> Iterator[str]:
    there_are = f"  (there are {', '.join(section.choices)})"
    if section.options:
        head = f"{section.group}={section.chosen}{there_are}" if section.choices else section.prefix
        yield head or "others"
        for option, value in section.options:
            yield f"  {section.prefix}{option.name} : {option.type}, default {value}"
            yield from textwrap.wrap(
                f"{option.meaning} Allowed: {option.allowed}.",
                _WIDTH,
                initial_indent="      ",
                subsequent_indent="      ",
            )
        yield ""
    else:
        yield f"  {section.group}={section.chosen or 'null'}{there_are}"


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


def _options(
    kind: type[Settings], values: Mapping[str, Any], leave_out: Sequence[str] = ()
) -> Iterator[tuple[Option, str]]:
    for option in describe(kind):
        if option.name not in leave_out:
            yield option, _default(option, values)


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
