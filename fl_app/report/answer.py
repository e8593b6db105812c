"""The answer in words: which private method is best at which epsilon, by how much, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import pandas as pd

from dpforest.ledger import rounded_up
from fl_app.report.alone import OF_NEW_PEOPLE, Alone, alone
from fl_app.report.contenders import Contender, listed, ranked, short
from fl_app.report.remarks import Remark, remarks
from fl_app.report.sections import Section
from fl_app.report.statistics import FEWEST_SEEDS, Difference, difference
from fl_app.report.wanted import Wanted
from fl_app.results.finished import OPEN, PRIVATE, UNPROVEN
from fl_app.results.text import decimals
from strategies.method import Scope
from strategies.registry import scope_of

NONE_FINISHED = "No run came to its end, so there is no answer yet."


@dataclass(frozen=True)
class Verdict:
    """The methods with a valid guarantee in one panel at one epsilon, the best first, and their gaps to the best.

    ``second`` are the same by the section's second metric, the best first, where it has one. ``ahead_unproven`` is the
    best method without a valid guarantee, where it is ahead of them all. ``alone`` is the best private model that each
    client makes alone under the same epsilon; where nothing else in the section has a guarantee, it is in the ranking.
    """

    section: Section
    panel: str
    epsilon: float
    ranking: tuple[Contender, ...]
    gaps: tuple[Difference, ...]
    second: tuple[Contender, ...]
    ahead_unproven: Contender | None
    alone: Contender | None

    @property
    def best(self) -> Contender:
        """The method with the highest mean."""
        return self.ranking[0]

    @property
    def ties(self) -> list[Contender]:
        """Methods without a shown difference from the best one."""
        return [other for other, gap in zip(self.ranking[1:], self.gaps, strict=True) if not gap.is_one]

    @property
    def order_differs(self) -> bool:
        """Whether the second metric orders the methods otherwise."""
        return bool(self.second) and [o.setting for o in self.second] != [o.setting for o in self.ranking]

    @property
    def leader_differs(self) -> bool:
        """Whether another method leads by the second metric."""
        return bool(self.second) and self.second[0].setting != self.best.setting

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
            text += f" Always predicting {self.section.guess} reaches {decimals(guessed)}, so nothing was learned."
        if self.ahead_unproven is not None:
            ahead = self.ahead_unproven
            text += f" {ahead.name} shows {ahead.score.words}, but without a valid guarantee."
        if self.alone is not None:
            text += f" Alone under the same epsilon, a client has {self.alone.name}: {self.alone.score.words}."
        if self.order_differs and self.section.second_metric is not None:
            order = ", ".join(f"{other.name} {decimals(other.score.mean)}" for other in self.second)
            text += f" By {self.section.second_metric.label} the order is another: {order}."
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
        """The best without privacy that is more than each client's own."""
        return next((other for other in self.references if other.scope is not Scope.ALONE), None)

    @cached_property
    def alone(self) -> Alone | None:
        """Each client's own model against the best guarantees."""
        best = [(verdict.epsilon, verdict.best) for verdict in self.verdicts]
        return alone(self.section, self.references, best)

    def headline(self) -> str:
        """Whether to federate at all, and who leads over which range of epsilon."""
        return " ".join(self.sentences())

    def sentences(self) -> list[str]:
        """The headline's: whether to federate, then one a panel, and where another metric says otherwise."""
        if not self.section.has_scores or self.section.frame[self.section.metric.name].isna().all():
            return ["No run here has test metrics, so there is nothing to compare."]
        if len(self.section.runs) == 1:
            return [self._of_one_run()]
        if not self.verdicts:
            return ["No method with a valid guarantee was run here."]
        sentences = self.alone.sentences() if self.alone is not None else []
        for panel, verdicts in groupby(self.verdicts, key=lambda verdict: verdict.panel):
            spans = []
            for leader, span in groupby(verdicts, key=_leader):
                epsilons = [verdict.epsilon for verdict in span]
                first, last = rounded_up(epsilons[0]), rounded_up(epsilons[-1])
                spans.append(f"at epsilon {first}{f' to {last}' if last != first else ''}, {leader}")
            sentences.append(f"Per {panel}: {'; '.join(spans)}.")
        return [*sentences, *self._by_second_metric()]

    def _of_one_run(self) -> str:
        (run,) = self.section.runs
        score = short(float(run.metrics[self.section.metric.name]), self.section.metric)
        epsilon = f" at epsilon {rounded_up(run.epsilon)}" if run.state != OPEN else ""
        guarantee = {PRIVATE: f"per {run.guarantee.unit.name}", UNPROVEN: "without a valid guarantee"}
        return (
            f"One run, so nothing is compared: {run.setting} reaches {score}{epsilon}, "
            f"{guarantee.get(run.state, 'without privacy')}. One seed says nothing about chance; dpforest sweep with "
            "several seeds adds what there is without a federation."
        )

    def _by_second_metric(self) -> list[str]:
        """Where another method leads by the second metric."""
        metric = self.section.second_metric
        others: dict[tuple[str, str], list[str]] = {}
        for verdict in self.verdicts:
            if verdict.leader_differs:
                others.setdefault((verdict.panel, verdict.second[0].name), []).append(rounded_up(verdict.epsilon))
        if metric is None or not others:
            return []
        panels = len({verdict.panel for verdict in self.verdicts}) > 1
        said = [
            f"{name} at epsilon {listed(epsilons)}{f' per {panel}' if panels else ''}"
            for (panel, name), epsilons in others.items()
        ]
        return [f"By {metric.label} the highest mean is another's: {'; '.join(said)}."]

    def words(self) -> list[str]:
        """The headline and every verdict."""
        said = [self.headline(), *(verdict.words() for verdict in self.verdicts)]
        if self.section.absent:
            missing = ", ".join(
                f"{setting} at epsilon {rounded_up(epsilon)}" for setting, epsilon in self.section.absent
            )
            said.append(f"Not compared, as every run of it failed or was refused: {missing}.")
        if self.reference is not None:
            said.append(
                f"{_without_privacy(self.reference)}, {self.reference.setting} reaches {self.section.metric.label} "
                f"{self.reference.score.words} ({self.reference.seeds_in_words})."
            )
        if self.section.split == "subject":
            said.append(OF_NEW_PEOPLE)
        return said

    @cached_property
    def remarks(self) -> list[Remark]:
        """What the numbers hide."""
        leaders = [verdict.best.setting for verdict in self.verdicts]
        leaders += [self.alone.own.setting] if self.alone is not None else []
        return remarks(self.section, leaders)

    def hidden(self) -> list[str]:
        """What the numbers hide, a sentence each."""
        return [remark.words() for remark in self.remarks]


