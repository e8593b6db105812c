"""One experiment on one grid: the single way through, whichever door was used."""

from __future__ import annotations

import itertools
import logging
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord
from flwr.serverapp import Grid

from dpforest import __version__
from dpforest.errors import DPForestError
from dpforest.ledger import Guarantee, Ledger
from fl_app.data import describe_clipped, is_large, user_type
from fl_app.experiment import Experiment
from fl_app.grids import Meter, Traffic, is_deployed, roster, wait_for_nodes
from fl_app.metrics import (
    add_sums,
    confusion_matrix,
    count_rows,
    memorization_rate,
    metrics_of,
    primary_metric,
    summarize,
)
from fl_app.strategy import Cohort, Failure, Judged, MethodStrategy
from strategies.messages import to_arrays_record
from strategies.method import ServerSide

log = logging.getLogger(__name__)


@dataclass
class Run:
    """A finished run: what the run folder holds."""

    experiment: Experiment
    side: ServerSide
    metrics: dict[str, Any]
    rounds: list[dict[str, Any]]
    clients: list[dict[str, Any]]
    privacy: dict[str, Any]
    failures: list[Failure] = field(default_factory=list)


def run_experiment(
    experiment: Experiment,
    grid: Grid,
    nodes: dict[int, int] | None = None,
    on_round: Callable[[int, int, str], None] | None = None,
) -> Run:
    """Train and judge one experiment.

    Parameters
    ----------
    experiment : Experiment
    grid : Grid
        A simulation, a federation of SuperNodes, or an in-process grid.
    nodes : mapping of int to int, optional
        Which node plays which client, if it is known from an earlier run on the same grid.
    on_round : callable, optional
        Is told the exchange, their number, and how it went.

    Raises
    ------
    DPForestError
        The experiment does not fit the grid, or its plan exceeds the budget; nothing was trained.
    TooFewClients
        Too many clients failed.
    """
    start = time.perf_counter()
    if nodes is None:
        nodes = roster(grid, wait_for_nodes(grid, 1, experiment.timeout), experiment.timeout)
    cohort, clients = _cohort(experiment, nodes)
    task = replace(experiment.server_task(clients), deployed=is_deployed(grid))
    side = experiment.method.server(task)
    blank = Ledger(experiment.budget, experiment.method.unit, experiment.trust)
    blank.require(side.planned())
    base = {"experiment": experiment.to_json(), "run": uuid.uuid4().hex}
    by_owner = bool(experiment.memorization)
    if by_owner and not task.schema.is_classification:
        raise DPForestError("memorization is measured by accuracy, and this data set has no classes: leave it empty")
    strategy = MethodStrategy(side, cohort, base, blank, experiment.min_clients, experiment.timeout, by_owner)
    strategy.summary()
    meter = Meter(grid)
    rows = _exchange_all(experiment, strategy, meter, on_round)
    _log_clipped(experiment)
    shown_models = any(each.own_model for row in rows for each in row.get("judged", ()))
    judged = rows[-1].pop("judged")
    for row in rows[:-1]:
        row.pop("judged", None)
    seconds = time.perf_counter() - start
    ledgers = _all_ledgers(strategy, blank)
    privacy = _privacy(experiment, blank, ledgers, strategy.noise, strategy.told_metrics)
    if shown_models:
        privacy["evaluation"] += ", nor are the clients' own models, which only a simulation shows"
    return Run(
        experiment=experiment,
        side=side,
        metrics=_metrics(experiment, strategy, judged, rows, clients, seconds),
        rounds=rows,
        clients=_client_rows(experiment, strategy, judged, meter, ledgers),
        privacy=privacy,
        failures=strategy.failures,
    )


def _log_clipped(experiment: Experiment) -> None:
    """Say what was clipped of rows that this machine has itself; a real node says it to its owner alone."""
    if experiment.source.on_nodes:
        return
    clipped = experiment.source.clipped()
    if text := describe_clipped(clipped):
        log.log(logging.WARNING if is_large(clipped) else logging.INFO, "%s: %s", experiment.source.name, text)


def _cohort(experiment: Experiment, nodes: dict[int, int]) -> tuple[Cohort, int]:
    clients = experiment.clients_for(len(nodes))
    if missing := sorted(set(range(clients)) - set(nodes)):
        if len(nodes) >= clients:
            raise DPForestError(
                f"no node plays client {missing[0]}, and {len(nodes)} nodes play {', '.join(map(str, sorted(nodes)))}: "
                f"number them from 0 without gaps, by the partition-id of their configurations"
            )
        raise DPForestError(
            f"the experiment makes {clients} clients, but no node plays client {missing[0]} "
            f"({len(nodes)} nodes are there): start {clients} nodes (num-supernodes={clients}), "
            f"or set partition.clients={len(nodes)}"
        )
    roles = experiment.roles(clients)
    # Under a subject split, clients that train have no test rows of their own.
    by_subject = experiment.evaluation.split == "subject"
    train = {c: nodes[c] for c in range(clients) if roles[c] == "train"}
    test = {c: nodes[c] for c in range(clients) if roles[c] == "test" or (roles[c] == "train" and not by_subject)}
    return Cohort(train, test, clients), clients


