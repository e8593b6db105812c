"""``python -m fl_app``: one run, or with ``-m`` a sweep in one warm simulation."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import io
import logging
import math
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import hydra
from flwr.serverapp import Grid
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from dpforest.errors import DPForestError
from fl_app.client_app import app as client_app
from fl_app.config import check_overrides, conf_folder, to_experiment
from fl_app.engine.experiment import Experiment, Privacy
from fl_app.engine.in_process import in_process
from fl_app.engine.simulation import SimulationFailed, SimulationSession, quiet_flower
from fl_app.interrupts import interrupted_code, interruptible, listen_again
from fl_app.jobs import default_output, output_base, run_job
from fl_app.results import write_results
from fl_app.run_folder import write_failure
from fl_app.screen import Bars, log_to_screen, run_command
from fl_app.sweep import Missing, count_runs, is_sweep, join_flags, place_runs, resume_option, shows_only, split_resume
from fl_app.tracking import build_tracker
from strategies.federation.roster import roster, wait_for_nodes
from strategies.method import TooFewClients

log = logging.getLogger("fl_app")
_START = 600  # seconds that workers may take to start; on a busy machine some do


class _Engine:
    """The grid that the jobs of this process share; it grows when a job needs more nodes."""

    def __init__(self) -> None:
        self._opened: AbstractContextManager[Grid] | None = None
        self._key: tuple[str, str | None] | None = None
        self._nodes: dict[int, int] = {}
        self._grid: Grid | None = None
        self._failed: SimulationFailed | None = None

    def grid(self, kind: str, wanted: int, ray_address: str | None) -> tuple[Grid, dict[int, int]]:
        """A grid with at least ``wanted`` nodes, and which node plays which client."""
        if self._failed is not None:
            raise self._failed  # one try: the next run of a sweep would wait as long
        if self._grid is None or self._key != (kind, ray_address) or len(self._nodes) < wanted:
            self.close()
            if kind == "simulation":
                self._opened = SimulationSession(client_app, wanted, ray_address)
            elif kind == "in_process":
                self._opened = in_process(client_app, wanted)
            else:
                raise DPForestError(f"engine.kind {kind!r} must be simulation or in_process")
            try:
                self._grid = self._opened.__enter__()
            except SimulationFailed as error:
                self._failed = error
                raise
            self._nodes = roster(self._grid, wait_for_nodes(self._grid, wanted, _START), _START)
            listen_again()  # Ray is there once all nodes have answered
            self._key = (kind, ray_address)
        return self._grid, {client: node for client, node in self._nodes.items() if client < wanted}

    def close(self) -> None:
        """End the simulation."""
        if self._opened is not None:
            self._opened.__exit__(None, None, None)
        self._opened = self._grid = None


class _Sweep:
    """What the jobs of one sweep share."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.missing: Missing | None = None
        self.runs: int | None = None


_engine = _Engine()
_sweep = _Sweep()
_bars = Bars()
_failures: list[str] = []
_without_budget: set[str] = set()


def _is_repeated(experiment: Experiment) -> bool:
    """Whether a sweep has run this experiment without a budget before."""
    text = experiment.to_json()
    repeated = text in _without_budget
    _without_budget.add(text)
    return repeated


@hydra.main(config_path=str(conf_folder()), config_name="config", version_base="1.3")
def _job(config: DictConfig) -> None:
    overrides = list(HydraConfig.get().overrides.task)
    output: Path | None = None
    if HydraConfig.get().mode == RunMode.MULTIRUN:
        if _sweep.folder is None and _sweep.runs is not None:
            _bars.sweep(_sweep.runs)
        _sweep.folder = Path(HydraConfig.get().sweep.dir)
        output = Path(HydraConfig.get().runtime.output_dir)
        if _sweep.missing:
            output = _sweep.missing.place(output)
    try:
        with _bars.run(_words(config)):
            experiment = to_experiment(config)
            if output is not None and not experiment.method.uses_budget:
                experiment = dataclasses.replace(experiment, privacy=Privacy(math.inf))
                if _is_repeated(experiment):
                    log.info("%s: skipped, as no budget makes a difference to it", " ".join(overrides))
                    return
            if _sweep.missing and _sweep.missing.has(experiment):
                log.info("there already: %s", " ".join(overrides))
                return
            if output is None:
                named = Path(config.output).expanduser() if config.output else None
                output = named or default_output(experiment, output_base())
            _run(config, experiment, output, overrides)
    except (DPForestError, TooFewClients) as error:
        _fail(overrides, output, error)
        log.error("error: %s", error)
    except Exception as error:
        # A defect of the program, or a crash of the engine: shown whole, and a sweep goes on with the next run.
        _fail(overrides, output, error)
        log.exception("this run failed")
    finally:
        if _sweep.folder is not None:
            _write_results(_sweep.folder)