def answer(section: Section, wanted: Wanted | None = None) -> Answer:
    """Compare a section's runs, and mind the score that is wanted."""
    frame = section.frame
    if not section.has_scores:
        return Answer(section, [], (), wanted)
    known = frame[frame[section.metric.name].notna()]
    private = known[(known["state"] == PRIVATE)]
    verdicts = []
    federates = any(scope_of(method) is not Scope.ALONE for method in private["strategy"].unique())
    for (panel, at), here in private.groupby(["panel", "epsilon"]):
        epsilon = float(str(at))
        everybody = ranked(section, here)
        ranking = tuple(other for other in everybody if not federates or other.scope is not Scope.ALONE)
        if not ranking:
            continue  # no federation was run there, as elsewhere
        own = next((other for other in everybody if federates and other.scope is Scope.ALONE), None)
        best = ranking[0]
        gaps = tuple(difference(best.seeds, other.seeds, best.clients, other.clients) for other in ranking[1:])
        unproven = known[(known["state"] == UNPROVEN) & (known["epsilon"] == epsilon) & (known["panel"] == panel)]
        ahead = [other for other in ranked(section, unproven) if other.score.mean > best.score.mean]
        second = _by_second(section, here, ranking)
        verdicts.append(Verdict(section, str(panel), epsilon, ranking, gaps, second, ahead[0] if ahead else None, own))
    verdicts.sort(key=lambda verdict: (section.panels.index(verdict.panel), verdict.epsilon))
    return Answer(section, verdicts, ranked(section, known[known["state"] == OPEN]), wanted)


def _by_second(section: Section, here: pd.DataFrame, ranking: Sequence[Contender]) -> tuple[Contender, ...]:
    """The ranking by the section's second metric; nothing where it has none, or not all have it."""
    if section.second_metric is None:
        return ()
    settings = {other.setting for other in ranking}
    second = ranked(section, here[here["setting"].isin(settings)], section.second_metric)
    return second if len(second) == len(ranking) else ()


def _without_privacy(reference: Contender) -> str:
    return "Without privacy, all rows in one place" if reference.scope is Scope.POOLED else "Without privacy"


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


def across(answers: Sequence[Answer]) -> str:
    """That nothing is compared across sections, where there are several."""
    if len(answers) < 2:
        return ""
    alone = all(len(each.section.runs) == 1 for each in answers)
    what = "data set, target, clients or held-out rows"
    if alone:
        return f"No two of these {len(answers)} runs have the same {what}: nothing is compared."
    return f"These runs differ in {what}: {len(answers)} answers, and nothing is compared across them."


def in_words(answers: Sequence[Answer]) -> str:
    """All answers for the terminal."""
    if not answers:
        return NONE_FINISHED
    return "\n\n".join(filter(None, [across(answers), *("\n".join(_lines(each)) for each in answers)]))


def _lines(answer: Answer) -> list[str]:
    hidden = answer.hidden()
    more = ["What these numbers hide:", *(f"- {sentence}" for sentence in hidden)] if hidden else []
    return [f"{answer.section.title}:", *answer.words(), *more]