def _exchange_all(
    experiment: Experiment,
    strategy: MethodStrategy,
    meter: Meter,
    on_round: Callable[[int, int, str], None] | None,
) -> list[dict[str, Any]]:
    side = strategy.side
    arrays = to_arrays_record(side.initial_arrays())
    rows = []
    for exchange in itertools.count(1):
        messages = strategy.configure_train(exchange, arrays, ConfigRecord(), meter.grid)
        replies, training = meter.exchange(messages, experiment.timeout)
        new_arrays, _ = strategy.aggregate_train(exchange, replies)
        arrays = new_arrays if new_arrays is not None else arrays
        last = exchange == side.exchanges or side.finished
        row = {
            "round": exchange,
            "answered": strategy.rounds[exchange].answered,
            "asked": strategy.rounds[exchange].asked,
            "bytes_down": training.down,
            "bytes_up": training.up,
            "train_seconds": round(training.seconds, 4),
            **side.round_facts(),
        }
        if side.is_round_end(exchange) or last:
            row |= _judge(experiment, strategy, meter, exchange, arrays)
        rows.append(row)
        if on_round:
            on_round(exchange, side.exchanges, _words(row, side))
        if last:
            break
    return rows


def _judge(
    experiment: Experiment, strategy: MethodStrategy, meter: Meter, exchange: int, arrays: ArrayRecord
) -> dict[str, Any]:
    messages = strategy.configure_evaluate(exchange, arrays, ConfigRecord(), meter.grid)
    replies, traffic = meter.exchange(messages, experiment.timeout)
    strategy.aggregate_evaluate(exchange, replies)
    judged = strategy.rounds[exchange].judged
    summary: dict[str, Any] = {}
    if judged:
        sums = add_sums(j.sums for j in judged)
        summary |= summarize(sums)
        if "scores" in sums:
            summary["confusion"] = "; ".join(" ".join(map(str, row)) for row in confusion_matrix(sums))
    return {**summary, **_evaluation_traffic(traffic), "judged": judged}


def _evaluation_traffic(traffic: Traffic) -> dict[str, Any]:
    return {"evaluation_bytes_down": traffic.down, "evaluation_seconds": round(traffic.seconds, 4)}


def _words(row: dict[str, Any], side: ServerSide) -> str:
    parts = [f"{row['answered']}/{row['asked']} clients"]
    scores = [metric for metric in metrics_of() if metric.log and metric.name in row]
    parts += [f"{metric.label} {row[metric.name]:{metric.log}}" for metric in scores]
    if "confusion" in row:
        parts.append(f"true by predicted [{row['confusion']}]")
    if words := side.progress():
        parts.append(words)
    return ", ".join(parts)


def _metrics(
    experiment: Experiment,
    strategy: MethodStrategy,
    judged: list[Judged],
    rows: list[dict[str, Any]],
    clients: int,
    seconds: float,
) -> dict[str, Any]:
    metrics: dict[str, Any] = {}
    if judged:
        sums = add_sums(j.sums for j in judged)
        metrics |= summarize(sums)
        primary = primary_metric(metrics).name
        scores = {j.client: summarize(j.sums)[primary] for j in judged}
        metrics["worst_client"] = min(scores.values())
        metrics["best_client"] = max(scores.values())
        if "confusion" in sums:
            metrics["confusion"] = confusion_matrix(sums)
            metrics["classes"] = list(experiment.schema(clients).classes)
        metrics["test_rows"] = count_rows(sums)
    metrics |= {
        "clients": len(strategy.cohort.train),
        "rounds": len(rows),
        "bytes_down": sum(row["bytes_down"] for row in rows),
        "bytes_up": sum(row["bytes_up"] for row in rows),
        "seconds": round(seconds, 3),
        "failures": len(strategy.failures),
    }
    if (schema := strategy.side.task.schema).rows:
        # What uploading the rows in single precision would cost, by their public number: the true one is private.
        metrics["public_rows"] = schema.rows
        metrics["bytes_of_rows"] = 4 * (schema.n_features + 1) * schema.rows * len(strategy.cohort.train)
    if judged and experiment.memorization:
        metrics |= _memorization(experiment, judged)
    return metrics | strategy.side.report()


