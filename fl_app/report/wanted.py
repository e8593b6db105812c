"""Which epsilon a wanted score takes: the least that was run, by method, and what that costs."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dpforest.errors import DPForestError
from dpforest.ledger import rounded_up
from dpforest.settings import quoted
from fl_app.report.statistics import FEWEST_SEEDS
from fl_app.results.finished import PRIVATE
from fl_app.results.text import decimals, human_bytes
from fl_app.terminal.tables import columns
from strategies.method import Scope

if TYPE_CHECKING:
    from fl_app.report.answer import Answer
    from fl_app.report.contenders import Contender

OPTION = "report.target"
HEADER = ("method", "trust", "delta", "least epsilon", "could be", "score", "below it", "bytes", "seconds", "rounds")
_NUMBER = re.compile(r"(-?\d*\.?\d+(?:e-?\d+)?)\s*(%?)", re.IGNORECASE)


@dataclass(frozen=True)
class Wanted:
    """A score that a decision needs: a number, or a share of the best without privacy.

    Parameters
    ----------
    value : float
    is_share : bool
    """

    value: float
    is_share: bool = False

    @classmethod
    def read(cls, text: object) -> Wanted:
        """The score that a text such as ``0.9`` or ``95%`` means.

        Raises
        ------
        DPForestError
            It means none.
        """
        found = _NUMBER.fullmatch(str(text).strip())
        value = float(found[1]) if found else math.nan
        is_share = bool(found and found[2])
        if not math.isfinite(value) or (is_share and not 0 < value <= 100):
            raise DPForestError(
                f"{OPTION} {quoted(str(text))} must be a score such as 0.9, or a share of the best score without "
                "privacy, more than 0% and at most 100%, such as 95%"
            )
        return cls(value / 100 if is_share else value, is_share)


def split_wanted(arguments: Sequence[Path]) -> tuple[list[Path], Wanted | None]:
    """The folders among arguments, and the score that ``report.target=`` says.

    Raises
    ------
    DPForestError
        It says none, or there is no folder.
    """
    said = [str(text).removeprefix(f"{OPTION}=") for text in arguments if str(text).startswith(f"{OPTION}=")]
    folders = [path for path in arguments if not str(path).startswith(f"{OPTION}=")]
    if not folders:
        raise DPForestError("name a folder of runs as well: run folders, sweep folders, or folders of them")
    return folders, Wanted.read(said[-1]) if said else None


@dataclass(frozen=True)
class Reach:
    """The least epsilon at which a method's mean reaches a score.

    Parameters
    ----------
    contender : Contender
        There.
    epsilon : float
    could_be : (float or None, float or None)
        The least epsilon at which the better end of its interval (or its best seed) reaches the score, and the least at
        which the worse end (or its worst seed) does; None where none does.
    below : Contender or None
        At the next smaller epsilon that was run.
    loses : float or None
        The least greater epsilon at which the mean is below the score again.
    costs : tuple of float
        Bytes down and up, seconds and exchanges of a run, as means.
    """

    contender: Contender
    epsilon: float
    could_be: tuple[float | None, float | None]
    below: Contender | None
    loses: float | None
    costs: tuple[float, float, float]

    @property
    def interval(self) -> str:
        """What the least epsilon could be as well, in words."""
        if self.contender.score.n < 2:
            return ""
        low, high = self.could_be
        assert low is not None, "where the mean reaches a score, the better end does"
        if low == high:
            return rounded_up(low)
        return f"{rounded_up(low)} to {'more than was run' if high is None else rounded_up(high)}"

    def line(self) -> list[str]:
        """Its line of a table under `HEADER`."""
        size, seconds, rounds = self.costs
        contender, below = self.contender, self.below
        return [
            contender.name, contender.trust, contender.delta, rounded_up(self.epsilon), self.interval,
            contender.score.words, below.score.words if below else "not run", human_bytes(size), f"{seconds:.1f}",
            f"{rounds:g}",
        ]  # fmt: skip


@dataclass(frozen=True)
class PanelReach:
    """Who reaches a score in one panel, the least epsilon first, and the best of the others."""

    panel: str
    found: tuple[Reach, ...]
    missed: tuple[tuple[float, Contender], ...]


@dataclass(frozen=True)
class Sought:
    """What became of a wanted score in one section.

    Parameters
    ----------
    answer : Answer
    score : float
        NaN where it is not known: ``why`` says so then.
    panels : tuple of PanelReach
    said : str
        The wanted score in words.
    why : str
    """

    answer: Answer
    score: float
    panels: tuple[PanelReach, ...]
    said: str
    why: str = ""

    def words(self) -> list[str]:
        """A sentence a panel."""
        if self.why:
            return [self.why]
        own = next((other for other in self.answer.references if other.scope is Scope.ALONE), None)
        alone = []
        if own is not None and own.score.mean >= self.score:
            alone = [
                f"Each client alone, without privacy and sending nothing, reaches it: {own.setting}, {own.score.words}."
            ]
        return [*(self._panel_words(panel) for panel in self.panels), *alone]

    def _panel_words(self, panel: PanelReach) -> str:
        text = f"For {self.said} per {panel.panel}: "
        if not panel.found:
            epsilon, best = panel.missed[0]
            text += f"no method with a guarantee reaches it; nearest is {_at(epsilon, best)}."
            reference = self.answer.reference
            if reference is not None and reference.score.mean < self.score:
                text += f" Without privacy it is not reached either: {reference.setting}, {reference.score.words}."
            return text
        first, *others = panel.found
        size, seconds, rounds = first.costs
        text += f"{first.contender.name} takes the least epsilon, {rounded_up(first.epsilon)}"
        text += f" ({_sure(first)})"
        text += f", at {human_bytes(size)}, {seconds:.1f} s and {rounds:g} round{'s' if rounds != 1 else ''} a run"
        if first.below is None:
            text += "; a smaller epsilon was not run"
        if first.loses is not None:
            text += f"; at {rounded_up(first.loses)} its mean is below it again"
        if others:
            text += f"; then {', '.join(f'{o.contender.name} at {rounded_up(o.epsilon)}' for o in others)}"
        text += "."
        if panel.missed:
            text += f" Not reached by {'; '.join(_at(*missed) for missed in panel.missed)}."
        if first.contender.score.n < FEWEST_SEEDS:
            text += f" {first.contender.score.n} seed{'s are' if first.contender.score.n > 1 else ' is'} few."
        return text

    def tables(self) -> list[tuple[str, list[list[str]]]]:
        """Each panel with its lines under `HEADER`, where anybody reaches the score."""
        return [(each.panel, [reach.line() for reach in each.found]) for each in self.panels if each.found]


def sought(answer: Answer) -> Sought | None:
    """Who reaches the wanted score in a section; None where none is wanted, or nothing is compared.

    Parameters
    ----------
    answer : Answer
        With what is ``wanted``.
    """
    wanted, metric = answer.wanted, answer.section.metric
    if wanted is None or not answer.verdicts:
        return None
    said, score = f"{metric.label} {decimals(wanted.value)}", wanted.value
    if wanted.is_share:
        share, reference = f"{100 * wanted.value:g} % of the {metric.label} without privacy", answer.reference
        if reference is None:
            why = f"{share}: no run without privacy is here, so that is no number: run strategy=centralized as well"
            return Sought(answer, math.nan, (), share, f"{why}, or give a score, such as {OPTION}=0.9.")
        if reference.score.mean <= 0:
            why = f"{share}: the best without privacy, {reference.setting}, has {reference.score.words}"
            return Sought(answer, math.nan, (), share, f"{why}, of which a share says nothing: give a score.")
        score = wanted.value * reference.score.mean
        said = f"{decimals(score)}, {share} ({reference.setting}, {reference.score.words})"
    elif wanted.value > metric.limits[1]:
        most = metric.limits[1]
        why = f"{OPTION}={wanted.value:g}: no {metric.label} is above {most:g}: give a score up to that"
        return Sought(answer, math.nan, (), said, f"{why}, or a share, such as {OPTION}=95%.")
    panels = dict.fromkeys(verdict.panel for verdict in answer.verdicts)
    return Sought(answer, score, tuple(_panel(answer, panel, score) for panel in panels), said)


def sought_in_words(answers: Sequence[Answer], width: int | None = None) -> str:
    """What became of the wanted score in each section, for the terminal; empty where none is wanted."""
    parts = []
    for own in answers:
        if (found := sought(own)) is not None:
            lines = [f"{own.section.title}, wanted score:", *found.words()]
            tables = [f"per {panel}\n{columns(HEADER, lines, width)}" for panel, lines in found.tables()]
            parts.append("\n\n".join(["\n".join(lines), *tables]))
    return "\n\n".join(parts)


def _panel(answer: Answer, panel: str, score: float) -> PanelReach:
    by_setting: dict[str, dict[float, Contender]] = {}
    for verdict in answer.verdicts:  # in the order of epsilon
        if verdict.panel == panel:
            for contender in verdict.ranking:
                by_setting.setdefault(contender.setting, {})[verdict.epsilon] = contender
    found, missed = [], []
    for at in by_setting.values():
        reach = _reach(answer, at, score)
        if reach is not None:
            found.append(reach)
        else:
            missed.append(max(at.items(), key=lambda item: item[1].score.mean))
    found.sort(key=lambda reach: (reach.epsilon, -reach.contender.score.mean))
    missed.sort(key=lambda item: -item[1].score.mean)
    return PanelReach(panel, tuple(found), tuple(missed))


def _reach(answer: Answer, at: dict[float, Contender], score: float) -> Reach | None:
    least = next((epsilon for epsilon, own in at.items() if own.score.mean >= score), None)
    if least is None:
        return None
    spreads = {epsilon: own.score.spread if own.score.n > 1 else (own.score.mean,) * 2 for epsilon, own in at.items()}
    could_be = tuple(next((e for e, ends in spreads.items() if ends[end] >= score), None) for end in (1, 0))
    below = max((epsilon for epsilon in at if epsilon < least), default=None)
    loses = next((epsilon for epsilon, own in at.items() if epsilon > least and own.score.mean < score), None)
    frame, own = answer.section.frame, at[least]
    runs = frame[(frame["setting"] == own.setting) & (frame["epsilon"] == least) & (frame["state"] == PRIVATE)]
    size = float((runs["bytes_down"] + runs["bytes_up"]).mean())
    return Reach(
        own, least, (could_be[0], could_be[1]), None if below is None else at[below], loses,
        (size, float(runs["seconds"].mean()), float(runs["rounds"].mean())),
    )  # fmt: skip


def _sure(reach: Reach) -> str:
    if not reach.interval:
        return "one seed says nothing of how sure that is"
    if reach.interval == rounded_up(reach.epsilon):
        ends = "by the worst seed and the best" if reach.contender.score.is_range else "by both ends of its interval"
        return f"no other of those that were run, {ends}"
    return f"could be {reach.interval}"


def _at(epsilon: float, contender: Contender) -> str:
    return f"{contender.name} with {contender.score.words} at epsilon {rounded_up(epsilon)}"
