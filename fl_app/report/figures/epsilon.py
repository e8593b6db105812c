"""Figures against epsilon: scores and memorization rates, and the clients' own trees at epsilon = inf."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator

from dpforest.guarantee import RECORD_UNIT
from dpforest.ledger import rounded_up
from fl_app.report.figures.style import EPSILON, PUBLISHED, guarantee_words, legend_below, most_frequent_line, one_panel
from fl_app.report.papers.published import published_on, source_of
from fl_app.report.sections import Section
from fl_app.results.finished import PRIVATE
from fl_app.results.text import short_delta
from strategies.metrics import metrics_of
from strategies.style import Style

_LINES = ("-", "--", ":", "-.")
_NONE = pd.Series(dtype=float)


def against_epsilon(section: Section) -> Iterator[tuple[str, Figure]]:
    """Mean scores with their range, one column a privacy unit, or a unit and trust model.

    Marks are hollow where nothing is guaranteed.
    """
    names = [section.name(run) for run in section.runs]
    words = [short_delta(run.budget.delta) if section.splits_trust else guarantee_words(run) for run in section.runs]
    frame = section.frame.assign(
        label=[f"{name} ({said})" for name, said in zip(names, words, strict=True)], short=names
    )
    metrics = [
        metric for metric in metrics_of() if metric.against_epsilon and frame.get(metric.name, _NONE).notna().any()
    ]
    metrics.sort(key=lambda metric: not metric.is_primary)
    # What was never given a budget is a level to compare with, in all panels.
    has_budget = frame.groupby("setting")["epsilon"].transform("min") < np.inf
    free = frame[~has_budget]
    budgeted = frame[has_budget] if has_budget.any() else free
    panels = list(budgeted.groupby("panel")["setting"].nunique().sort_values(ascending=False, kind="stable").index)
    units = dict(zip(frame["panel"], frame["per"], strict=True))
    if section.splits_trust:
        panels = [panel for panel in section.panels if panel in panels]
    figure = Figure(figsize=(max(5.2, 4.6 * len(panels)), 1.4 + 3.2 * len(metrics)), layout="constrained")
    ticks = [set(frame["epsilon"]) for _ in panels]
    for line, metric in enumerate(metrics):
        first: Axes | None = None
        for column, panel in enumerate(panels):
            place = line * len(panels) + column + 1
            above = figure.axes[column] if line else None
            axes = figure.add_subplot(len(metrics), len(panels), place, sharex=above, sharey=first)
            first = first or axes
            part = frame[has_budget & (frame["panel"] == panel)]
            for (name, label), runs in part.groupby(["short", "label"]):
                _curve(axes, runs, metric.name, str(label), section.panel_styles[str(name)])
            for setting, runs in free.groupby("setting"):
                style = section.styles[str(setting)]
                axes.axhline(runs[metric.name].mean(), color=style.colour, linestyle=style.line, linewidth=0.9,
                             label=f"{setting!s}, no privacy")  # fmt: skip
            most_frequent_line(axes, section, metric.name)
            if metric.name == "accuracy":
                ticks[column] |= _published_curves(axes, section, units[panel])
            epsilon_axis(axes, ticks[column])
            axes.set_ylabel(metric.label)
            if not line:
                title = f"{section.title}\nunit: one {panel}".replace(f"{units[panel]}, ", f"{units[panel]},\n")
                if any(_hollow(runs) for _, runs in part.groupby("setting")):
                    # Such a method may count epsilon otherwise than the axis says: the LDP document does, once a round.
                    title += "; hollow: no guarantee,\nepsilon as the method counts it"
                axes.set_title(title, loc="left", fontsize=9)
    legend_below(figure)
    yield section.slug, figure


def epsilon_axis(axes: Axes, epsilons: Iterable[float]) -> None:
    """A logarithmic axis with a tick at each epsilon that was run or published."""
    finite = sorted({float(epsilon) for epsilon in epsilons if np.isfinite(epsilon)})
    if finite:  # the same ends in all panels, also where one has fewer epsilons
        margin = max((finite[-1] / finite[0]) ** 0.05, 1.05)
        axes.set_xlim(finite[0] / margin, finite[-1] * margin)
    axes.set_xscale("log")
    axes.set_xticks(finite, [rounded_up(epsilon) for epsilon in finite])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(EPSILON)


def _hollow(runs: pd.DataFrame) -> bool:
    """Whether noise was added, but no guarantee comes of it."""
    finite = runs[np.isfinite(runs["epsilon"])]
    return len(finite) > 0 and not (finite["state"] == PRIVATE).any()


def _curve(axes: Axes, runs: pd.DataFrame, metric: str, label: str, style: Style) -> None:
    finite = runs[np.isfinite(runs["epsilon"]) & runs[metric].notna()]
    if len(finite):
        stats = finite.groupby("epsilon")[metric].agg(["mean", "min", "max"])
        # A mean of equal numbers may round to beyond them.
        spread = [(stats["mean"] - stats["min"]).clip(lower=0), (stats["max"] - stats["mean"]).clip(lower=0)]
        axes.errorbar(
            stats.index, stats["mean"], yerr=spread, color=style.colour, linestyle=style.line, marker=style.marker,
            markerfacecolor="white" if _hollow(finite) else style.colour, markersize=4, capsize=2, linewidth=1.2,
            label=label,
        )  # fmt: skip
    without = runs[np.isinf(runs["epsilon"]) & runs[metric].notna()]
    if len(without):
        name = "_nolegend_" if len(finite) else f"{label}, no privacy"
        axes.axhline(
            without[metric].mean(), color=style.colour, linestyle=style.line, linewidth=0.8, alpha=0.6, label=name
        )


def _published_curves(axes: Axes, section: Section, unit: str) -> set[float]:
    """What sources say they reached, on the panel of the unit that they claim to protect; returns the epsilons."""
    epsilons: set[float] = set()
    for values in published_on(section.dataset, section.split):
        if values.get("unit", RECORD_UNIT.name) != unit:
            continue
        for number, (name, curve) in enumerate(values.get("accuracy", {}).items()):
            label = f"depth {name}" if isinstance(name, int) else name
            epsilons.update(map(float, curve))
            axes.plot(
                list(curve), list(curve.values()), color=PUBLISHED, marker="x", linewidth=0.8,
                linestyle=("-", ":")[number % 2], label=f"{source_of(values)}, {label}",
            )  # fmt: skip
        for number, (label, accuracy) in enumerate(values.get("without_privacy", {}).items()):
            axes.axhline(accuracy, color=PUBLISHED, linewidth=0.8, linestyle=_LINES[1 + number % 3],
                         label=f"{values['source']}, {label}")  # fmt: skip
    return epsilons


def alone(section: Section) -> Iterator[tuple[str, Figure]]:
    """Accuracy of each client's own trees on all test rows, of runs without privacy."""
    found: dict[str, dict[int, list[float]]] = {}
    for run in section.runs:
        if np.isinf(run.epsilon):
            for owner, accuracy in run.metrics.get("owner_accuracy", {}).items():
                found.setdefault(run.setting, {}).setdefault(int(owner), []).append(accuracy)
    if not found:
        return
    figure, axes = one_panel(f"{section.title}: stand-alone trees, no privacy", (6.4, 3.6))
    for setting, by_owner in sorted(found.items()):
        owners, style = sorted(by_owner), section.styles[setting]
        axes.plot(owners, [np.mean(by_owner[o]) for o in owners], marker=style.marker, markersize=4, linestyle="none",
                  color=style.colour, label=setting)  # fmt: skip
    axes.set_xlabel("client")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel("accuracy of its own trees on all test rows")
    legend_below(figure)
    yield section.slug, figure


