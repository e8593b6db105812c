"""The answer in words: which private method is best at which epsilon, by how much, and how sure that is."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pandas as pd

from dpforest.ledger import rounded_up
from fl_app.report.sections import Section
from fl_app.report.statistics import FEWEST_SEEDS, Difference, Interval, difference, mean_interval, over_folds
from fl_app.report.wanted import Wanted
from fl_app.results.finished import OPEN, PRIVATE, UNPROVEN, FinishedRun
from fl_app.results.text import decimals, short_delta


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
        return f"{_seeds(self.score.n)}{f' of {folds} folds' if folds > 1 else ''}"


@dataclass(frozen=True)
class Verdict:
    """The methods with a valid guarantee in one panel at one epsilon, the best first, and their gaps to the best.

    ``ahead_unproven`` is the best method without a valid guarantee, where it is ahead of them all.
    """

    section: Section
    panel: str
    epsilon: float
    ranking: tuple[Contender, ...]
    gaps: tuple[Difference, ...]
    ahead_unproven: Contender | None

    @property
    def best(self) -> Contender:
        """The method with the highest mean."""
        return self.ranking[0]

    @property
    def ties(self) -> list[Contender]:
        """Methods without a shown difference from the best one."""
        return [other for other, gap in zip(self.ranking[1:], self.gaps, strict=True) if not gap.is_one]

    @property
    def mixed_trust(self) -> bool:
        """Whether the methods differ in whom they trust."""
        return len({other.trust for other in self.ranking}) > 1

    def _named(self, contender: Contender) -> str:
        """A method with its score and with what its epsilon comes with, where methods differ in that."""
        terms = [contender.delta] if len({other.delta for other in self.ranking}) > 1 else []
        terms += [contender.trust] if self.mixed_trust else []
        return f"{contender.name} ({'; '.join([contender.score.words, *terms])})"

    def _first_by_trust(self) -> dict[str, Contender]:
        first: dict[str, Contender] = {}
        for contender in self.ranking:
            first.setdefault(contender.trust, contender)
        return first

    def words(self) -> str:
        """The verdict as a few sentences."""
        best, metric = self.best, self.section.metric.label
        leads = f"is best: {metric}"
        if len(self.ranking) == 1:
            leads = f"reaches {metric}"
        elif self.ties:
            leads = f"has the highest mean {metric}:"
        text = f"At epsilon {rounded_up(self.epsilon)} per {self.panel}, {best.name} {leads} {best.score.words}"
        text += f" ({'; '.join([best.seeds_in_words, best.delta, *([best.trust] if self.mixed_trust else [])])})"
        if len(self.ranking) == 1:
            text += "; no other method with a guarantee was run here."
        else:
            text += f"; {_gap(self._named(self.ranking[1]), self.gaps[0])}."
            further = [tie for tie in self.ties if tie is not self.ranking[1]]
            if further and best.score.n >= FEWEST_SEEDS:
                either = "" if self.gaps[0].is_one else " either"
                text += f" No difference from {', '.join(map(self._named, further))} is shown{either}."
        named = {other.trust for other in self.ranking[:2]}
        for trust, first in self._first_by_trust().items():
            if trust not in named:
                text += f" With another trust model ({trust}), {first.name} has the highest mean: "
                text += f"{first.score.words}."
        guessed = self.section.most_frequent.get(self.section.metric.name, -math.inf)
        if guessed >= best.score.mean:
            text += f" Always predicting the most frequent class reaches {decimals(guessed)}, so nothing was learned."
        if self.ahead_unproven is not None:
            ahead = self.ahead_unproven
            text += f" {ahead.name} shows {ahead.score.words}, but without a valid guarantee."
        return text


@dataclass(frozen=True)
class Answer:
    """All verdicts of a section, and what was reached without privacy, the best first; and the score that is wanted."""

    section: Section
    verdicts: list[Verdict]
    references: tuple[Contender, ...]
    wanted: Wanted | None = None

    @property
    def reference(self) -> Contender | None:
        """The best without privacy."""
        return self.references[0] if self.references else None

    def headline(self) -> str:
        """Who leads over which range of epsilon, in one sentence a panel."""
        if not self.section.has_scores or self.section.frame[self.section.metric.name].isna().all():
            return "No run here has test metrics, so there is nothing to compare."
        if not self.verdicts:
            return "No method with a valid guarantee was run here."
        sentences = []
        for panel, verdicts in groupby(self.verdicts, key=lambda verdict: verdict.panel):
            spans = []
            for leader, span in groupby(verdicts, key=_leader):
                epsilons = [verdict.epsilon for verdict in span]
                first, last = rounded_up(epsilons[0]), rounded_up(epsilons[-1])
                spans.append(f"at epsilon {first}{f' to {last}' if last != first else ''}, {leader}")
            sentences.append(f"Per {panel}: {'; '.join(spans)}.")
        return " ".join(sentences)

    def words(self) -> list[str]:
        """The headline and every verdict."""
        said = [self.headline(), *(verdict.words() for verdict in self.verdicts)]
        if self.section.absent:
            missing = ", ".join(
                f"{setting} at epsilon {rounded_up(epsilon)}" for setting, epsilon in self.section.absent
            )
            said.append(f"Not compared, as every run of it failed or was refused: {missing}.")
        if incomplete := len(self.section.incomplete):
            said.append(
                f"In {incomplete} of {len(self.section.runs)} runs not all clients trained all through: "
                f"{self.section.incomplete[0]}{' Others are named below the table.' if incomplete > 1 else ''}"
            )
        if self.reference is not None:
            said.append(
                f"Without privacy, {self.reference.setting} reaches {self.section.metric.label} "
                f"{self.reference.score.words} ({self.reference.seeds_in_words})."
            )
        return said


def answer(section: Section, wanted: Wanted | None = None) -> Answer:
    """Compare a section's runs, and mind the score that is wanted."""
    frame = section.frame
    if not section.has_scores:
        return Answer(section, [], (), wanted)
    known = frame[frame[section.metric.name].notna()]
    private = known[(known["state"] == PRIVATE)]
    verdicts = []
    for (panel, at), here in private.groupby(["panel", "epsilon"]):
        epsilon = float(str(at))
        ranking = _ranked(section, here)
        best = ranking[0]
        gaps = tuple(difference(best.seeds, other.seeds, best.clients, other.clients) for other in ranking[1:])
        unproven = known[(known["state"] == UNPROVEN) & (known["epsilon"] == epsilon) & (known["panel"] == panel)]
        ahead = [other for other in _ranked(section, unproven) if other.score.mean > best.score.mean]
        verdicts.append(Verdict(section, str(panel), epsilon, ranking, gaps, ahead[0] if ahead else None))
    verdicts.sort(key=lambda verdict: (section.panels.index(verdict.panel), verdict.epsilon))
    return Answer(section, verdicts, _ranked(section, known[known["state"] == OPEN]), wanted)


