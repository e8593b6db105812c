"""One experiment on one grid: the single way through, whichever door was used."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from flwr.serverapp import Grid

from dpforest import __version__
from dpforest.guarantee import PrivacyUnit
from dpforest.schema import Schema
from fl_app.data import describe_clipped, describe_dropped, is_large, user_type
from fl_app.engine.experiment import Experiment
from strategies.federation.evaluation import Evaluation, Joint
from strategies.federation.result import Exchange, Failure, FederatedResult
from strategies.federation.strategy import MethodStrategy
from strategies.federation.traffic import Traffic
from strategies.method import ServerSide
from strategies.metrics import (
    confusion_matrix,
    count_rows,
    finite,
    joint_metrics,
    memorization_rate,
    metrics_of,
    primary_metric,
)

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
    """Train and evaluate one experiment.

    Parameters
    ----------
    experiment : Experiment
    grid : Grid
        A simulation, a federation of SuperNodes, or an in-process grid.
    nodes : mapping of int to int, optional
        Which node plays which client, if it is known from an earlier run on the same grid.
    on_round : callable, optional
        Called with the exchange, their number, and how it went.

    Raises
    ------
    DPForestError
        The experiment does not fit the grid, or its plan exceeds the budget; nothing was trained.
    TooFewClients
        Too many clients failed.
    """
    on_exchange = partial(_say, on_round) if on_round else None
    strategy = MethodStrategy(
        experiment, FederatedResult, min_clients=experiment.min_clients, nodes=nodes, on_exchange=on_exchange
    )
    result = strategy.start(grid, timeout=experiment.timeout)
    _log_clipped(experiment)
    rows = [_row(exchange) for exchange in result.exchanges]
    return Run(
        experiment=experiment,
        side=result.side,
        metrics=_metrics(experiment, result, rows),
        rounds=rows,
        clients=_client_rows(experiment, result),
        privacy=_privacy(experiment, result),
        failures=result.failures,
    )


def _log_clipped(experiment: Experiment) -> None:
    """Say what was clipped or left out of rows that this machine has itself; a node says it to its owner alone."""
    if experiment.source.on_nodes:
        return
    clipped = experiment.source.clipped()
    if text := describe_clipped(clipped):
        log.log(logging.WARNING if is_large(clipped) else logging.INFO, "%s: %s", experiment.source.name, text)
    if text := describe_dropped(experiment.source.dropped()):
        log.warning("%s: %s", experiment.source.name, text)


def _row(exchange: Exchange) -> dict[str, Any]:
    row = {
        "round": exchange.number,
        "answered": exchange.answered,
        "asked": exchange.asked,
        "bytes_down": exchange.training.down,
        "bytes_up": exchange.training.up,
        "train_seconds": round(exchange.training.seconds, 4),
        **exchange.facts,
    }
    if exchange.evaluating is None:
        return row
    if pooled := exchange.joint:
        row |= pooled.metrics
        if "scores" in pooled.sums:
            row["confusion"] = "; ".join(" ".join(map(str, line)) for line in confusion_matrix(pooled.sums))
    return row | _evaluation_traffic(exchange.evaluating)


def _evaluation_traffic(traffic: Traffic) -> dict[str, Any]:
    return {"evaluation_bytes_down": traffic.down, "evaluation_seconds": round(traffic.seconds, 4)}


def _say(on_round: Callable[[int, int, str], None], exchange: Exchange, side: ServerSide[Any]) -> None:
    on_round(exchange.number, side.exchanges, _words(_row(exchange), side))


def _words(row: dict[str, Any], side: ServerSide[Any]) -> str:
    parts = [f"{row['answered']}/{row['asked']} clients"]
    if side.rounds_done is not None:
        parts.insert(0, f"round {side.rounds_done}/{side.task.rounds}")
    scores = [metric for metric in metrics_of() if metric.log and metric.name in row]
    parts += [f"{metric.label} {row[metric.name]:{metric.log}}" for metric in scores]
    if "confusion" in row:
        parts.append(f"true by predicted [{row['confusion']}]")
    if words := side.progress():
        parts.append(words)
    return ", ".join(parts)


def _metrics(experiment: Experiment, result: FederatedResult, rows: list[dict[str, Any]]) -> dict[str, Any]:
    evaluations, schema = result.evaluation, result.side.task.schema
    pooled = result.exchanges[-1].joint
    metrics = _test_metrics(evaluations, pooled, schema) if pooled else {}
    metrics |= {
        "clients": len(result.cohort.train),
        "rounds": len(rows),
        "bytes_down": sum(row["bytes_down"] for row in rows),
        "bytes_up": sum(row["bytes_up"] for row in rows),
        "seconds": round(result.seconds, 3),
        "failures": len(result.failures),
    }
    if schema.rows:
        # What uploading the rows in single precision would cost, by their public number: the true one is private.
        metrics["public_rows"] = schema.rows
        metrics["bytes_of_rows"] = 4 * (schema.n_features + 1) * schema.rows * len(result.cohort.train)
    if evaluations and experiment.memorization and not result.noised_metrics_received:
        metrics |= _memorization(experiment, evaluations)
    facts = _facts(result.side.report)
    left_out = {str(client): why for client, why in result.left_out.items()} | facts.pop("left_out", {})
    missing = {"left_out": left_out} if left_out else {}
    trained = len(result.cohort.train) - len(left_out)
    return finite(metrics | facts | {"trained": trained} | missing, "metrics")


def _test_metrics(evaluations: list[Evaluation], pooled: Joint, schema: Schema) -> dict[str, Any]:
    metrics: dict[str, Any] = {**pooled.metrics, "test_rows": max(count_rows(pooled.sums), 0)}
    if schema.is_classification:
        metrics["classes"] = list(schema.classes)
    if any(each.release for each in evaluations):
        return metrics | {"intervals": {name: list(ends) for name, ends in pooled.intervals.items()}}
    return metrics | _exact_metrics(evaluations, pooled)


def _exact_metrics(evaluations: list[Evaluation], pooled: Joint) -> dict[str, Any]:
    """What the noise of single clients, or cells, would drown."""
    metrics: dict[str, Any] = {}
    primary = primary_metric(pooled.metrics).name
    if primary not in pooled.metrics:
        log.warning("no %s: it is not defined for these test rows", primary)
    of_clients = [joint_metrics([each.sums]) for each in evaluations]
    if scores := [own[primary] for own in of_clients if primary in own]:
        metrics |= {"worst_client": min(scores), "best_client": max(scores)}
    if "confusion" in pooled.sums:
        metrics["confusion"] = confusion_matrix(pooled.sums)
    return metrics


def _facts(read: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What a method reports about a finished run; the run is not lost where it cannot."""
    try:
        return read()
    except Exception as error:
        log.warning("facts about the run are left out: %s: %s", type(error).__name__, error, exc_info=True)
        return {}


