"""Methods that a simulation runs after another one, on the same rows and nodes, to compare them client by client."""

from __future__ import annotations

import dataclasses
import logging

from flwr.serverapp import Grid

from dpforest.errors import DPForestError
from fl_app.engine.run import Run, run_experiment
from strategies.method import TooFewClients
from strategies.metrics import primary_metric

log = logging.getLogger(__name__)


def add_comparison_runs(run: Run, grid: Grid, nodes: dict[int, int] | None) -> None:
    """Run what the run's method wants to be compared with, and add its scores to the run.

    Each has a budget and ledgers of its own; nothing of them counts for the run. Real nodes take part in one run only,
    so there the comparison is left out: where only they have rows unasked, else with a warning.
    """
    experiment = run.experiment
    if experiment.source.on_nodes:
        return
    for name, settings in experiment.method.comparison_methods(experiment.settings).items():
        log.info("for comparison: %s, with a budget of its own", name)
        try:
            other = run_experiment(
                dataclasses.replace(experiment, strategy={"name": name, **settings}, memorization=()), grid, nodes
            )
        except (DPForestError, TooFewClients) as error:
            log.warning("no comparison with %s: %s", name, error)
            continue
        primary = primary_metric(other.metrics).name
        scores = {row["client"]: row[primary] for row in other.clients if primary in row}
        for row in run.clients:
            if row["client"] in scores:
                row[f"{primary}_{name}"] = scores[row["client"]]
        run.metrics.setdefault("comparison_methods", {})[name] = {
            primary: other.metrics.get(primary),
            "guarantee": other.privacy["guarantee"],
            "seconds": other.metrics["seconds"],
        }