def _run(config: DictConfig, experiment: Experiment, output: Path, overrides: list[str]) -> None:
    name = _sweep.folder.name if _sweep.folder else "single runs"
    tracker = build_tracker(config.tracking, name, (_sweep.folder or output).absolute().parent)
    wanted = config.engine.nodes or experiment.partition.count(experiment.source)
    grid, nodes = _engine.grid(config.engine.kind, wanted, config.engine.ray_address)
    run_job(experiment, grid, output, nodes, overrides, _bars.round, tracker)


def _words(config: DictConfig) -> str:
    return f"{config.strategy.name} on {config.dataset.name}, epsilon {config.privacy.epsilon}, seed {config.seed}"


def _fail(overrides: list[str], output: Path | None, error: Exception) -> None:
    _failures.append(f"{' '.join(overrides)}: {error}")
    if _sweep.folder is not None and output is not None and not (output.is_dir() and any(output.iterdir())):
        try:
            write_failure(output, overrides, f"{type(error).__name__}: {error}")
        except OSError as unwritten:
            log.error("cannot write why it failed to %s: %s", output, unwritten.strerror)


def _write_results(folder: Path) -> None:
    try:
        write_results(folder)
    except OSError as error:
        log.error("cannot write the results to %s: %s", folder, error.strerror)


def _report() -> None:
    """The report of a finished sweep; a defect in it does not spoil the sweep."""
    if _sweep.folder is None:
        return
    # Only now: what draws takes a second to load, and single runs do without.
    from fl_app.compare import section_tables
    from fl_app.report.gather import gather
    from fl_app.report.page import REPORT, write_page

    log.info("writing the report")
    try:
        gathered = gather([_sweep.folder])
        for section in gathered.sections:
            print(f"\n{section_tables(section)}")
        for each in write_page(gathered, _sweep.folder):
            log.info("%s: %s", each.section.title, each.headline())
        log.info("report: %s", _sweep.folder / REPORT)
    except OSError as error:
        log.error("cannot write the report to %s: %s", _sweep.folder, error.strerror)
    except Exception:
        log.exception("the report failed; try python -m fl_app.report %s", _sweep.folder)
    if _failures:
        log.info(
            "runs that failed: %d; run them again with python -m fl_app %s\n%s",
            len(_failures),
            resume_option(_sweep.folder),
            "\n".join(_failures),
        )


def _show() -> int:
    """Print what Hydra shows, at once: where nobody reads on, Hydra would report the broken pipe as a defect."""
    shown = io.StringIO()
    try:
        with contextlib.redirect_stdout(shown):
            _job()
    finally:
        print(shown.getvalue(), end="")
    return 0


def main() -> int:
    """Run, and say by the exit code whether everything went well."""
    with interruptible():
        try:
            return _main()
        except KeyboardInterrupt:
            go_on = f"; go on with python -m fl_app {resume_option(_sweep.folder)}" if _sweep.folder else ""
            log.info("interrupted%s", go_on)
            return interrupted_code()


def _main() -> int:
    quiet_flower()
    log_to_screen()
    atexit.register(_engine.close)
    try:
        sys.argv[1:], resumed = split_resume(join_flags(sys.argv[1:]))
        overrides = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
        check_overrides(overrides)
        sys.argv[1:] = place_runs(sys.argv[1:])
        if shows_only(sys.argv[1:]):
            return _show()
        if is_sweep(sys.argv[1:]):
            _sweep.runs = count_runs(overrides)
        elif any(text.startswith("experiment=") for text in overrides) and (runs := count_runs(overrides)) > 1:
            log.warning(
                "this experiment has %d runs; without -m this is a single one, which takes no value from its lists",
                runs,
            )
        if resumed:
            _sweep.missing = Missing(resumed)
    except DPForestError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    try:
        with _bars:
            _job()
    finally:
        _engine.close()
    _report()
    return 1 if _failures else 0


if __name__ == "__main__":
    run_command(main)
