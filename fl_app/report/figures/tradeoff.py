"""Privacy against use in one look: the best method of each epsilon as a column with its name and score."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from dpforest.ledger import rounded_up
from fl_app.report.answer import Answer, Verdict
from fl_app.report.contenders import Contender
from fl_app.report.statistics import Interval
from fl_app.report.wanted import sought

# Points: read from two metres on a screen, if columns are not too many for its width.
_SCORE, _NAME, _TICK = 26, 15, 18
_COLUMN = 1.9  # inches
_LETTERS = 15  # of a method's name in a line
_OPEN = "#6B6B6B"
_LUMA = (0.299, 0.587, 0.114)  # how bright red, green and blue are
_MOST = 1.0  # of the scores by which methods are compared: a column below 0 has no height
_ALONE, _WITHOUT = "alone", "no privacy"


def tradeoff(answer: Answer) -> Iterator[tuple[str, Figure]]:
    """One panel below the other, a column an epsilon, and at the right each client's own model and no privacy."""
    panels = list(dict.fromkeys(verdict.panel for verdict in answer.verdicts))
    if not panels:
        return
    of_panel = {name: [verdict for verdict in answer.verdicts if verdict.panel == name] for name in panels}
    most = max(map(len, of_panel.values())) + len(_without_guarantee(answer))
    figure = Figure(figsize=(1.2 + _COLUMN * max(most, 2), 4.6 * len(panels)), layout="constrained")
    for number, (name, verdicts) in enumerate(of_panel.items(), 1):
        axes = figure.add_subplot(len(panels), 1, number)
        _panel(axes, answer, verdicts)
        axes.set_xlim(-0.55, max(most, 2) - 0.45)
        words = f"per {name}" if len(panels) > 1 else f"{answer.section.title}, per {name}"
        axes.set_title("\n".join(wrap(words, 13 * max(most, 2))), loc="left", fontsize=_NAME, pad=14)
    yield "", figure


def _panel(axes: Axes, answer: Answer, verdicts: Sequence[Verdict]) -> None:
    metric = answer.section.metric
    ticks = [rounded_up(verdict.epsilon) for verdict in verdicts]
    for place, verdict in enumerate(verdicts):
        colour = answer.section.panel_styles[verdict.best.name].colour
        _column(axes, place, verdict.best, colour, bool(verdict.ties))
    for tick, contender in _without_guarantee(answer):
        _column(axes, len(ticks), contender, _OPEN, False)
        line = ":" if tick == _ALONE else "--"
        axes.axhline(contender.score.mean, color=_OPEN, linestyle=line, linewidth=1.5, zorder=0.5)
        ticks.append(tick)
    found = sought(answer)
    if found is not None and not math.isnan(found.score):
        axes.axhline(found.score, color="#000000", linewidth=2, zorder=3)
        axes.annotate("wanted", (1, found.score), xycoords=axes.get_yaxis_transform(), xytext=(6, 0),
                      textcoords="offset points", va="center", fontsize=_NAME)  # fmt: skip
    axes.set_xticks(range(len(ticks)), ticks, fontsize=_TICK, fontweight="bold")
    axes.tick_params(axis="y", labelsize=_NAME)
    axes.tick_params(axis="x", length=0)
    axes.set_xlabel("epsilon of the whole run", fontsize=_NAME)
    axes.set_ylabel(metric.label, fontsize=_NAME)
    axes.set_ylim(0, 1.2 * _MOST)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1])
    axes.spines["left"].set_bounds(0, _MOST)
    axes.grid(False, axis="x")


def _without_guarantee(answer: Answer) -> list[tuple[str, Contender]]:
    """What there is to compare with: each client's own model, which sends nothing, and the best without privacy."""
    own = [(_ALONE, answer.alone.own)] if answer.alone is not None else []
    return own + ([(_WITHOUT, answer.reference)] if answer.reference is not None else [])


def _column(axes: Axes, place: int, contender: Contender, colour: str, ties: bool) -> None:
    """A column from 0, with the score above it and the name in it, or above where there is no room."""
    score = contender.score
    height = max(score.mean, 0.0)
    axes.bar(place, height, width=0.8, color=colour, zorder=1)
    _spread(axes, place, score)
    top = max([height, *(end for end in score.spread if not math.isnan(end))])
    above: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "va": "bottom"}
    paper = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1}  # lines end before a score
    axes.annotate(f"{'≈ ' if ties else ''}{score.mean:z.2f}", (place, top), xytext=(0, 8), fontsize=_SCORE,
                  fontweight="bold", color=colour, bbox=paper, zorder=3.5, **above)  # fmt: skip
    lines = wrap(contender.name.replace("_", "_ "), _LETTERS, max_lines=3, placeholder=" …")
    name = "\n".join(lines).replace("_ ", "_")
    if height < 0.3 * _MOST:
        axes.annotate(name, (place, top), xytext=(0, 8 + 1.3 * _SCORE), fontsize=_NAME, color=colour, bbox=paper,
                      zorder=3.5, **above)  # fmt: skip
    else:
        ink = "#010101" if np.dot(to_rgb(colour), _LUMA) > 0.5 else "#fefefe"
        axes.annotate(name, (place, 0), xytext=(0, 8), fontsize=_NAME, color=ink, **above)


def _spread(axes: Axes, place: int, score: Interval) -> None:
    """Few seeds as dots, which no interval may stand for; of more the interval, inside of what the metric may be."""
    if score.is_range:
        values = [max(value, 0.0) for value in score.values]
        axes.plot([place] * len(values), values, marker="o", markersize=7, linestyle="none", color="#fefefe",
                  markeredgecolor="#010101", zorder=2)  # fmt: skip
        return
    low, high = (max(end, 0.0) for end in score.spread)
    axes.vlines(place, low, high, color="#010101", linewidth=3, zorder=2)
