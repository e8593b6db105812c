"""What the numbers of a section hide, as values; their words are made at the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np

from dpforest.ledger import rounded_up
from fl_app.report.contenders import listed, ranked, short
from fl_app.report.sections import Section
from fl_app.report.statistics import Difference, difference
from fl_app.results.finished import OPEN
from fl_app.results.text import decimals
from strategies.metrics import Kind, Metric

_NAMED = 5  # classes that a sentence names


class Remark(Protocol):
    """Something that a score does not say."""

    def words(self) -> str:
        """It in one sentence."""


@dataclass(frozen=True)
class NeverPredicted:
    """Classes with test rows that a setting never predicts, by epsilon as it is printed; with all runs or some."""

    setting: str
    by_epsilon: Mapping[str, tuple[str, ...]]

    def words(self) -> str:
        parts: dict[tuple[str, ...], list[str]] = {}
        for epsilon, classes in self.by_epsilon.items():
            parts.setdefault(classes, []).append(epsilon)
        said = [f"{_classes(classes)} {_where(epsilons)}" for classes, epsilons in parts.items()]
        return f"{self.setting} never predicts {'; '.join(said)}."


@dataclass(frozen=True)
class NoTestRows:
    """Classes that no test row has, in all draws or in some of them."""

    classes: tuple[str, ...]
    draws: int
    of: int

    def words(self) -> str:
        where = "" if self.draws == self.of else f" in {self.draws} of {self.of} draws of the test rows"
        return (
            f"No test row is of class {_classes(self.classes)}{where}: nothing is known about predicting it, and "
            "balanced accuracy is a mean over the other classes."
        )


@dataclass(frozen=True)
class WorseThanMean:
    """A setting whose R^2 is below 0."""

    setting: str
    by_epsilon: Mapping[str, float]

    def words(self) -> str:
        said = ", ".join(f"{decimals(score)} {_where([epsilon])}" for epsilon, score in self.by_epsilon.items())
        return f"{self.setting} is worse than always predicting the mean of the test rows: R^2 {said}."


@dataclass(frozen=True)
class Falls:
    """A setting whose score falls where epsilon grows, by more than chance."""

    setting: str
    metric: Metric
    epsilons: tuple[float, float]
    scores: tuple[float, float]
    gap: Difference

    def words(self) -> str:
        below, above = map(rounded_up, self.epsilons)
        seeds = self.gap.seeds
        over = f" ({decimals(seeds.mean)} [{decimals(seeds.low)} to {decimals(seeds.high)}])" if seeds else ""
        before = f"{short(self.scores[0], self.metric)} at epsilon {below}"
        after = f"{decimals(self.scores[1])} at epsilon {above}"
        return (
            f"{self.setting} falls from {before} to {after}, by more than chance{over}: its settings suit the larger "
            "epsilon badly."
        )


@dataclass(frozen=True)
class Worst:
    """The client that a setting serves worst at each epsilon, by the means of its runs."""

    setting: str
    metric: Metric
    by_epsilon: Mapping[str, tuple[str, float, float]]

    def words(self) -> str:
        said = "; ".join(
            f"client {client} with {decimals(score)} where clients have {decimals(mean)} on average {_where([epsilon])}"
            for epsilon, (client, score, mean) in self.by_epsilon.items()
        )
        return f"Worst served by {self.setting}, by {self.metric.label} of a client's own test rows: {said}."


@dataclass(frozen=True)
class Said:
    """What the section says itself: which clients were left out and why, and which method had other test rows."""

    text: str

    def words(self) -> str:
        return self.text


def remarks(section: Section, leaders: Sequence[str]) -> list[Remark]:
    """What the numbers of a section hide.

    Parameters
    ----------
    section : Section
    leaders : sequence of str
        Settings that the answer names first: of these the worst client is named.
    """
    if not section.has_scores:
        return []
    return [
        *map(Said, section.on_other_rows),
        *_no_test_rows(section),
        *_never_predicted(section),
        *_worse_than_mean(section),
        *_falls(section),
        *_worst(section, leaders),
        *_left_out(section),
    ]


def _no_test_rows(section: Section) -> Iterator[Remark]:
    lacking: dict[tuple[object, ...], tuple[str, ...]] = {}
    for run in section.runs:
        if "confusion" in run.metrics:
            counts = np.sum(run.metrics["confusion"], axis=1)
            lacking[run.draw] = tuple(_zero(run.metrics["classes"], counts))
    found = [classes for classes in lacking.values() if classes]
    if found:
        yield NoTestRows(tuple(dict.fromkeys(name for classes in found for name in classes)), len(found), len(lacking))


def _never_predicted(section: Section) -> Iterator[Remark]:
    for setting in section.styles:
        by_epsilon: dict[str, tuple[str, ...]] = {}
        for epsilon, runs in section.by_epsilon.items():
            counted = [section.runs[number].metrics for number in runs.index[runs["setting"] == setting]]
            counted = [metrics for metrics in counted if "confusion" in metrics]
            if not counted:
                continue
            pooled = np.sum([metrics["confusion"] for metrics in counted], axis=0)
            never = [
                name
                for name, true, predicted in zip(
                    counted[0]["classes"], pooled.sum(axis=1), pooled.sum(axis=0), strict=True
                )
                if true and not predicted
            ]
            if never:
                by_epsilon[epsilon] = tuple(map(str, never))
        if by_epsilon:
            yield NeverPredicted(section.labels[setting], by_epsilon)


def _worse_than_mean(section: Section) -> Iterator[Remark]:
    if section.metric.kind is not Kind.TARGET:
        return
    for setting in section.styles:
        means = {
            epsilon: float(runs.loc[runs["setting"] == setting, section.metric.name].mean())
            for epsilon, runs in section.by_epsilon.items()
        }
        if below := {epsilon: mean for epsilon, mean in means.items() if mean < 0}:
            yield WorseThanMean(section.labels[setting], below)


def _falls(section: Section) -> Iterator[Remark]:
    frame = section.frame
    known = frame[frame[section.metric.name].notna() & np.isfinite(frame["epsilon"]) & (frame["state"] != OPEN)]
    for (setting, _), runs in known.groupby(["setting", "panel"]):
        at = [(epsilon, ranked(section, here)[0]) for epsilon, here in runs.groupby("epsilon")]
        for (lower, before), (higher, after) in pairwise(at):
            if before.score.mean <= after.score.mean:
                continue
            gap = difference(before.seeds, after.seeds, before.clients, after.clients)
            if gap.is_one:
                scores = before.score.mean, after.score.mean
                epsilons = float(str(lower)), float(str(higher))
                yield Falls(section.labels[str(setting)], section.metric, epsilons, scores, gap)


def _worst(section: Section, leaders: Sequence[str]) -> Iterator[Remark]:
    metric = section.client_metric
    if metric.name not in section.clients:
        return
    for setting in dict.fromkeys(leaders):
        by_epsilon = {}
        for epsilon, runs in section.by_epsilon.items():
            own = section.clients[section.clients["number"].isin(runs.index[runs["setting"] == setting])]
            scores = own.groupby(["assignment", "client"])[metric.name].mean().dropna()
            if len(scores) > 1:
                worst = scores.idxmin() if metric.more_is_better else scores.idxmax()
                by_epsilon[epsilon] = (str(worst[1]), float(scores[worst]), float(scores.mean()))
        if by_epsilon:
            yield Worst(section.labels[setting], metric, by_epsilon)


def _left_out(section: Section) -> Iterator[Remark]:
    if incomplete := section.incomplete:
        runs = f"{len(incomplete)} of {len(section.runs)} runs"
        more = " Others are named below the table." if len(incomplete) > 1 else ""
        yield Said(f"In {runs} not all clients trained all through: {incomplete[0]}{more}")


def _zero(names: Sequence[object], counts: np.ndarray) -> list[str]:
    return [str(name) for name, count in zip(names, counts, strict=True) if not count]


def _classes(names: Sequence[str]) -> str:
    if len(names) <= _NAMED:
        return listed(list(names)) if names else ""
    return f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED} other classes"


def _where(epsilons: Sequence[str]) -> str:
    finite = [epsilon for epsilon in epsilons if epsilon != OPEN]
    said = [f"at epsilon {listed(finite)}"] if finite else []
    return " and ".join([*said, *(["without privacy"] if OPEN in epsilons else [])])
