"""What a run can be expected to do: noise against rows, the least epsilon of use, and a score on made-up rows."""

from __future__ import annotations

import dataclasses
import logging
import math
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dpforest.errors import DPForestError
from dpforest.guarantee import PrivacyUnit
from dpforest.ledger import ALL_ROWS, Budget, Entry
from dpforest.schema import Schema
from fl_app.client_app import app as client_app
from fl_app.data import Partition
from fl_app.engine.experiment import ConfigurationError, Experiment
from fl_app.engine.in_process import in_process
from fl_app.engine.run import Run, run_experiment
from fl_app.forecast.made_up import MadeUpRows
from strategies.method import ServerSide, Signal, Task, TooFewClients
from strategies.metrics import primary_metric
from strategies.node.consent import seconds_of

log = logging.getLogger(__name__)
MOST_CLIENTS = 10_000
_LEAST, _MOST = 1e-4, 1e4  # epsilons that are tried
_CLOSE = 1.01  # ratio of two epsilons between which none is tried
_MOST_CELLS = 50_000_000  # of made-up rows
_FEW = 100  # rows of a client, where only their form matters
_NUMBER_BYTES, _MESSAGE_BYTES = 8, 1000


@dataclass(frozen=True)
class Release:
    """One kind of release of a client.

    Parameters
    ----------
    what, mechanism : str
        As in the ledger.
    times : int
        In the whole run.
    units : int
        That it is about: rows of one client, or clients where the guarantee is about these.
    noise : float
        Its deviation (of a choice: the scale of the score's noise), in what one unit changes at most.
    """

    what: str
    mechanism: str
    times: int
    units: int
    noise: float

    @property
    def share(self) -> float:
        """Noise over the most that all units can add."""
        return self.noise / self.units


@dataclass(frozen=True)
class Score:
    """What one run on made-up rows reached.

    Parameters
    ----------
    metric : str
        Its label.
    value, without_noise, trivial : float or None
        Of the run, of the same one at epsilon inf, and of the most frequent class or the mean; None where there is no
        such number.
    bytes_down, bytes_up, seconds : float
        Of the run: bytes of all clients, and seconds in this process, one client after another.
    failed : str
        Why there is no value; empty where there is one.
    """

    metric: str = ""
    value: float | None = None
    without_noise: float | None = None
    trivial: float | None = None
    bytes_down: float = 0.0
    bytes_up: float = 0.0
    seconds: float = 0.0
    failed: str = ""


@dataclass(frozen=True)
class Forecast:
    """What follows for a run from public facts.

    Parameters
    ----------
    experiment : Experiment
        As it was asked for.
    clients, rows : int
        Clients, and rows of each by the schema.
    protection : str
        Unit and trust.
    refused : str
        Why the method would not begin; empty where it does.
    releases : tuple of Release
    signal : Signal or None
        None where the method does not say how its trees stand out.
    least_epsilon : float or None
        From which on the leaves stand out, or, without a `signal`, the noise of each release is below what all its
        units can add; None where no epsilon is enough, or the method has no budget, or plans no release.
    exchanges : int
        Of the run; 0 where it is refused.
    seconds : float or None
        Of one core of a client for one message, at most; None where the method does not say.
    bytes_up : float or None
        Of one client over the run, about.
    unprotected : tuple of str
        What goes out without protection.
    score : Score or None
        None where none was asked for.
    """

    experiment: Experiment
    clients: int
    rows: int
    protection: str
    refused: str
    releases: tuple[Release, ...]
    signal: Signal | None
    least_epsilon: float | None
    exchanges: int
    seconds: float | None
    bytes_up: float | None
    unprotected: tuple[str, ...]
    score: Score | None = None


def forecast(experiment: Experiment, clients: int | None, is_scored: bool = True) -> Forecast:
    """What a run can be expected to do; no row of anybody is read.

    Parameters
    ----------
    experiment : Experiment
    clients : int or None
        None: as many as the data set has, where it has any here.
    is_scored : bool
        Whether to run it on made-up rows too.

    Raises
    ------
    DPForestError
        The schema has no number of rows, nobody says how many clients there are, or the settings do not fit.
    """
    schema = experiment.source.schema()
    if schema.rows is None:
        raise ConfigurationError(
            "the schema says no number of rows: add rows: 5000, or what a client has by order of magnitude"
        )
    if clients is None:
        if experiment.source.on_nodes:
            raise ConfigurationError("how many clients there are is missing: give clients=30, or as many as you expect")
        clients = experiment.partition.count(experiment.source)
    if not 1 <= clients <= MOST_CLIENTS:
        raise ConfigurationError(f"clients={clients} must be a whole number from 1 to {MOST_CLIENTS:,}")
    with tempfile.TemporaryDirectory(prefix="dpforest-plan-") as place:
        made_up = _on_made_up_rows(experiment, schema, Path(place))
        rows = schema.rows if clients * schema.rows * schema.n_features <= _MOST_CELLS else 0
        # A method may score trees on public rows when it begins: these are made up too.
        MadeUpRows(schema, experiment.seed).write(Path(place), clients, rows if rows and is_scored else _FEW)
        found = _by_public_facts(experiment, made_up.server_task(clients))
        if not is_scored or found.refused:
            return found
        if not rows:
            failed = Score(
                failed="so many rows are not made up here: try fewer clients, or a smaller rows: in the schema"
            )
            return dataclasses.replace(found, score=failed)
        return dataclasses.replace(found, score=_score(made_up, clients))