def _memorization(experiment: Experiment, evaluations: list[Evaluation]) -> dict[str, Any]:
    rates = {
        str(n): memorization_rate(
            {each.client: each.by_owner[str(n)] for each in evaluations if str(n) in each.by_owner}
        )
        for n in experiment.memorization
    }
    # Each owner's tree on all test rows together: clients weigh as many rows as they have.
    alone = {}
    for owner in sorted({owner for each in evaluations for owner in each.by_owner.get("all", {})}):
        those = [each for each in evaluations if owner in each.by_owner.get("all", {})]
        rows = [sum(each.sums["confusion"]) for each in those]
        right = [each.by_owner["all"][owner] * n for each, n in zip(those, rows, strict=True)]
        alone[str(owner)] = sum(right) / sum(rows)
    return {"memorization_rate": rates, "owner_accuracy": alone}


def _client_rows(experiment: Experiment, result: FederatedResult) -> list[dict[str, Any]]:
    by_client = {each.client: each for each in result.evaluation}
    rows = []
    for client, traffic in sorted(result.traffic.items()):
        row: dict[str, Any] = {"client": client, "trains": client in result.cohort.train}
        if experiment.partition.kind == "user_types":
            row["type"] = user_type(experiment.partition, client, result.cohort.total)
        if client in by_client and by_client[client].release is None:
            sums = by_client[client].sums
            row |= joint_metrics([sums]) | {"test_rows": count_rows(sums)}
        row |= _facts(partial(result.side.client_facts, client, result.ledgers.get(client)))
        row |= {"bytes_down": traffic.down, "bytes_up": traffic.up}
        row["failures"] = sum(f.client == client for f in result.failures)
        rows.append(row)
    return rows


def _privacy(experiment: Experiment, result: FederatedResult) -> dict[str, Any]:
    """The guarantee of the run: that of its worst-protected client, with every client's ledger."""
    guarantee = replace(result.guarantee, unit=experiment.protection.unit)
    notes = []
    of_records = experiment.protection.unit.kind is PrivacyUnit.RECORD
    if experiment.source.records_per_sample > 1 and guarantee.holds and of_records:
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
        "records_an_hour": experiment.source.records_an_hour,
        "note": "; ".join(notes),
        "evaluation": _about_evaluation(result),
        "noise": "seeded: for simulation only" if result.noise == "seeded" else "secure",
        "dpforest": __version__,
        "clients": {str(client): ledger.to_dict() for client, ledger in sorted(result.ledgers.items())},
    }


def _about_evaluation(result: FederatedResult) -> str:
    if result.noised_metrics_received:
        text = (
            "test metrics were reported with noise: one test record, added or removed, is protected like one training "
            "record, by the same epsilon, as no record is both. "
        )
        text += "Clients shared the noise of their sum" if result.metrics_are_of_a_sum else "Each client noised its own"
        in_clear = "; those of others, in clear, are not part of the guarantee" if result.metrics_received else ""
        return f"{text}{in_clear}. Not part of it are the facts that a client takes part and how long its answers take"
    reported = (
        "test metrics were reported in clear for the researcher; they are not"
        if result.metrics_received
        else "no client reported test metrics; they would not be"
    )
    text = f"{reported} part of the guarantee. Nor are the facts that a client takes part and how long its answers take"
    if any(each.own_model for exchange in result.exchanges for each in exchange.evaluation or ()):
        text += ", nor are the clients' own models, which only a simulation shows"
    return text
