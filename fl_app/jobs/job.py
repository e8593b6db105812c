"""One composed run: on the engine of its command, or in a process of its own."""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from dpforest.errors import DPForestError
from fl_app.config.compose import to_experiment
from fl_app.engine.experiment import ConfigurationError, Experiment, Privacy
from fl_app.engine.run import Run
from fl_app.jobs.engine import WarmEngine
from fl_app.jobs.record import add_statement, run_job
from fl_app.jobs.settings import EngineSettings, RunSettings
from fl_app.jobs.sweep_folder import experiment_key
from fl_app.results.attack import ATTACK, write_attack
from fl_app.results.mlflow import MlflowTracker, build_tracker
from fl_app.results.run_folder import is_failed_try, write_failure
from fl_app.terminal.quiet import quiet_frameworks
from fl_app.terminal.screen import log_to_screen
from strategies.method import TooFewClients
from strategies.registry import get_method

log = logging.getLogger("fl_app")


def sweep_experiment(config: DictConfig) -> Experiment:
    """The experiment of a run of a sweep: without a budget or a number of rounds, where none makes a difference.

    A sweep says them for all its methods at once.
    """
    if config.rounds is not None and not get_method(str(config.strategy.name)).uses_rounds:
        config = config.copy()
        config.rounds = None
    experiment = to_experiment(config)
    return experiment if experiment.method.uses_budget else dataclasses.replace(experiment, privacy=Privacy(math.inf))


def perform(
    config: DictConfig,
    experiment: Experiment,
    output: Path,
    overrides: Sequence[str],
    engine: WarmEngine,
    sweep: Path | None = None,
    on_round: Callable[[int, int], None] | None = None,
) -> Run:
    """Run an experiment on an engine, into its folder and where its configuration keeps track of runs."""
    experiment.method.requires(experiment.method.name)
    experiment.source.schema()  # a file that is no schema is refused before a simulation starts
    tracker = tracker_of(config, output, sweep)
    settings = EngineSettings.from_mapping(config.engine, "engine")
    own = RunSettings(config.output, config.objective, config.attack_models)
    grid, nodes = engine.grid(settings, experiment.partition.count(experiment.source))
    models = own.attack_models
    measure = None if models is None else partial(_attack, models=models)
    return run_job(experiment, grid, output, nodes, overrides, on_round, tracker, measure)


def tracker_of(config: DictConfig, folder: Path, sweep: Path | None = None) -> MlflowTracker | None:
    """Where a configuration keeps track of a run in that folder, or of its sweep; a local place lies next to it."""
    return build_tracker(config.tracking, sweep, (sweep or folder).absolute().parent)


def track_failure(config: DictConfig, folder: Path, sweep: Path | None = None) -> None:
    """Log a run that failed where its configuration keeps track of runs."""
    if not is_failed_try(folder):
        return
    try:
        if tracker := tracker_of(config, folder, sweep):
            tracker.log_failed(folder)
    except DPForestError as error:
        log.warning("%s", error)


def _attack(folder: Path, models: int) -> None:
    """Attack a finished run, for its statement to cite; where that fails, the run is none the worse."""
    # Only here: most runs are not attacked.
    from fl_app.attack.measure import attack
    from fl_app.attack.target import Target

    try:
        found = attack(Target.of(folder), models)
        write_attack(found, folder / ATTACK)
        add_statement(folder)
    except (DPForestError, TooFewClients, OSError) as error:
        log.warning("%s was not attacked: %s", folder, error)
        return
    log.info("attacked: %s", found["words"][0])


@contextmanager
def report_failure(overrides: Sequence[str], folder: Path | None, failures: list[Exception]) -> Iterator[None]:
    """Say why a run failed, in its folder too, and let the sweep go on."""
    try:
        yield
    except (DPForestError, TooFewClients) as error:
        _note(overrides, folder, failures, error)
        log.error("error: %s", error)
    except Exception as error:
        # A defect of the program, or a crash of the engine: shown whole, and a sweep goes on with the next run.
        _note(overrides, folder, failures, error)
        log.exception("this run failed")


def _note(overrides: Sequence[str], folder: Path | None, failures: list[Exception], error: Exception) -> None:
    failures.append(error)
    if folder is not None and not (folder.is_dir() and any(folder.iterdir())):
        try:
            write_failure(folder, overrides, error)
        except OSError as unwritten:
            log.error("cannot write why it failed to %s: %s", folder, unwritten.strerror)


class RunFailed(DPForestError):
    """A run of a search failed; its folder says why."""


@dataclasses.dataclass(frozen=True)
class RunAlone:
    """A run of a sweep as Hydra's launchers start it: in a process of its own, with an engine of its own.

    Parameters
    ----------
    searching : bool
        Whether a sweeper waits for the value that it searches the least of.
    done : mapping of str to float
        Values of finished runs of the same sweep by `experiment_key`: these are not run again.
    """

    searching: bool = False
    done: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def __call__(self, config: DictConfig) -> float:
        quiet_frameworks()
        log_to_screen()
        with WarmEngine() as engine:
            return self.on(engine, config)

    def on(self, engine: WarmEngine, config: DictConfig) -> float:
        """The same on an engine that is there; the value of `objective`, where somebody searches.

        Raises
        ------
        RunFailed
            Of a search: it wants to know.
        """
        hydra = HydraConfig.get()
        folder, overrides = Path(hydra.runtime.output_dir), list(hydra.overrides.task)
        failures: list[Exception] = []
        value = math.nan
        with report_failure(overrides, folder, failures):
            experiment = sweep_experiment(config)
            key = experiment_key(experiment.to_dict())
            if key in self.done:
                log.info("there already: %s", " ".join(overrides))
                _remove_empty(folder)
                return self.done[key]
            run = perform(config, experiment, _free(folder), overrides, engine, Path(hydra.sweep.dir))
            value = objective(config.objective, run.metrics) if self.searching else math.nan
        if failures and self.searching:
            raise RunFailed(f"{' '.join(overrides)}: {failures[0]}")
        return value


def _remove_empty(folder: Path) -> None:
    """Remove the folder that Hydra has made for a run that is not run again."""
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def _free(folder: Path) -> Path:
    """The folder, or one named after it where an earlier search has left a run; each run stays with its own number."""
    number, free = 2, folder
    while free.is_dir() and any(free.iterdir()) and not is_failed_try(free):
        free, number = folder.with_name(f"{folder.name}-{number}"), number + 1
    return free


def objective(name: str | None, metrics: Mapping[str, Any]) -> float:
    """What a sweeper is given of a run: the metric of this name, or the log loss, or the mean absolute error.

    Raises
    ------
    ConfigurationError
        There is no such number among the run's metrics.
    """
    numbers = {key: value for key, value in metrics.items() if isinstance(value, int | float)}
    wanted = name or next((key for key in ("log_loss", "mae") if key in numbers), "log_loss")
    if wanted not in numbers:
        raise ConfigurationError(f"objective {wanted!r} is none of this run's metrics: {', '.join(sorted(numbers))}")
    return float(numbers[wanted])
