"""Composing an experiment from ``conf/`` and overrides; the same for every door."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hydra import initialize_config_dir
from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob, Override
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from dpforest.errors import did_you_mean
from fl_app.config.conf_folders import conf_folders
from fl_app.config.places import conf_folder
from fl_app.engine.experiment import LEVELS, ConfigurationError, Experiment

# Keys of the configuration that say where a run happens, or that others are made of.
_NOT_EXPERIMENT = (
    "engine", "output", "tracking", "objective", "report", "attack_models", "references", "default_delta", "vary",
    "contender",
)  # fmt: skip
# Options of earlier versions, and what to use in their place.
_MOVED = {"strategy.noise": "privacy.trust=local, or privacy.trust=shared for what was distributed"}
_PRIMARY = "config"
_SEARCH_PATH = "hydra.searchpath"

# In conf/privacy an epsilon that is not given is that of the level; a bad level is refused by the experiment.
OmegaConf.register_new_resolver("epsilon_of", lambda level: LEVELS.get(str(level), 1.0), replace=True)


@contextmanager
def started_hydra() -> Iterator[ConfigLoader]:
    """Hydra's loader of ``conf/``; started here, or by who called."""
    if GlobalHydra.instance().is_initialized():
        yield GlobalHydra.instance().config_loader()
        return
    with initialize_config_dir(str(conf_folder()), job_name="dpforest", version_base="1.3"):
        yield GlobalHydra.instance().config_loader()


def compose_config(overrides: Sequence[str]) -> DictConfig:
    """The configuration with overrides applied.

    Raises
    ------
    ConfigurationError
        An override is malformed or names something that does not exist; says the nearest that does.
    """
    overrides = plain_overrides(overrides)
    check_overrides(overrides)
    config = load_config(overrides)
    with open_dict(config):
        del config["hydra"]
    return config


def load_config(overrides: Sequence[str], mode: RunMode = RunMode.RUN) -> DictConfig:
    """The configuration of a run, or of a sweep before its axes are applied, with Hydra's own part.

    Raises
    ------
    ConfigurationError
        Hydra cannot compose it.
    """
    with started_hydra() as loader, _one_line():
        return loader.load_configuration(_PRIMARY, list(overrides), mode, from_shell=False)


def load_run(sweep: DictConfig, overrides: Sequence[str]) -> DictConfig:
    """The configuration of one run of a sweep, with Hydra's own part.

    Raises
    ------
    ConfigurationError
        Hydra cannot compose it.
    """
    with started_hydra() as loader, _one_line():
        return loader.load_sweep_config(sweep, list(overrides))


@contextmanager
def _one_line() -> Iterator[None]:
    """Say in one line what Hydra says in several."""
    try:
        yield
    except (HydraException, OmegaConfBaseException) as error:
        causes = [each for each in (error, error.__cause__) if each is not None and str(each)]
        raise ConfigurationError(" ".join(" ".join(map(str, causes)).split())) from error


def plain_overrides(overrides: Sequence[str]) -> list[str]:
    """Overrides without shorthands: ``+GROUP=`` of a group that is there already, and ``glob()`` of a group's files.

    Raises
    ------
    ConfigurationError
        One is malformed, or no file of the group fits a ``glob()``.
    """
    parsed = parse_overrides(overrides)
    groups = option_groups(parsed)
    own = option_groups([])
    plain = []
    for text, override in zip(overrides, parsed, strict=True):
        if override.is_add() and override.key_or_group in own:
            text = text.removeprefix("+")
        value = override.value()
        if isinstance(value, Glob):
            text = f"{text.partition('=')[0]}={','.join(_fitting(override, value, groups))}"
        plain.append(text)
    return plain