def _ranked(section: Section, here: pd.DataFrame) -> tuple[Contender, ...]:
    """The settings among some runs, the highest mean first. A seed that was run twice counts once."""
    metric, name = section.client_metric, section.client_metric.name
    scored = section.clients[section.clients["number"].isin(here.index)]
    found = []
    for _, runs in here.groupby("setting"):
        reached: dict[tuple[Any, Any], list[float]] = {}
        for run in (section.runs[number] for number in runs.index):
            seed, fold, *draws = run.draw
            reached.setdefault(((seed, *draws), fold), []).append(float(run.metrics[section.metric.name]))
        seeds = {draw: sum(scores) / len(scores) for draw, scores in reached.items()}
        clients: dict[tuple[Any, Any], tuple[float, float]] = {}
        if name in scored:
            own = scored[scored["number"].isin(runs.index) & scored[name].notna()]
            columns = own["number"], own["assignment"], own["client"], metric.sign * own[name], own["test_rows"]
            lines = zip(*columns, strict=True)
            clients = {(section.runs[n].draw, (which, c)): (score, rows) for n, which, c, score, rows in lines}
        score = mean_interval(list(over_folds(seeds).values()), limits=section.metric.limits)
        first = section.runs[runs.index[0]]
        found.append(Contender(first, section.name(first), score, seeds, clients))
    return tuple(sorted(found, key=lambda contender: -contender.score.mean))


def _leader(verdict: Verdict) -> str:
    best, ties = verdict.best.name, [other.name for other in verdict.ties]
    if len(verdict.ranking) == 1:
        return f"{best} is the only method with a guarantee"
    if verdict.mixed_trust:
        best += f" ({verdict.best.trust})"
    if not ties:
        return f"{best} is best"
    others = " and ".join(ties) if len(ties) < 3 else f"{len(ties)} others"
    if verdict.best.score.n < FEWEST_SEEDS:
        return f"{best} has the highest mean, but of too few seeds to tell it from {others}"
    return f"{best} has the highest mean, but no difference from {others} is shown"


def _gap(second: str, gap: Difference) -> str:
    if gap.seeds is None:
        return f"{second} has no seed in common with it, so they are not compared"
    over = decimals(gap.seeds.mean)
    if not math.isnan(gap.seeds.low):
        over += f" [{decimals(gap.seeds.low)} to {decimals(gap.seeds.high)}]"
    if gap.is_one:
        return f"it is ahead of {second} by {over}"
    if gap.seeds.mean < 0:  # the means are over all runs of each
        return f"in the runs that both have, {second} is ahead, by {decimals(-gap.seeds.mean)} (n = {gap.seeds.n})"
    if gap.seeds.n < FEWEST_SEEDS:
        few = "1 seed is" if gap.seeds.n == 1 else f"{gap.seeds.n} seeds are"
        return f"{second} follows by {over}, but {few} too few to call that a difference"
    if gap.seeds.is_above_zero and gap.clients is not None:
        return (
            f"no difference from {second} is shown: {over} over seeds, but "
            f"{decimals(gap.clients.low)} to {decimals(gap.clients.high)} over clients"
        )
    return f"no difference from {second} is shown: {over}"


def _seeds(n: int) -> str:
    return f"{n} seed{'s' if n > 1 else ''}"


def in_words(answers: Sequence[Answer]) -> str:
    """All answers for the terminal."""
    return "\n\n".join("\n".join([f"{each.section.title}:", *each.words()]) for each in answers)
