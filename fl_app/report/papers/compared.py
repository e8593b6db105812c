"""What sources published against what runs of their setting reach here, and a sentence where the two differ."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from dpforest.ledger import rounded_up
from fl_app.report.papers.published import citation, published_on, source_of
from fl_app.report.sections import Section
from fl_app.report.statistics import Interval, mean_interval
from fl_app.results.finished import FinishedRun
from fl_app.results.text import decimals
from strategies.metrics import METRICS, Metric

HEADER = ("source", "method", "at", "metric", "paper", "ours", "seeds", "ours less paper")
_EVERYBODY = "all"
_SMALLEST = 0.02  # share of a value by which two must differ to be called different: figures are read by eye
_METRICS = {metric.name: metric for metric in METRICS}


@dataclass(frozen=True)
class Pair:
    """A published value, and what runs of its setting reach here.

    Parameters
    ----------
    source : mapping
        As in its file.
    method, at : str
        What the source calls it, and at which epsilon, round or type of user.
    metric : Metric
    paper : float
    ours : Interval
        Over seeds.
    """

    source: Mapping[str, Any]
    method: str
    at: str
    metric: Metric
    paper: float
    ours: Interval

    @property
    def gap(self) -> float:
        """How much more ours is."""
        return self.ours.mean - self.paper

    @property
    def differs(self) -> bool:
        """Whether the published value is outside of what the seeds span, by more than figures can be read."""
        low, high = self.ours.spread if self.ours.n > 1 else (self.ours.mean, self.ours.mean)
        room = _SMALLEST * max(abs(self.paper), abs(self.ours.mean))
        return not low - room <= self.paper <= high + room

    def line(self) -> list[str]:
        """Its line under `HEADER`."""
        gap = f"{self.gap:+.3f}" if abs(self.gap) < 1000 else f"{self.gap:+.3g}"
        return [
            source_of(self.source), self.method, self.at, self.metric.label, f"{self.paper:g}", self.ours.words,
            str(self.ours.n), gap,
        ]  # fmt: skip


def pairs(section: Section) -> list[Pair]:
    """All published values of the section's data and split that runs in it reproduce."""
    return [pair for source in published_on(section.dataset, section.split) for pair in _of_source(section, source)]


def compared(section: Section) -> tuple[list[list[str]], list[str]]:
    """Lines under `HEADER`, and a sentence for each method of a source whose values differ from ours."""
    found = pairs(section)
    groups: dict[tuple[str, str], list[Pair]] = {}
    for pair in found:
        groups.setdefault((str(pair.source["source"]), pair.method), []).append(pair)
    differing = [group for group in groups.values() if any(pair.differs for pair in group)]
    return [pair.line() for pair in found], [_sentence(group) for group in differing]


def _sentence(group: Sequence[Pair]) -> str:
    differing = [pair for pair in group if pair.differs]
    first = differing[0]
    said = [f"{decimals(p.paper)} at {p.at} (ours {p.ours.words})" for p in differing]
    agree = len(group) - len(differing)
    rest = f"; {agree} other value{'s agree' if agree > 1 else ' agrees'}" if agree else ""
    why = str(first.source.get("why", "no reason is known")).strip()
    return (
        f"{citation(first.source)}, {first.method}: it says {first.metric.label} {', '.join(said)}{rest}. "
        f"What is known of why: {why}."
    )


def _of_source(section: Section, source: Mapping[str, Any]) -> Iterator[Pair]:
    ours = source.get("ours", {})
    accuracy = _METRICS["accuracy"]
    for name, curve in source.get("accuracy", {}).items():
        for epsilon, value in curve.items():
            runs = _runs(section, ours.get(name), float(epsilon))
            yield from _pair(source, _label(name), f"epsilon {epsilon:g}", accuracy, value, _last(runs, accuracy))
    for name, value in source.get("without_privacy", {}).items():
        runs = _runs(section, ours.get(name), math.inf)
        yield from _pair(source, str(name), "no privacy", accuracy, value, _last(runs, accuracy))
    for name, curve in source.get("mse", {}).items():
        runs = [run for run in _runs(section, ours.get(name)) if run.epsilon >= source.get("least_epsilon", 0)]
        for number, value in curve.items():
            scores = {run: _at_round(run, int(number)) for run in runs}
            yield from _pair(source, str(name), f"round {number}", _METRICS["mse"], value, scores)
    for name, types in source.get("by_type", {}).items():
        runs = _runs(section, ours.get("by_type"), float(source["epsilon"]))
        for kind, value in types.items():
            scores = {run: _of_type(run, name, kind) for run in runs}
            where = "all users" if kind == _EVERYBODY else f"users of type {kind}"
            yield from _pair(source, name, where, accuracy, value, scores)


def _pair(
    source: Mapping[str, Any], method: str, at: str, metric: Metric, paper: float, scores: Mapping[FinishedRun, float]
) -> Iterator[Pair]:
    """The pair, where any run has the score; runs of one seed count once."""
    by_seed: dict[Any, list[float]] = {}
    for run, score in scores.items():
        if not math.isnan(score):
            by_seed.setdefault(run.seed, []).append(score)
    if by_seed:
        means = [sum(several) / len(several) for several in by_seed.values()]
        yield Pair(source, method, at, metric, float(paper), mean_interval(means, limits=metric.limits))


def _runs(section: Section, wanted: Mapping[str, Any] | None, epsilon: float | None = None) -> list[FinishedRun]:
    """Runs of the setting that reproduces a curve; at an epsilon, also without a valid guarantee."""
    if wanted is None:
        return []
    return [
        run
        for run in section.runs
        if all(run.config["strategy"].get(key) == value for key, value in wanted.items())
        and (epsilon is None or rounded_up(run.epsilon) == rounded_up(epsilon))
    ]


def _last(runs: Sequence[FinishedRun], metric: Metric) -> dict[FinishedRun, float]:
    return {run: float(run.metrics.get(metric.name, math.nan)) for run in runs}


def _at_round(run: FinishedRun, number: int) -> float:
    if "mse" not in run.rounds:
        return math.nan
    scores = run.rounds["mse"].dropna().tolist()  # of exchanges that end a round
    return float(scores[number - 1]) if number <= len(scores) else math.nan


def _of_type(run: FinishedRun, method: str, kind: str) -> float:
    name = "accuracy" if run.method == method else f"accuracy_{method}"
    if name not in run.clients or "type" not in run.clients:
        return math.nan
    users: pd.DataFrame = run.clients[run.clients[name].notna()]
    users = users if kind == _EVERYBODY else users[users["type"] == kind]
    return float(users[name].mean()) if len(users) else math.nan


def _label(name: Any) -> str:
    return f"depth {name}" if isinstance(name, int) else str(name)