def memorization(section: Section) -> Iterator[tuple[str, Figure]]:
    """Memorization rates, one panel a number of test rows."""
    finite = section.frame[np.isfinite(section.frame["epsilon"])]
    known = [str(c) for c in section.frame if str(c).startswith("memorization_") and section.frame[c].notna().any()]
    if not known:
        return
    sizes = sorted(int(name.removeprefix("memorization_")) for name in known)
    figure = Figure(figsize=(3.6 * len(sizes), 4.0), layout="constrained")
    overlay = [source for source in published_on(section.dataset, section.split) if "memorization" in source]
    for number, size in enumerate(sizes, 1):
        axes = figure.add_subplot(1, len(sizes), number)
        for setting in sorted(finite["setting"].unique()):
            style = section.styles[setting]
            mean = finite[finite["setting"] == setting].groupby("epsilon")[f"memorization_{size}"].mean().dropna()
            axes.plot(mean.index, mean, marker=style.marker, markersize=4, linestyle=style.line, color=style.colour,
                      label=setting)  # fmt: skip
        for values in overlay:
            for depth, by_size in values["memorization"].items():
                if size in by_size:
                    axes.plot(list(by_size[size]), list(by_size[size].values()), color=PUBLISHED, marker="x",
                              linewidth=0.8, linestyle="-" if depth == 5 else ":",
                              label=f"{values['source']}, depth {depth}")  # fmt: skip
        epsilon_axis(axes, finite["epsilon"])
        axes.set_ylim(-0.03, 1.03)
        axes.set_title(f"n = {size} test rows a client", loc="left", fontsize=9)
        if number == 1:
            axes.set_ylabel("memorization rate")
    figure.suptitle(section.title, x=0.01, ha="left", fontsize=9)
    legend_below(figure)
    yield section.slug, figure
