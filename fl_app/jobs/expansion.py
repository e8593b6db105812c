"""The runs of a sweep: every combination of its values, with settings only for the strategies that have them."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Sequence

from hydra.core.override_parser.types import Override
from hydra.types import RunMode
from omegaconf import DictConfig

from dpforest.errors import did_you_mean
from fl_app.config.compose import (
    known_options,
    load_config,
    option_groups,
    option_names,
    parse_overrides,
    search_path,
    started_hydra,
)
from fl_app.engine.experiment import ConfigurationError

log = logging.getLogger(__name__)
_EXPERIMENT = "experiment"


def sweep_config(overrides: Sequence[str]) -> DictConfig:
    """The configuration of a sweep as Hydra's launchers and sweepers take it: without the values of its axes."""
    parsed = parse_overrides(overrides)
    groups = option_groups(parsed)
    # What is set in a group may be there in one of its choices only: then it is for the runs.
    inner = [each for each in parsed if each.key_or_group.partition(".")[0] in groups and "." in each.key_or_group]
    rest = [str(each.input_line) for each in parsed if each not in inner]
    known = set(option_names(load_config(rest, RunMode.MULTIRUN)))
    fitting = [str(each.input_line) for each in inner if each.is_add() or each.key_or_group in known]
    config = load_config([*rest, *fitting], RunMode.MULTIRUN)
    config.hydra.overrides.task = [str(each.input_line) for each in parsed if not each.is_hydra_override()]
    config.hydra.mode = RunMode.MULTIRUN
    config.hydra.sweep.dir = str(config.hydra.sweep.dir)  # it may hold the time, which must not go on
    return config


def expand(overrides: Sequence[str]) -> list[list[str]]:
    """The overrides of each run of a sweep, those of its experiment file included.

    Several experiments bring the axes of each. An option of a group with several choices, such as ``strategy.bins`` in
    ``strategy=one_shot,boost``, goes to the choices that have it.

    Raises
    ------
    ConfigurationError
        An option is in none of the choices, or has an interval of values, which no list holds.
    """
    with started_hydra():
        runs = [run for each in _single_experiments(overrides) for run in _product(each)]
    return [list(run) for run in dict.fromkeys(map(tuple, runs))]


def _single_experiments(overrides: Sequence[str]) -> list[list[str]]:
    """The same overrides once for each of the experiments that they name."""
    parsed = parse_overrides(overrides)
    several = [each for each in parsed if each.key_or_group == _EXPERIMENT and each.is_sweep_override()]
    if not several:
        return [list(overrides)]
    rest = [text for text, each in zip(overrides, parsed, strict=True) if each.key_or_group != _EXPERIMENT]
    return [[f"{_EXPERIMENT}={name}", *rest] for name in several[-1].sweep_string_iterator()]


def _product(overrides: Sequence[str]) -> list[list[str]]:
    config = sweep_config(overrides)
    # A basic sweep's axes; other sweepers have parameters of their own kind, and do not come here.
    axes = [f"{key}={value}" for key, value in (config.hydra.sweeper.get("params") or {}).items()]
    task = parse_overrides([*axes, *map(str, config.hydra.overrides.task)])
    values = {each.get_key_element(): _values(each) for each in task}  # the last word counts, as in Hydra
    runs = [list(run) for run in itertools.product(*values.values())]
    return _fitting(runs, task, search_path(parse_overrides(overrides)))


def _values(override: Override) -> list[str]:
    key = override.get_key_element()
    if not override.is_sweep_override():
        return [f"{key}={override.get_value_element_as_str()}" if "~" not in key else str(override.input_line)]
    if not override.is_discrete_sweep():
        raise ConfigurationError(
            f"{override.input_line}: an interval needs a sweeper that searches it, such as hydra/sweeper=optuna "
            '(pip install hydra-optuna-sweeper); or name values, such as "0.1,1,10" or "range(5)"'
        )
    return [f"{key}={value}" for value in override.sweep_string_iterator()]


def _fitting(runs: list[list[str]], task: Sequence[Override], places: Sequence[str]) -> list[list[str]]:
    """Runs without the options that the run's own choices do not have, though another's do."""
    groups = option_groups(parse_overrides(places))
    axes = {each.key_or_group for each in task if each.key_or_group in groups and each.is_sweep_override()}
    partial = {
        each.key_or_group
        for each in task
        if each.key_or_group.partition(".")[0] in axes - {each.key_or_group} and not (each.is_add() or each.is_delete())
    }
    if not partial:
        return runs
    known: dict[tuple[str, ...], set[str]] = {}
    fitting, used = [], set()
    for run in runs:
        names = [text.partition("=")[0] for text in run]
        chosen = tuple(text for text, name in zip(run, names, strict=True) if name in groups)
        if chosen not in known:
            known[chosen] = known_options([*places, *chosen])
        lacking = partial - known[chosen]
        used |= partial & known[chosen]
        fitting.append([text for text, name in zip(run, names, strict=True) if name not in lacking])
    for name in sorted(partial - used):
        everything = sorted(set().union(*known.values()))
        raise ConfigurationError(f"no option {name!r}{did_you_mean(name, everything)}")
    for name in sorted(partial):
        if any(name not in options for options in known.values()):
            log.info("%s goes to the choices of %s that have it", name, name.partition(".")[0])
    return fitting
