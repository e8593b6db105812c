"""The runs of a command: a single one, or all of a sweep, here or by a launcher of Hydra's."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf, open_dict, read_write

from dpforest.errors import DPForestError, NothingToLearn
from fl_app.config.compose import load_config, load_run, quoted, to_experiment
from fl_app.engine.experiment import ConfigurationError, Experiment
from fl_app.jobs.engine import WarmEngine
from fl_app.jobs.expansion import expand, sweep_config
from fl_app.jobs.job import RunAlone, objective, perform, report_failure, sweep_experiment, track_failure, tracker_of
from fl_app.jobs.launchers import BASIC, chosen, launch, search
from fl_app.jobs.names import free_place, run_names
from fl_app.jobs.progress import Progress
from fl_app.jobs.record import default_output, output_base
from fl_app.jobs.references import run_references
from fl_app.jobs.settings import RunSettings
from fl_app.jobs.sweep_folder import COMMAND, Missing, resume_command
from fl_app.results.rows import write_results
from fl_app.results.run_folder import OutputError, failure_of, is_failed_try, is_finished, is_refused
from fl_app.terminal.screen import Bars, one_line_a_run

if TYPE_CHECKING:
    from fl_app.report.wanted import Wanted

log = logging.getLogger("fl_app")
_FOUND = "optimization_results.yaml"  # where Hydra's sweepers write what they found


def run_single(overrides: Sequence[str], engine: WarmEngine, bars: Bars) -> bool:
    """Run one experiment; whether it went well."""
    failures: list[Exception] = []
    config = _task_config(load_config(overrides))
    if config.report.target is not None:
        raise ConfigurationError(
            "report.target is for the report of a sweep: add -m; or afterwards, of any runs, "
            f"dpforest report FOLDER report.target={config.report.target}"
        )
    output = Path(config.output).expanduser() if config.output else None
    with bars.run(_words(config)), report_failure(overrides, None, failures):
        experiment = to_experiment(config)
        output = output or default_output(experiment, output_base())
        perform(config, experiment, output, overrides, engine, on_round=bars.round)
    if failures and output:
        track_failure(config, output)
    return not failures


class Sweep:
    """The runs of one sweep and what they leave in its folder.

    Parameters
    ----------
    overrides : sequence of str
        The user's, with the sweep's folder and the axes.
    engine : WarmEngine
        For the runs in this process.
    bars : Bars
    resumes : bool
        Whether finished runs are there already.

    Raises
    ------
    ConfigurationError
        Something is named that does not exist.
    """

    def __init__(self, overrides: Sequence[str], engine: WarmEngine, bars: Bars, resumes: bool = False) -> None:
        self.config = sweep_config(overrides)
        self.folder = Path(self.config.hydra.sweep.dir)
        self.failures: list[str] = []
        self.refused: list[str] = []  # in which nothing can be learned
        self._references = RunSettings(references=self.config.references).references
        self._searches = chosen(self.config, "sweeper") != BASIC
        self._runs = [] if self._searches else expand(overrides)
        self._names = run_names(self._runs)
        self._engine = engine
        self._bars = bars
        self._missing = Missing(self.folder) if resumes else None
        self._seen: set[str] = set()
        self._target = _target(self.config)

    def run(self) -> None:
        """Run what is missing.

        Raises
        ------
        OutputError
            The folder cannot be written.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            OmegaConf.save(self.config, self.folder / COMMAND)
        except OSError as error:
            raise OutputError(
                f"cannot write {self.folder}: {error.strerror}; choose another folder with output=..."
            ) from error
        if self._searches:
            self._search()
        elif chosen(self.config, "launcher") != BASIC:
            self._launch()
        else:
            self._run_here()
        if self._references:
            run_references(self.folder, self.config.tracking, self._bars)
        self._write_results()

    def _run_here(self) -> None:
        """All runs in this process, one after another."""
        if self.config.hydra.callbacks:
            log.warning("hydra.callbacks: only runs of other launchers and sweepers than %s call them", BASIC)
        self._bars.sweep(len(self._runs))
        progress = Progress(len(self._runs))
        with one_line_a_run():
            for number, overrides in enumerate(self._runs):
                try:
                    self._run_one(overrides, number, progress)
                finally:
                    self._write_results()

    def _run_one(self, overrides: Sequence[str], number: int, progress: Progress) -> None:
        output = self._place(self.folder / self._names[number])
        errors: list[Exception] = []
        with report_failure(overrides, output, errors):
            config, output = self._composed(overrides, number)
            with self._bars.run(f"run {number + 1} of {len(self._runs)}: {_words(config)}"):
                if experiment := self._wanted(config, overrides):
                    run = perform(config, experiment, output, overrides, self._engine, self.folder, self._bars.round)
                    log.info("%s", progress.done(number + 1, _words(config), run.metrics))
                    return
        progress.passed()
        for error in errors:
            # By the error and not by the folder, which may hold what another run has left.
            is_hopeless = isinstance(error, NothingToLearn)
            log.info("%s", progress.failed(number + 1, output.name, is_hopeless))
            self._note_failure(overrides, str(error), output, is_hopeless)

    def _write_results(self) -> None:
        try:
            write_results(self.folder)
        except OutputError as error:
            log.error("%s", error)

    def _launch(self) -> None:
        """All runs by a launcher of Hydra's, each in a process of its own."""
        launched: dict[Path, list[str]] = {}
        for number, overrides in enumerate(self._runs):
            output = self._place(self.folder / self._names[number], launched)
            errors: list[Exception] = []
            with report_failure(overrides, output, errors):
                config, output = self._composed(overrides, number, launched)
                if self._wanted(config, overrides):
                    if output in launched or is_failed_try(output):
                        raise OutputError(f"{output} is another run's already: choose another output folder")
                    launched[output] = overrides
            self.failures += [f"{' '.join(overrides)}: {error}" for error in errors]
        if not launched:
            return
        log.info("%d runs by hydra/launcher=%s", len(launched), chosen(self.config, "launcher"))
        jobs = [
            [*overrides, f"hydra.sweep.subdir={quoted(str(output.relative_to(self.folder)))}"]
            for output, overrides in launched.items()
        ]
        try:
            launch(self.config, jobs, RunAlone())
        except Exception as error:
            log.error("error: hydra/launcher=%s: %s", chosen(self.config, "launcher"), error)
        for output, overrides in launched.items():
            if not is_finished(output):
                why = failure_of(output) if is_failed_try(output) else "its process ended without a result"
                self._note_failure(overrides, why, output, is_refused(why))

    def _note_failure(self, overrides: Sequence[str], why: str, output: Path, is_hopeless: bool) -> None:
        (self.refused if is_hopeless else self.failures).append(f"{' '.join(overrides)}: {why}")
        track_failure(self.config, output, self.folder)

    def _search(self) -> None:
        """Runs that a sweeper of Hydra's chooses by what earlier ones reached."""
        name = self.config.objective
        done = self._missing.done if self._missing else {}
        values = {key: objective(name, metrics) for key, metrics in done.items()}
        alone = RunAlone(searching=True, done=values)
        here = chosen(self.config, "launcher") == BASIC
        try:
            search(self.config, (lambda config: alone.on(self._engine, config)) if here else alone)
        except Exception as error:
            self.failures.append(f"hydra/sweeper={chosen(self.config, 'sweeper')}: {error}")
            log.error("error: the search ended: %s", error)
        if (found := self.folder / _FOUND).is_file():
            log.info("the best of the search: %s\n%s", found, found.read_text(encoding="utf-8").rstrip())

    def _composed(
        self, overrides: Sequence[str], number: int, reserved: Collection[Path] = ()
    ) -> tuple[DictConfig, Path]:
        """A run's configuration as its task sees it, and its folder, where Hydra would put it."""
        config = load_run(self.config, overrides)
        with open_dict(config):
            config.hydra.job.num, config.hydra.job.id = number, str(number)
        HydraConfig.instance().set_config(config)
        asked = str(config.hydra.sweep.subdir)
        name = self._names[number] if asked == str(number) else asked  # Hydra's own name, or the user's
        output = self._place(self.folder / name, reserved)
        return _task_config(config, output), output

    def _place(self, output: Path, reserved: Collection[Path] = ()) -> Path:
        return free_place(output, reserved) if self._missing else output

    def _wanted(self, config: DictConfig, overrides: Sequence[str]) -> Experiment | None:
        """The experiment, unless it is finished already, or was run with a budget that makes no difference to it."""
        experiment = sweep_experiment(config)
        method, text = experiment.method, experiment.to_json()
        of_no_use = {"budget": not method.uses_budget, "number of rounds": not method.uses_rounds}
        ignored = [word for word, is_ignored in of_no_use.items() if is_ignored]
        if ignored and text in self._seen:
            log.info("%s: skipped, as no %s makes a difference to it", " ".join(overrides), " or ".join(ignored))
            return None
        self._seen.add(text)
        if self._missing and self._missing.has(experiment):
            log.info("there already: %s", " ".join(overrides))
            return None
        return experiment

    def report(self) -> None:
        """The report of what is finished; a defect in it does not spoil the sweep."""
        # Only now: what draws takes a second to load, and single runs do without.
        from fl_app.report.gather import gather
        from fl_app.report.page import REPORT, write_page
        from fl_app.report.tables import section_tables
        from fl_app.report.wanted import sought

        log.info("writing the report")
        try:
            gathered = gather([self.folder])
            for section in gathered.sections:
                print(f"\n{section_tables(section)}")
            for each in write_page(gathered, self.folder, self._target):
                log.info("%s: %s", each.section.title, each.headline())
                if (found := sought(each)) is not None:
                    log.info("%s", "\n".join(found.words()))
            log.info("report: %s", self.folder / REPORT)
        except OSError as error:
            log.error("cannot write the report to %s: %s", self.folder, error.strerror)
        except Exception:
            log.exception("the report failed; try dpforest report %s", self.folder)
        self._track()
        if self.refused:
            log.info("runs left out, as nothing can be learned: %d\n%s", len(self.refused), "\n".join(self.refused))
        if self.failures:
            log.info(
                "runs that failed: %d; run them again with %s\n%s",
                len(self.failures),
                resume_command(self.folder),
                "\n".join(self.failures),
            )

    def _track(self) -> None:
        """Log what the sweep has left, where its configuration keeps track of runs."""
        try:
            if tracker := tracker_of(self.config, self.folder, self.folder):
                tracker.log_sweep(is_whole=not self.failures)
        except DPForestError as error:
            log.warning("%s", error)


def _target(config: DictConfig) -> Wanted | None:
    """The score that the report is to say the epsilon of.

    Raises
    ------
    DPForestError
        It is none.
    """
    if config.report.target is None:
        return None
    from fl_app.report.wanted import Wanted  # only here, as it takes long to import

    return Wanted.read(config.report.target)


def _task_config(config: DictConfig, output: Path | None = None) -> DictConfig:
    """A run's configuration as its task sees it; Hydra's own part stays reachable by ``${hydra:...}``."""
    if output is not None:
        with read_write(config.hydra.runtime), open_dict(config.hydra.runtime):
            config.hydra.runtime.output_dir = str(output.absolute())
    HydraConfig.instance().set_config(config)
    job = config.copy()
    with open_dict(job):
        del job["hydra"]
    return job


def _words(config: DictConfig) -> str:
    return f"{config.strategy.name} on {config.dataset.name}, epsilon {config.privacy.epsilon}, seed {config.seed}"
