"""Runs that a sweep adds by itself: what there is without a federation, so that a report can say when to have none.

For each data set, division, evaluation and seed of its runs: every client alone without privacy, which sends nothing;
every client alone under each epsilon; and all rows in one place. A sweep that has such runs itself gets no others.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from dpforest.errors import DPForestError
from dpforest.guarantee import PrivacyUnit
from dpforest.ledger import rounded_up
from fl_app.engine.experiment import Experiment, Privacy
from fl_app.jobs.engine import WarmEngine
from fl_app.jobs.job import report_failure
from fl_app.jobs.names import free_place, run_names
from fl_app.jobs.record import run_job
from fl_app.jobs.settings import EngineSettings
from fl_app.results.finished import PRIVATE, FinishedRun
from fl_app.results.mlflow import build_tracker
from fl_app.results.rows import read_runs
from fl_app.results.text import decimals
from fl_app.terminal.screen import Bars, one_line_a_run
from strategies.metrics import primary_metric
from strategies.registry import get_method

ALONE, PRIVATE_ALONE, POOLED = "alone", "standalone", "centralized"
log = logging.getLogger("fl_app")


def missing_references(runs: Sequence[FinishedRun]) -> list[Experiment]:
    """What the runs of a sweep lack to be compared with, each once."""
    found: dict[str, Experiment] = {}
    known = {_key(run.config, run.method, run.epsilon) for run in runs}
    for run in runs:
        for reference in _references(run):
            key = _key(reference.to_dict(), reference.method.name, reference.budget.epsilon)
            if key not in known:
                found.setdefault(key, reference)
    return list(found.values())


def _references(run: FinishedRun) -> Iterator[Experiment]:
    try:
        experiment = Experiment.from_dict({key: value for key, value in run.config.items() if key != "overrides"})
        is_classification = experiment.source.schema().is_classification
    except DPForestError as error:
        log.warning("no comparison for %s: %s", run.folder, error)
        return
    if experiment.source.on_nodes:
        return
    yield _reference(experiment, POOLED, Privacy(math.inf))
    if experiment.evaluation.split == "subject":
        return  # who is held out has no rows, and so no model of its own
    yield _reference(experiment, ALONE, Privacy(math.inf))
    of_records = run.state == PRIVATE and run.guarantee.unit.kind is PrivacyUnit.RECORD
    if of_records and is_classification:
        yield _reference(experiment, PRIVATE_ALONE, Privacy(run.epsilon, noise=experiment.privacy.noise))


def _reference(experiment: Experiment, name: str, privacy: Privacy) -> Experiment:
    """Another method on the same rows, with none of the test rows public."""
    return dataclasses.replace(
        experiment,
        strategy={"name": name, **dataclasses.asdict(get_method(name).settings())},
        evaluation=dataclasses.replace(experiment.evaluation, public_share=0.0),
        privacy=privacy,
        rounds=None,
        memorization=(),
    )


def _key(config: Any, method: str, epsilon: float) -> str:
    """What is the same for two runs of a method, whatever its settings, on the same rows with the same draws."""
    evaluation = {name: value for name, value in config["evaluation"].items() if name != "public_share"}
    parts = config["dataset"], config["partition"], evaluation, config["seed"]
    return json.dumps([method, rounded_up(epsilon), *parts], sort_keys=True)


def run_references(folder: Path, tracking: DictConfig, bars: Bars) -> None:
    """Run what a sweep's folder lacks, in this process, without Ray. One that fails costs the sweep nothing."""
    wanted = missing_references(read_runs([folder]))
    if not wanted:
        return
    log.info("%d runs to compare with: each client alone, all rows in one place (references=false: none)", len(wanted))
    asked = [_overrides(experiment) for experiment in wanted]
    bars.sweep(len(wanted))
    with WarmEngine() as engine, one_line_a_run():
        for number, (experiment, overrides, name) in enumerate(zip(wanted, asked, run_names(asked), strict=True), 1):
            with report_failure(overrides, None, []), bars.run(_words(experiment)):
                clients = experiment.partition.count(experiment.source)
                grid, nodes = engine.grid(EngineSettings(kind="in_process"), clients)
                tracker = build_tracker(tracking, folder, folder.absolute().parent)
                run = run_job(experiment, grid, free_place(folder / name), nodes, overrides, bars.round, tracker)
                words = f"{_words(experiment)}{_score(run.metrics)}"
                log.info("to compare with, %d of %d: %s", number, len(wanted), words)


def _overrides(experiment: Experiment) -> list[str]:
    """What tells a reference from the others of a sweep, as a command would say it."""
    epsilon = experiment.budget.epsilon
    named: Iterable[tuple[str, Any]] = (
        ("strategy", experiment.method.name),
        ("dataset", experiment.source.name),
        ("partition.kind", experiment.partition.kind),
        ("partition.clients", experiment.partition.clients),
        ("evaluation.split", experiment.evaluation.split),
        ("evaluation.fold", experiment.evaluation.fold),
        ("privacy.epsilon", None if math.isinf(epsilon) else rounded_up(epsilon)),
        ("seed", experiment.seed),
    )
    return [f"{name}={value}" for name, value in named if value is not None]


def _words(experiment: Experiment) -> str:
    epsilon = experiment.budget.epsilon
    under = "" if math.isinf(epsilon) else f", epsilon {rounded_up(epsilon)}"
    return f"{experiment.method.name} on {experiment.source.name}{under}, seed {experiment.seed}"


def _score(metrics: dict[str, Any]) -> str:
    metric = primary_metric(metrics)
    return f": {metric.label} {decimals(metrics[metric.name])}" if metric.name in metrics else ""