def _memorization(experiment: Experiment, judged: list[Judged]) -> dict[str, Any]:
    rates = {
        str(n): memorization_rate({j.client: j.by_owner[str(n)] for j in judged if str(n) in j.by_owner})
        for n in experiment.memorization
    }
    # Each owner's tree on all test rows together: clients weigh as many rows as they have.
    alone = {}
    for owner in sorted({owner for j in judged for owner in j.by_owner.get("all", {})}):
        judges = [j for j in judged if owner in j.by_owner.get("all", {})]
        rows = [sum(j.sums["confusion"]) for j in judges]
        right = [j.by_owner["all"][owner] * n for j, n in zip(judges, rows, strict=True)]
        alone[str(owner)] = sum(right) / sum(rows)
    return {"memorization_rate": rates, "owner_accuracy": alone}


def _client_rows(
    experiment: Experiment,
    strategy: MethodStrategy,
    judged: list[Judged],
    meter: Meter,
    ledgers: dict[int, Ledger],
) -> list[dict[str, Any]]:
    by_client = {j.client: j for j in judged}
    nodes = {**strategy.cohort.test, **strategy.cohort.train}
    rows = []
    for client, node in sorted(nodes.items()):
        traffic = meter.by_node.get(node, Traffic())
        row: dict[str, Any] = {"client": client, "trains": client in strategy.cohort.train}
        if experiment.partition.kind == "user_types":
            row["type"] = user_type(experiment.partition, client, strategy.cohort.total)
        if client in by_client:
            sums = by_client[client].sums
            row |= summarize(sums) | {"test_rows": count_rows(sums)}
        row |= strategy.side.client_facts(client, ledgers.get(client))
        row |= {"bytes_down": traffic.down, "bytes_up": traffic.up}
        row["failures"] = sum(f.client == client for f in strategy.failures)
        rows.append(row)
    return rows


def _all_ledgers(strategy: MethodStrategy, blank: Ledger) -> dict[int, Ledger]:
    """Every asked client's ledger, with what it has not paid for.

    Where a client's last answer did not come, all that was planned counts as spent.
    """
    ledgers = dict(strategy.ledgers)
    for client in strategy.unheard | (strategy.ever_asked - set(ledgers)):
        known = ledgers[client].entries if client in ledgers else ()
        ledgers[client] = _planned_ledger(strategy, blank, "asked, no answer: counted as spent")
        # What no mechanism covers has no plan: what is known of it stands beside what may have come to it since.
        for entry in known:
            if not entry.protected:
                ledgers[client].unprotected(entry.what, entry.note)
    for client, account in strategy.accounts.items():
        if why := account.why_none(strategy.ledgers.get(client, blank)):
            ledgers[client].unprotected(f"what client {client} sent: {why}", "it answered, and this is not proven")
    if not strategy.ever_asked:
        # Where sampling left everybody out, that everybody could have been drawn is what was paid for.
        for client in strategy.cohort.train:
            ledgers[client] = _planned_ledger(strategy, blank, "could have been asked: counted as spent")
    return ledgers


def _planned_ledger(strategy: MethodStrategy, blank: Ledger, why: str) -> Ledger:
    ledger = Ledger(blank.budget, blank.unit, blank.trust)
    for entry in strategy.side.planned():
        ledger.charge(replace(entry, note=f"{why}; {entry.note}" if entry.note else why))
    for what in strategy.side.unprotected():
        ledger.unprotected(what, why)
    return ledger


def _badness(guarantee: Guarantee) -> tuple[bool, bool, float]:
    return not guarantee.holds, bool(guarantee.reasons), guarantee.epsilon


def _privacy(
    experiment: Experiment, blank: Ledger, ledgers: dict[int, Ledger], noise: set[str], told_metrics: bool
) -> dict[str, Any]:
    """The guarantee of the run: that of its worst-protected client, with every client's ledger."""
    # A client without a guarantee is worse off than any with one, whatever its epsilon; one that says why comes first.
    worst = max((ledger.guarantee() for ledger in ledgers.values()), key=_badness)
    guarantee = replace(worst, unit=blank.unit, trust=blank.trust)
    notes = []
    if experiment.source.records_per_sample > 1 and guarantee.holds:
        samples = experiment.source.records_per_sample
        note = f"windows overlap: a raw sample is in up to {samples} records, so it is protected by {samples} x epsilon"
        notes.append(note + (" and a larger delta" if guarantee.delta else ""))
    if share := experiment.evaluation.public_share:
        notes.append(
            f"{share:g} of the test rows are declared public: the server may see them in clear, outside the guarantee"
        )
    return {
        **guarantee.to_dict(),
        "record": experiment.source.record,
        "note": "; ".join(notes),
        "evaluation": (
            "test metrics were reported in clear for the researcher; they are not"
            if told_metrics
            else "no client reported test metrics; they would not be"
        )
        + " part of the guarantee. Nor are the facts that a client takes part and how long its answers take",
        "noise": "seeded: for simulation only" if "seeded" in noise else "secure",
        "dpforest": __version__,
        "clients": {str(client): ledger.to_dict() for client, ledger in sorted(ledgers.items())},
    }
