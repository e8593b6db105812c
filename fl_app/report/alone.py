"""Whether to federate at all: each client's own model, which needs nobody, against the best guarantee."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import groupby

import numpy as np

from dpforest.ledger import rounded_up
from fl_app.report.contenders import Contender, short
from fl_app.report.sections import Section
from fl_app.report.statistics import FEWEST_SEEDS, Difference, difference
from fl_app.results.text import decimals
from strategies.method import Scope

NO_MODEL = (
    "Being alone means having no model for a person that nobody trained on: for such people this does not hold "
    "(evaluation=subject holds them out)."
)
OF_NEW_PEOPLE = (
    "All test rows are of people that nobody trained on. Who is alone has no model for them, so only what several "
    "clients make is compared here."
)


class Outcome(Enum):
    """Which of the two has the higher mean, and whether a difference is shown."""

    ALONE = "each client's own model is ahead"
    ALONE_UNSURE = "each client's own model has the higher mean"
    UNSURE = "the best guarantee has the higher mean"
    FEDERATED = "the best guarantee is ahead"


@dataclass(frozen=True)
class Rival:
    """The best guarantee at one epsilon, of whatever unit and trust model, and the gap to it of who is ahead."""

    epsilon: float
    best: Contender
    outcome: Outcome
    gap: Difference


@dataclass(frozen=True)
class Alone:
    """Each client's own model without privacy, the best of them, against the best guarantee at each epsilon."""

    section: Section
    own: Contender
    rivals: tuple[Rival, ...]

    def better_for(self, rival: Rival) -> tuple[int, int]:
        """For how many clients, of how many with test rows, the own model is better, by their means over runs."""
        gaps: dict[object, list[float]] = {}
        for key in self.own.clients.keys() & rival.best.clients.keys():
            gaps.setdefault(key[1], []).append(self.own.clients[key][0] - rival.best.clients[key][0])
        return sum(float(np.mean(each)) > 0 for each in gaps.values()), len(gaps)

    def sentences(self) -> list[str]:
        """When each client's own model beats the best guarantee, and for whom."""
        said: list[str] = []
        for outcome, several in groupby(self.rivals, key=lambda rival: rival.outcome):
            said.append(self._span(outcome, list(several), first=not said))
        if any(rival.outcome in (Outcome.ALONE, Outcome.ALONE_UNSURE) for rival in self.rivals):
            said.append(NO_MODEL)
        return said

    def _span(self, outcome: Outcome, rivals: Sequence[Rival], first: bool) -> str:
        """What holds over a range of epsilon; the numbers are those of the best guarantee in it."""
        ends = list(dict.fromkeys(rounded_up(rival.epsilon) for rival in (rivals[0], rivals[-1])))
        where = f"t epsilon {' to '.join(ends)}"
        rival = max(rivals, key=lambda rival: rival.best.score.mean)
        own = f"each client's own model{f' ({self.own.setting}, which sends nothing)' if first else ''}"
        at = f" at epsilon {rounded_up(rival.epsilon)}" if len(rivals) > 1 else ""
        best = f"the best guarantee ({rival.best.name}{at})"
        mine, reached = self.own.score.mean, rival.best.score.mean
        if outcome in (Outcome.ALONE, Outcome.ALONE_UNSURE):
            against = f"{short(mine, self.section.metric)} against {decimals(reached)} of {best}{self._who(rival)}"
            if outcome is Outcome.ALONE:
                return f"Do not federate a{where} for the clients' own rows: {own} reaches {against}."
            return f"A{where}, {own} has the higher mean: {against}; {_unsure(rival)}."
        against = f"{short(reached, self.section.metric)} against {decimals(mine)} of {own}"
        if outcome is Outcome.FEDERATED:
            return f"Federate a{where}: {best} reaches {against}."
        return f"A{where}, {best} has the higher mean: {against}; {_unsure(rival)}."

    def _who(self, rival: Rival) -> str:
        better, of = self.better_for(rival)
        return f", and is better for {better} of {of} clients" if of > 1 else ""


def _unsure(rival: Rival) -> str:
    if rival.gap.seeds is not None and rival.gap.seeds.n < FEWEST_SEEDS:
        return "too few seeds to call that a difference"
    return "no difference is shown"


def alone(section: Section, references: Sequence[Contender], best: Sequence[tuple[float, Contender]]) -> Alone | None:
    """Compare each client's own model with the best guarantees.

    Parameters
    ----------
    section : Section
    references : sequence of Contender
        What was reached without privacy, the best first.
    best : sequence of (float, Contender)
        The best guarantee under each unit and trust model, with its epsilon.

    Returns
    -------
    Alone or None
        None where no client has a model of its own, or there is no guarantee.
    """
    own = next((other for other in references if other.scope is Scope.ALONE), None)
    by_epsilon: dict[float, Contender] = {}
    for epsilon, contender in best:
        if contender.scope is Scope.ALONE:
            continue
        if epsilon not in by_epsilon or contender.score.mean > by_epsilon[epsilon].score.mean:
            by_epsilon[epsilon] = contender
    if own is None or not by_epsilon:
        return None
    return Alone(section, own, tuple(_rival(own, epsilon, by_epsilon[epsilon]) for epsilon in sorted(by_epsilon)))


def _rival(own: Contender, epsilon: float, best: Contender) -> Rival:
    is_ahead = own.score.mean >= best.score.mean
    first, second = (own, best) if is_ahead else (best, own)
    gap = difference(first.seeds, second.seeds, first.clients, second.clients)
    outcomes = (Outcome.ALONE, Outcome.ALONE_UNSURE) if is_ahead else (Outcome.FEDERATED, Outcome.UNSURE)
    return Rival(epsilon, best, outcomes[0] if gap.is_one else outcomes[1], gap)
