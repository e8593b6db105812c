"""What examples share: an experiment on a known data set, or on made-up rows where its files are not here."""

from __future__ import annotations

import atexit
import dataclasses
import tempfile
from pathlib import Path

from fl_app.client_app import app
from fl_app.config.compose import compose_config, to_experiment
from fl_app.data.source import DataError, DataSource
from fl_app.engine.comparisons import add_comparison_runs
from fl_app.engine.experiment import Experiment
from fl_app.engine.in_process import in_process
from fl_app.engine.run import Run, run_experiment
from fl_app.forecast.made_up import MadeUpRows


def experiment(overrides: str, clients: int, rows: int) -> Experiment:
    """What ``dpforest run OVERRIDES`` would run; prints which rows it is about.

    Parameters
    ----------
    overrides : str
        With the data set, which is looked for in ``DPFOREST_DATA``.
    clients, rows : int
        How many clients, with how many rows each, are made up where it is not there.
    """
    asked = to_experiment(compose_config(overrides.split()))
    if is_here(asked.source):
        print(f"data set {asked.source.name}, found by DPFOREST_DATA")
        return asked
    schema = asked.source.schema()
    print(f"{asked.source.name} is not in DPFOREST_DATA: {clients} x {rows} made-up rows with its columns instead")
    folder = tempfile.TemporaryDirectory(prefix="dpforest-made-up-")
    atexit.register(folder.cleanup)
    MadeUpRows(schema, seed=0).write(Path(folder.name), clients, rows)
    return dataclasses.replace(asked, dataset={"name": "table", "path": folder.name, "schema": schema.to_dict()})


def is_here(source: DataSource) -> bool:
    """Whether the files of a data set are found."""
    try:
        return all(file.exists() for file in source.files(source.subjects()[0]))
    except DataError:
        return False


def run(experiment: Experiment, epsilon: float, **strategy: object) -> Run:
    """Run an experiment at an epsilon, in this process, with what its method is compared with.

    Parameters
    ----------
    experiment : Experiment
    epsilon : float
    **strategy
        Settings of the method that differ.
    """
    experiment = dataclasses.replace(
        experiment,
        privacy=dataclasses.replace(experiment.privacy, epsilon=epsilon),
        strategy={**experiment.strategy, **strategy},
    )
    clients = experiment.clients_for(experiment.partition.count(experiment.source))
    with in_process(app, clients) as grid:
        done = run_experiment(experiment, grid)
        add_comparison_runs(done, grid, None)
    return done