def _on_made_up_rows(experiment: Experiment, schema: Schema, folder: Path) -> Experiment:
    dataset = {"name": "table", "path": str(folder), "schema": schema.to_dict()}
    return dataclasses.replace(experiment, dataset=dataset, partition=Partition())


def _by_public_facts(experiment: Experiment, task: Task) -> Forecast:
    method, rows = experiment.method, task.schema.rows or 1
    least = _least_epsilon(experiment, task) if method.uses_budget else None
    side: ServerSide | None = None
    refused = ""
    try:
        side = method.server(task)
    except DPForestError as error:
        if least is None or least <= task.budget.epsilon:
            raise  # not for lack of epsilon
        refused = str(error)
    signal = side.signal() if side else None
    return Forecast(
        experiment=experiment,
        clients=task.clients,
        rows=rows,
        protection=f"{experiment.protection.unit}; {experiment.protection.trust}",
        refused=refused,
        releases=tuple(_releases(side)) if side else (),
        signal=signal,
        least_epsilon=least,
        exchanges=side.exchanges if side else 0,
        seconds=seconds_of(method.work(task)) if method.work and side else None,
        bytes_up=_bytes_up(side, signal) if side else None,
        unprotected=tuple(side.unprotected()) if side else (),
    )


def _bytes_up(side: ServerSide, signal: Signal | None) -> float | None:
    if signal is not None:
        return float(_NUMBER_BYTES * signal.numbers + _MESSAGE_BYTES * side.exchanges)
    model = sum(array.nbytes for array in side.initial_arrays().values())
    return float((model + _MESSAGE_BYTES) * side.exchanges) if model else None


def _releases(side: ServerSide) -> list[Release]:
    task = side.task
    return releases(side.planned(), task.clients if task.unit is PrivacyUnit.CLIENT else task.schema.rows or 1)


def releases(planned: Sequence[Entry], units: int) -> list[Release]:
    """Kinds of releases, with those of several trees and rounds in one line.

    Parameters
    ----------
    planned : sequence of Entry
        Of one client.
    units : int
        Rows that it has, or clients.
    """
    found: dict[tuple[object, ...], Release] = {}
    for entry in planned:
        if not entry.is_noised:
            continue
        what = re.sub(r"\b(tree|round) \d+(?=:)", r"each \1", entry.what)
        noise = noise_in_records(entry)
        parts = 1 if entry.rows == ALL_ROWS else int((re.match(r"\d+", entry.rows) or ["1"])[0])
        key = (what, entry.mechanism, round(noise, 9), parts)
        known = found.get(key)
        times = entry.times + (known.times if known else 0)
        found[key] = Release(what, entry.mechanism, times, max(1, units // parts), noise)
    return list(found.values())


def noise_in_records(entry: Entry) -> float:
    """Deviation of a release's noise over what one unit changes; of a choice, the scale of the score's noise."""
    if entry.mu:
        return 1 / entry.mu
    return (math.sqrt(2) if "Laplace" in entry.mechanism else 1.0) / entry.epsilon


def _least_epsilon(experiment: Experiment, task: Task) -> float | None:
    """The least epsilon that is enough, by halving; a ratio of 1.01 close."""

    def is_enough(epsilon: float) -> bool:
        try:
            side = experiment.method.server(dataclasses.replace(task, budget=Budget(epsilon, task.budget.delta)))
        except DPForestError:
            return False
        signal = side.signal()
        if signal is not None:
            return signal.stands_out
        found = _releases(side)
        return bool(found) and all(release.share < 1 for release in found)

    low, high = _LEAST, _MOST
    if not is_enough(high):
        return None
    if is_enough(low):
        return low
    while high / low > _CLOSE:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def _score(experiment: Experiment, clients: int) -> Score:
    try:
        run = _run(experiment, clients)
    except (DPForestError, TooFewClients) as error:
        return Score(failed=str(error))
    metric = primary_metric(run.metrics)
    if metric.name not in run.metrics:
        return Score(failed="no test metrics came")
    without = None
    if not math.isinf(experiment.budget.epsilon):
        try:
            # With the same seed the rows are the same.
            other = _run(dataclasses.replace(experiment, privacy=experiment.privacy.without_noise()), clients)
            without = other.metrics.get(metric.name)
        except (DPForestError, TooFewClients) as error:
            log.info("no score without noise: %s", error)
    return Score(
        metric=metric.label,
        value=run.metrics[metric.name],
        without_noise=without,
        trivial=_trivial(run),
        bytes_down=run.metrics["bytes_down"],
        bytes_up=run.metrics["bytes_up"],
        seconds=run.metrics["seconds"],
    )


def _run(experiment: Experiment, clients: int) -> Run:
    with in_process(client_app, clients) as grid:
        return run_experiment(experiment, grid)


def _trivial(run: Run) -> float:
    """Accuracy of the most frequent class of the test rows; R^2 of their mean."""
    confusion = run.metrics.get("confusion")
    if confusion is None:
        return 0.0
    totals = [sum(line) for line in confusion]
    return max(totals) / sum(totals)
