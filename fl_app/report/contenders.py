"""What a method's setting reached at one epsilon, and the order in which several did."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pandas as pd

from fl_app.report.sections import Section
from fl_app.report.statistics import Interval, mean_interval, over_folds
from fl_app.results.finished import FinishedRun
from fl_app.results.text import decimals, short_delta
from strategies.method import Scope
from strategies.metrics import Metric
from strategies.registry import scope_of


@dataclass(frozen=True)
class Contender:
    """A method's setting at one epsilon: its first run, its name in its panel, and what it reached.

    ``seeds`` is by seed and fold, ``clients`` by run and client.
    """

    run: FinishedRun
    name: str
    score: Interval
    seeds: dict[tuple[Any, Any], float]
    clients: dict[tuple[Any, Any], tuple[float, float]]

    @property
    def setting(self) -> str:
        """The method with what tells it apart, in all panels."""
        return self.run.setting

    @property
    def scope(self) -> Scope:
        """Whose rows make its model."""
        return scope_of(self.run.method)

    @property
    def trust(self) -> str:
        """The trust model of its guarantee."""
        return self.run.guarantee.trust.model

    @property
    def delta(self) -> str:
        """The delta of its guarantee."""
        return short_delta(self.run.budget.delta)

    @property
    def seeds_in_words(self) -> str:
        """How many seeds its score rests on; folds of a seed are no more seeds."""
        folds = max(Counter(seed for seed, _ in self.seeds).values())
        return f"{seeds_in_words(self.score.n)}{f' of {folds} folds' if folds > 1 else ''}"


def ranked(section: Section, here: pd.DataFrame, metric: Metric | None = None) -> tuple[Contender, ...]:
    """The settings among some runs, the highest mean first. A seed that was run twice counts once.

    Parameters
    ----------
    section : Section
    here : DataFrame
        Lines of ``section.frame``.
    metric : Metric, optional
        By which; the section's own if not given.
    """
    metric = metric or section.metric
    of_clients = section.client_metric
    scored = section.clients[section.clients["number"].isin(here.index)]
    found = []
    for _, runs in here[here[metric.name].notna()].groupby("setting"):
        reached: dict[tuple[Any, Any], list[float]] = {}
        for run in (section.runs[number] for number in runs.index):
            seed, fold, *draws = run.draw
            reached.setdefault(((seed, *draws), fold), []).append(float(run.metrics[metric.name]))
        seeds = {draw: sum(scores) / len(scores) for draw, scores in reached.items()}
        clients: dict[tuple[Any, Any], tuple[float, float]] = {}
        if of_clients.name in scored:
            own = scored[scored["number"].isin(runs.index) & scored[of_clients.name].notna()]
            better = of_clients.sign * own[of_clients.name]
            lines = zip(own["number"], own["assignment"], own["client"], better, own["test_rows"], strict=True)
            clients = {(section.runs[n].draw, (which, c)): (score, rows) for n, which, c, score, rows in lines}
        score = mean_interval(list(over_folds(seeds).values()), limits=metric.limits)
        first = section.runs[runs.index[0]]
        found.append(Contender(first, section.name(first), score, seeds, clients))
    return tuple(sorted(found, key=lambda contender: -contender.score.mean))


def seeds_in_words(n: int) -> str:
    """A number of seeds."""
    return f"{n} seed{'s' if n > 1 else ''}"


def listed(words: list[str]) -> str:
    """One or several epsilons or names, as a sentence lists them."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def short(score: float, metric: Metric) -> str:
    """A score with the name of its metric."""
    return f"{metric.label} {decimals(score)}"
