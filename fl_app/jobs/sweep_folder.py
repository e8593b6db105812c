"""Sweeps: where their runs go, and which of them are still missing."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from dpforest.errors import DPForestError
from dpforest.texts import parse_yaml
from fl_app.config.compose import parse_overrides, quoted
from fl_app.engine.experiment import ConfigurationError, Experiment
from fl_app.results.finished import read_run
from fl_app.results.run_folder import FAILED, OutputError, find_runs, is_failed_try

COMMAND = "multirun.yaml"  # Hydra's record of a sweep
_RESUME = "+resume="


def is_sweep(arguments: Sequence[str]) -> bool:
    """Whether a command line asks for a sweep."""
    return bool({"-m", "--multirun", "hydra.mode=MULTIRUN"} & set(arguments))


def place_runs(arguments: Sequence[str]) -> list[str]:
    """Arguments under which a run or sweep goes where the user says: with ``-m``, ``output=FOLDER`` is the sweep's.

    Raises
    ------
    ConfigurationError
        The folder holds files, or is named in a way that would be passed over; or a single run has several values.
    """
    # Hydra's parser takes no overrides on both sides of a flag.
    arguments = sorted(arguments, key=lambda argument: not argument.startswith("-"))
    named = {each.key_or_group: each for each in parse_overrides([a for a in arguments if not a.startswith("-")])}
    if not is_sweep(arguments):
        for name in ("hydra.run.dir", "hydra.sweep.dir"):
            if name in named:
                raise ConfigurationError(f"{name} does not say where a single run goes: give output=FOLDER instead")
        for each in named.values():
            if each.is_sweep_override():
                raise ConfigurationError(f"{each.input_line} has several values: add -m to run all of them")
        return arguments
    output = named.get("output")
    if output is None:
        return arguments
    if "hydra.sweep.dir" in named:
        raise ConfigurationError("output=FOLDER and hydra.sweep.dir both name the sweep's folder: give one")
    if output.is_sweep_override():
        raise ConfigurationError(f"{output.input_line}: a sweep has one folder, and each run one below it: give one")
    rest = [text for text in arguments if text != output.input_line]
    if output.value() is None:
        return rest
    folder = Path(str(output.value())).expanduser()
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise ConfigurationError(
            f"output {str(folder)!r} holds files already: choose another, or go on with a sweep by +resume=FOLDER"
        )
    return [*rest, _sweep_folder(folder)]


def split_resume(arguments: Sequence[str]) -> tuple[list[str], Path | None]:
    """Arguments without ``+resume=FOLDER``, completed to continue that sweep.

    Returns
    -------
    arguments : list of str
        With ``-m``, the sweep's own overrides, those that are given instead of its own of the same name, and its
        folder.
    folder : Path or None
        The sweep to continue.

    Raises
    ------
    ConfigurationError
        There is no sweep in the folder.
    """
    named = [text.removeprefix(_RESUME) for text in arguments if text.startswith(_RESUME)]
    if not named:
        return list(arguments), None
    name = named[-1]
    if len(name) > 1 and name[0] == name[-1] and name[0] in "'\"":  # quoted for Hydra
        name = name[1:-1]
    folder = Path(name).expanduser().absolute()
    if not (folder / COMMAND).is_file():
        raise ConfigurationError(f"resume {str(folder)!r}: no sweep there (no {COMMAND}); give a sweep's folder")
    rest = [text for text in arguments if not text.startswith(_RESUME) and text not in ("-m", "--multirun")]
    if any(text.lstrip("+").startswith("output=") for text in rest):
        raise ConfigurationError("resume goes on in the sweep's own folder: leave output=FOLDER out")
    given = {each.key_or_group for each in parse_overrides([text for text in rest if not text.startswith("-")])}
    stored = _stored(folder)
    own = [text for text, each in zip(stored, parse_overrides(stored), strict=True) if each.key_or_group not in given]
    return ["-m", *own, *rest, _sweep_folder(folder)], folder


def _sweep_folder(folder: Path) -> str:
    """The override that names a sweep's folder, quoted for Hydra."""
    return f"hydra.sweep.dir={quoted(str(folder))}"


def _stored(folder: Path) -> list[str]:
    try:
        command = parse_yaml((folder / COMMAND).read_text(encoding="utf-8"))
        overrides = command["hydra"]["overrides"]
        stored = [*overrides["hydra"], *overrides["task"]]
    except (OSError, LookupError, TypeError, ValueError) as error:
        raise ConfigurationError(f"{folder / COMMAND} is damaged: {error}; start the sweep anew") from error
    if not all(isinstance(text, str) for text in stored) or isinstance(overrides["task"], str):
        raise ConfigurationError(f"{folder / COMMAND} is damaged: its overrides are no texts; start the sweep anew")
    return [text for text in stored if not text.startswith(("hydra.sweep.dir", "hydra.mode", "output="))]


def resume_option(folder: Path) -> str:
    """What continues a sweep, as a shell takes it: a folder's name may have spaces and quotes."""
    return shlex.quote(f"{_RESUME}{folder}")


def resume_command(folder: Path) -> str:
    """The command that continues a sweep, through either door."""
    return f"dpforest resume {shlex.quote(str(folder))} (or python -m fl_app {resume_option(folder)})"


class Missing:
    """What a sweep that is continued lacks. Failed tries are removed: all of them are run again, some elsewhere.

    Parameters
    ----------
    folder : Path
        Of the sweep.

    Raises
    ------
    OutputError
        A failed try cannot be removed.
    """

    def __init__(self, folder: Path) -> None:
        for note in sorted(folder.glob(f"*/{FAILED}")):
            if is_failed_try(note.parent):
                try:
                    shutil.rmtree(note.parent)
                except OSError as error:
                    raise OutputError(
                        f"cannot remove the failed run {note.parent}: {error.strerror}; remove it yourself"
                    ) from error
        self.done: dict[str, Mapping[str, Any]] = {}  # metrics of finished runs, by `experiment_key`
        for path in find_runs([folder]):
            try:
                finished = read_run(path)
                self.done[experiment_key(finished.config)] = finished.metrics
            except DPForestError:
                continue  # a damaged run is run again

    def has(self, experiment: Experiment) -> bool:
        """Whether a finished run of the same experiment is there."""
        return experiment_key(experiment.to_dict()) in self.done


def experiment_key(config: Mapping[str, Any]) -> str:
    """What is the same for two runs of the same experiment, from its configuration in memory or in a run folder."""
    # Through YAML, as run folders keep it: a tuple is a list there.
    plain = yaml.safe_load(yaml.safe_dump({key: value for key, value in config.items() if key != "overrides"}))
    return json.dumps(plain, sort_keys=True)