def _fitting(override: Override, glob: Glob, groups: dict[str, list[str]]) -> list[str]:
    name = override.key_or_group
    if name not in groups:
        raise ConfigurationError(f"{override.input_line}: glob() is for files of {', '.join(groups)}")
    if found := glob.filter(groups[name]):
        return list(found)
    raise ConfigurationError(f"{override.input_line}: fits no {name} (there are {', '.join(groups[name])})")


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

    Where a sweep has several choices of a group, an option must be there in one of them.

    Raises
    ------
    ConfigurationError
    """
    parsed = parse_overrides(overrides)
    groups = option_groups(parsed)
    named = [each for each in parsed if not (_is_hydra(each) or each.is_add() or each.is_delete())]
    choices: dict[str, list[str]] = {}
    for override in named:
        name = override.key_or_group
        if name in groups:
            choices[name] = _values(override)
            for value in choices[name]:
                if value not in groups[name] and value != "null":
                    raise ConfigurationError(
                        f"no {name} {value!r}{did_you_mean(value, groups[name])} (there are {', '.join(groups[name])})"
                    )
    with started_hydra():
        known: set[str] = set(groups)
        wanted = {each.key_or_group for each in named} - known
        for chosen in _each_choice(choices):
            known |= known_options([*search_path(parsed), *chosen])
            if wanted <= known:
                return
    for override in named:
        if (name := override.key_or_group) in _MOVED:
            raise ConfigurationError(f"no option {name!r} any more: use {_MOVED[name]}")
        if name not in known:
            raise ConfigurationError(f"no option {name!r}{did_you_mean(name, sorted(known))}")


def _each_choice(choices: dict[str, list[str]]) -> Iterator[list[str]]:
    """The first choice of every group, and then each other choice of one of them with the first of all others."""
    first = {name: values[0] for name, values in choices.items()}
    yield [f"{name}={value}" for name, value in first.items()]
    for group, values in choices.items():
        for other in values[1:]:
            yield [f"{name}={value}" for name, value in (first | {group: other}).items()]


def known_options(choices: Sequence[str]) -> set[str]:
    """Names of all options that there are under some choices of groups."""
    return set(option_names(load_config(choices)))


def option_names(config: DictConfig) -> Iterator[str]:
    """Names of all options of a composed configuration, groups included; not Hydra's own."""
    return _keys((key for key in config if key != "hydra"), config)


def _is_hydra(override: Override) -> bool:
    return override.key_or_group.startswith("hydra")


def search_path(overrides: Iterable[Override]) -> list[str]:
    """Of some overrides, those that name further folders with configuration files."""
    return [str(each.input_line) for each in overrides if each.key_or_group == _SEARCH_PATH]


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


def own_folder(folder: Path) -> str:
    """The override under which files of a user's own folder are found, after those of ``conf/``.

    Raises
    ------
    ConfigurationError
        There is no such folder.
    """
    if not folder.expanduser().is_dir():
        raise ConfigurationError(
            f"--config-dir {str(folder)!r} is no folder: give one with files such as experiment/mine.yaml"
        )
    return f"{_SEARCH_PATH}=[{quoted(f'file://{folder.expanduser().absolute()}')}]"


def quoted(text: str) -> str:
    """A text as a value of an override, whatever is in it."""
    plain = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{plain}'"


def option_groups(overrides: Iterable[Override]) -> dict[str, list[str]]:
    """Groups of configuration files and what there is to choose, also in the user's own folders."""
    found: dict[str, set[str]] = {}
    for place in [*conf_folders(), *_own_folders(overrides)]:
        for folder in sorted(place.iterdir()) if place.is_dir() else []:
            names = {file.stem for file in folder.glob("*.yaml")} if folder.is_dir() else set()
            if names and folder.name != "hydra":
                found.setdefault(folder.name, set()).update(names)
    return {group: sorted(names) for group, names in found.items()}


def _own_folders(overrides: Iterable[Override]) -> Iterator[Path]:
    for override in overrides:
        if override.key_or_group == _SEARCH_PATH and isinstance(places := override.value(), list):
            yield from (Path(str(place).removeprefix("file://")) for place in places if "pkg://" not in str(place))


def _values(override: Override) -> list[str]:
    if override.is_sweep_override():
        return [str(value) for value in override.sweep_string_iterator()]
    return [str(override.value())]


def _keys(names: Iterable[Any], config: DictConfig, prefix: str = "") -> Iterator[str]:
    for key in names:
        path = f"{prefix}{key}"
        yield path
        value = OmegaConf.select(config, str(key)) if not OmegaConf.is_missing(config, key) else None
        if isinstance(value, DictConfig):
            yield from _keys(value, value, f"{path}.")
