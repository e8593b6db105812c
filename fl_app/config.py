"""Composing an experiment from ``conf/`` and overrides; the same for every door."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from fl_app.engine.experiment import LEVELS, ConfigurationError, Experiment

# Keys of the configuration that say where a run happens, or that others are made of.
_NOT_EXPERIMENT = ("engine", "output", "tracking", "default_delta", "vary")

# In conf/privacy an epsilon that is not given is that of the level; a bad level is refused by the experiment.
OmegaConf.register_new_resolver("epsilon_of", lambda level: LEVELS.get(str(level), 1.0), replace=True)


def conf_folder() -> Path:
    """The ``conf`` folder: beside this package in a checkout or FAB, inside it when installed."""
    here = Path(__file__).resolve().parent
    for folder in (here.parent / "conf", here / "conf"):
        if (folder / "config.yaml").is_file():
            return folder
    raise ConfigurationError("the conf folder is missing; reinstall dpforest")


def compose_config(overrides: Sequence[str]) -> DictConfig:
    """The configuration with overrides applied.

    Raises
    ------
    ConfigurationError
        An override is malformed or names something that does not exist; says the nearest that does.
    """
    check_overrides(overrides)
    return _compose(overrides)


def split_overrides(text: str) -> list[str]:
    """Overrides in one string, as ``flwr run --run-config "overrides='...'"`` carries them.

    Raises
    ------
    ConfigurationError
        A quote is not closed.
    """
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ConfigurationError(f"overrides {text!r}: {error}") from error


def to_experiment(config: DictConfig) -> Experiment:
    """The experiment part of a composed configuration, validated."""
    plain = OmegaConf.to_container(config, resolve=True)
    assert isinstance(plain, dict)
    return Experiment.from_dict({str(k): v for k, v in plain.items() if k not in _NOT_EXPERIMENT})


def check_overrides(overrides: Sequence[str]) -> None:
    """Refuse overrides of groups, options or keys that do not exist, in one line with the nearest that does.

    Raises
    ------
    ConfigurationError
    """
    parsed = parse_overrides(overrides)
    groups = _groups()
    choices = []
    for override in parsed:
        name = override.key_or_group
        if name.startswith("hydra") or override.is_add() or override.is_delete():
            continue
        if name in groups:
            for value in _values(override):
                if value not in groups[name] and value != "null":
                    raise ConfigurationError(
                        f"no {name} {value!r}{_nearest(value, groups[name])} (there are {', '.join(groups[name])})"
                    )
            choices.append(f"{name}={_values(override)[0]}")
    known = set(_keys(_compose(choices)))
    for override in parsed:
        name = override.key_or_group
        if name in groups or name in known or name.startswith("hydra") or override.is_add() or override.is_delete():
            continue
        raise ConfigurationError(f"no option {name!r}{_nearest(name, sorted(known | set(groups)))}")


def parse_overrides(overrides: Sequence[str]) -> list[Override]:
    """Overrides as Hydra understands them.

    Raises
    ------
    ConfigurationError
        One is malformed.
    """
    for text in overrides:
        if "=" not in text and not text.startswith("~"):
            raise ConfigurationError(
                f"{text!r} is no option: write NAME=VALUE, such as seed=3, with quotes around spaces"
            )
    try:
        return list(OverridesParser.create().parse_overrides(list(overrides)))
    except HydraException as error:
        raise ConfigurationError(f"malformed override: {' '.join(str(error).split())}") from error


def _compose(overrides: Sequence[str]) -> DictConfig:
    try:
        if GlobalHydra.instance().is_initialized():
            return compose("config", list(overrides))
        with initialize_config_dir(str(conf_folder()), version_base="1.3"):
            return compose("config", list(overrides))
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigurationError(" ".join(str(error).split())) from error


def _groups() -> dict[str, list[str]]:
    return {
        folder.name: sorted(file.stem for file in folder.glob("*.yaml"))
        for folder in sorted(conf_folder().iterdir())
        if folder.is_dir() and any(folder.glob("*.yaml"))
    }


def _values(override: Override) -> list[str]:
    if override.is_sweep_override():
        return [str(value) for value in override.sweep_string_iterator()]
    return [str(override.value())]


def _keys(config: Any, prefix: str = "") -> Iterator[str]:
    for key in config:
        path = f"{prefix}{key}"
        yield path
        value = OmegaConf.select(config, str(key)) if not OmegaConf.is_missing(config, key) else None
        if isinstance(value, DictConfig):
            yield from _keys(value, f"{path}.")


def _nearest(name: str, options: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, options, n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""
