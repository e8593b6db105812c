"""What a score costs in what an attacker gets: membership by level of knowledge, with what epsilon allows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dpforest.ledger import rounded_up
from fl_app.report.figures.style import PUBLISHED, guarantee_words, legend_below
from fl_app.report.sections import Section
from fl_app.results.attack import FILE, INFORMED, LEVELS, OUTPUTS, strongest
from fl_app.results.finished import FinishedRun

_TITLES = {
    OUTPUTS: "knows the outputs",
    FILE: "knows the released file",
    INFORMED: "knows all other rows as well",
}
_COIN = 0.5


def against_attackers(section: Section) -> Iterator[tuple[str, Figure]]:
    """Score against the area under the curve of the strongest attack, a panel a level of knowledge."""
    runs = [run for run in section.runs if run.attack and section.metric.name in run.metrics]
    if not runs:
        return
    figure = Figure(figsize=(11.5, 4.6), layout="constrained")
    for number, level in enumerate(LEVELS, 1):
        first = figure.axes[0] if figure.axes else None
        axes = figure.add_subplot(1, len(LEVELS), number, sharex=first, sharey=first)
        for setting in dict.fromkeys(run.setting for run in runs):
            _curve(axes, [run for run in runs if run.setting == setting], section, level)
        axes.axvline(_COIN, color=PUBLISHED, linewidth=0.8)
        axes.set_title(_TITLES[level], loc="left", fontsize=9)
        axes.set_xlabel("AUC of membership inference")
    _bounds(figure.axes, runs)
    figure.axes[0].set_ylabel(section.metric.label)
    figure.axes[0].set_xlim(0.47, 1.03)
    figure.suptitle(f"{section.title}: {section.metric.label} against what an attacker gets", x=0.01, ha="left",
                    fontsize=10)  # fmt: skip
    legend_below(figure)
    yield section.slug, figure


def _curve(axes: Axes, runs: list[FinishedRun], section: Section, level: str) -> None:
    """A setting's runs, a mark an epsilon, joined in its order; hollow where nothing is guaranteed."""
    style = section.styles[runs[0].setting]
    points = []
    for epsilon in sorted({run.epsilon for run in runs}):
        same = [run for run in runs if run.epsilon == epsilon]
        lines = [line for run in same if (line := strongest(_found(run), level))]
        if lines:
            area = np.mean([line["area"] for line in lines], axis=0)
            score = float(np.mean([_score(run, section) for run in same]))
            points.append((epsilon, area, score, all(run.guarantee.holds for run in same)))
    if not points:
        return
    axes.plot([area[0] for _, area, _, _ in points], [score for _, _, score, _ in points], color=style.colour,
              linestyle=style.line, linewidth=0.9, alpha=0.6)  # fmt: skip
    label = f"{runs[0].setting} ({guarantee_words(runs[0])})"
    for number, (epsilon, area, score, holds) in enumerate(points):
        axes.errorbar(
            area[0], score, xerr=[[max(area[0] - area[1], 0)], [max(area[2] - area[0], 0)]], color=style.colour,
            marker=style.marker, markersize=5, markerfacecolor=style.colour if holds else "white", linestyle="none",
            capsize=2, linewidth=1, label="_nolegend_" if number else label,
        )  # fmt: skip
        name = "∞" if np.isinf(epsilon) else rounded_up(epsilon)
        axes.annotate(name, (area[0], score), xytext=(4, 4), textcoords="offset points", fontsize=7,
                      color=style.colour)  # fmt: skip


def _score(run: FinishedRun, section: Section) -> float:
    """The score of the attacked model; that of the run where each client has a model of its own."""
    saved = _found(run)["score"]
    return float(run.metrics[section.metric.name] if saved is None else saved)


def _found(run: FinishedRun) -> Mapping[str, Any]:
    assert run.attack is not None
    return run.attack


def _bounds(panels: list[Axes], runs: list[FinishedRun]) -> None:
    """The largest area that each guarantee allows, over all panels and named on the upper edge."""
    most = {
        run.epsilon: run.attack["allowed"]["area"] for run in runs if run.attack is not None and run.attack["allowed"]
    }
    for axes in panels if most else []:
        for area in most.values():
            axes.axvline(area, color=PUBLISHED, linewidth=0.8, linestyle=":")
        upper = axes.secondary_xaxis("top")
        upper.set_xticks(list(most.values()), [f"ε {rounded_up(epsilon)}" for epsilon in most], fontsize=7)
        upper.set_xlabel("the most that epsilon allows", fontsize=7)
        upper.spines["top"].set_visible(False)
        upper.tick_params(length=0)
