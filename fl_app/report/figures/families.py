"""Figures that join the sections of a family: against bad clients, the rows of a client, and the number of clients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from dpforest.ledger import rounded_up
from fl_app.report.figures.style import guarantee_words, legend_below, log_axis, one_panel, spread
from fl_app.report.sections import Family
from fl_app.results.finished import FinishedRun
from fl_app.results.rows import distinct_by_method, setting_label
from strategies.registry import style_of
from strategies.style import Style

_MARKERS = ("o", "s", "^", "D")

Point = tuple[str, float, FinishedRun]


def against_attacks(family: Family) -> Iterator[tuple[str, Figure]]:
    """Score against the share of bad clients, where it varies."""
    distinct = distinct_by_method([run.row for run in family.runs])
    points = [
        (_label(run, distinct, "strategy.attack_share", f"epsilon {rounded_up(run.epsilon)}"), 100 * share, run)
        for run in family.runs
        if (share := run.option("attack_share")) is not None
    ]
    if len({place for _, place, _ in points}) > 1:
        yield family.title, _figure(family, points, "bad clients, %")


def against_rows(family: Family) -> Iterator[tuple[str, Figure]]:
    """Score against rows times epsilon, where the number of rows varies."""
    distinct = distinct_by_method([run.row for run in family.runs])
    private = [run for run in family.runs if run.metrics.get("public_rows") and np.isfinite(run.epsilon)]
    if len({run.metrics["public_rows"] for run in private}) < 2:
        return
    points = []
    for run in private:
        rows = run.metrics["public_rows"]
        words = f"{run.metrics['clients']} x {rows} rows"
        points.append((_label(run, distinct, "asked_clients", words), rows * run.epsilon, run))
    figure = _figure(family, points, "rows of a client times epsilon")
    log_axis(figure.axes[0].xaxis)
    yield family.title, figure


def against_clients(family: Family) -> Iterator[tuple[str, Figure]]:
    """Score against the number of clients that train, where there are three or more; a line a setting and epsilon."""
    private = [run for run in family.runs if np.isfinite(run.epsilon) and run.metrics.get("clients")]
    distinct = distinct_by_method([run.row for run in private])
    epsilons = sorted({run.epsilon for run in private})
    points, styles = [], {}
    for run in sorted(private, key=lambda run: (run.method, run.epsilon)):
        label = _label(run, distinct, "asked_clients", f"epsilon {rounded_up(run.epsilon)}")
        points.append((label, float(run.metrics["clients"]), run))
        own = style_of(run.method, {**run.config["strategy"], "trust": run.guarantee.trust.kind})
        styles[label] = own.at_level(epsilons.index(run.epsilon), len(epsilons))
    if len({place for _, place, _ in points}) < 3:
        return
    figure = _figure(family, points, "clients that train", styles)
    log_axis(figure.axes[0].xaxis)
    yield family.title, figure


def _label(run: FinishedRun, distinct: Mapping[str, Sequence[str]], said: str, words: str) -> str:
    """Its setting, but for what is said anyway, with some words and what its guarantee is about."""
    own = [name for name in distinct[run.method] if name != said]
    return f"{setting_label(run.row, {run.method: own})}, {words} ({guarantee_words(run)})"


def _figure(family: Family, points: Sequence[Point], what: str, styles: Mapping[str, Style] | None = None) -> Figure:
    """Mean score with the range of the seeds, one line a label, in its style; ``points`` are label, place and run."""
    lines: dict[str, dict[float, list[float]]] = {}
    for label, place, run in points:
        if family.metric.name in run.metrics:
            lines.setdefault(label, {}).setdefault(place, []).append(run.metrics[family.metric.name])
    figure, axes = one_panel(family.title, (5.6, 4.4))
    for number, (label, scores) in enumerate(lines.items()):
        at = sorted(scores)
        mean, ends = spread([scores[x] for x in at])
        green = to_hex(colormaps["viridis"](0.3 + 0.55 * number / max(len(lines) - 1, 1)))  # seen on white and on black
        style = styles[label] if styles else Style(green, _MARKERS[number % 4])
        axes.errorbar(at, mean, yerr=ends, label=label, color=style.colour, linestyle=style.line, marker=style.marker,
                      markersize=4, capsize=2, linewidth=1.2)  # fmt: skip
    axes.set_xlabel(what)
    axes.set_ylabel(family.metric.label)
    legend_below(figure)
    return figure
