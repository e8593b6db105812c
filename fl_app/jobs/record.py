"""From a composed configuration to a run folder, and from run folders to a sweep's table."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from flwr.serverapp import Grid

from dpforest.errors import DPForestError
from dpforest.ledger import rounded_up
from fl_app.engine.comparisons import add_comparison_runs
from fl_app.engine.experiment import Experiment
from fl_app.engine.run import Run, run_experiment
from fl_app.results.mlflow import MlflowTracker, TrackingError
from fl_app.results.run_folder import RunFolder, is_being_written
from fl_app.results.text import client_table, run_table
from fl_app.terminal.interrupts import raise_if_interrupted
from fl_app.terminal.screen import screen_width

log = logging.getLogger(__name__)


def default_output(experiment: Experiment, base: Path) -> Path:
    """A folder named after time, strategy and data set."""
    stamp = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    name = f"{stamp}-{experiment.method.name}-{experiment.source.name}"
    path, number = base / name, 2
    while path.exists() or is_being_written(path):
        path, number = base / f"{name}-{number}", number + 1
    return path


def output_base() -> Path:
    """Where runs go when nothing is said: ``$DPFOREST_RUNS`` or ``runs`` in the working directory."""
    return Path(os.environ.get("DPFOREST_RUNS", "runs"))


def run_job(
    experiment: Experiment,
    grid: Grid,
    output: Path,
    nodes: dict[int, int] | None = None,
    overrides: Sequence[str] = (),
    on_round: Callable[[int, int], None] | None = None,
    tracker: MlflowTracker | None = None,
    measure: Callable[[Path], None] | None = None,
) -> Run:
    """Run one experiment into a run folder and say how it went.

    Parameters
    ----------
    experiment : Experiment
    grid : Grid
    output : Path
        The run folder.
    nodes : mapping of int to int, optional
        Which node plays which client.
    overrides : sequence of str
        How the user asked for it; kept in the folder.
    on_round : callable, optional
        Called after each exchange with the numbers of exchanges done and planned.
    tracker : MlflowTracker, optional
        Is given the finished folder. Where it fails, there is a warning, and the run is kept.
    measure : callable, optional
        Measures more about the finished run into its folder, before the tracker is given that.
    """

    def report(exchange: int, exchanges: int, words: str) -> None:
        raise_if_interrupted()
        log.info("%s %d/%d: %s", "round" if exchanges == experiment.total_rounds else "exchange", exchange, exchanges,
                 words)  # fmt: skip
        if on_round:
            on_round(exchange, exchanges)

    folder = RunFolder(output)
    with folder.recording(experiment, overrides):
        log.info("%s on %s, epsilon %s, seed %d", experiment.method.name, experiment.source.name,
                 rounded_up(experiment.budget.epsilon), experiment.seed)  # fmt: skip
        run = run_experiment(experiment, grid, nodes, report)
        add_comparison_runs(run, grid, nodes)
        raise_if_interrupted()
        folder.write(run)
        folder.add(lambda files: add_statement(files, folder.path.name))
        if users := client_table(run.clients, screen_width()):
            log.info("\n%s", users)
        log.info("\n%s", run_table(run.metrics, run.privacy, screen_width()))
    log.info("run folder: %s", folder.path)
    try:
        if measure:
            measure(folder.path)
    finally:
        _track(tracker, folder.path)
    return run


def _track(tracker: MlflowTracker | None, folder: Path) -> None:
    try:
        if tracker:
            tracker.log(folder)
    except TrackingError as error:
        log.warning("%s", error)


def add_statement(files: Path, name: str = "") -> None:
    """Write the statement of a run among its files; a run whose numbers no report can show goes without one.

    Parameters
    ----------
    files : Path
    name : str, optional
        What the run is called, if not as the folder.
    """
    from fl_app.report.statement import write_statement  # takes long to import, and runs that fail early never need it

    try:
        write_statement(files, name)
    except DPForestError as error:
        log.warning("no statement: %s", error)
