"""Figures of a score against what a sweep varies beside epsilon: the share of bad clients, the rows of a client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure

from dpforest.ledger import rounded_up
from fl_app.figures.base import (
    METRICS,
    drawing_into,
    file_name,
    legend_below,
    log_axis,
    promise,
    save_figure,
    setting_label,
)
from fl_app.results import telling_of_methods

_MARKERS = ("o", "s", "^", "D")

Row = dict[str, Any]


def write_setting_figures(title: str, rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the score against the share of bad clients, and against rows times epsilon, where they vary.

    Parameters
    ----------
    title : str
        Which runs these are; a part of the files' names.
    rows : sequence of mapping
        Flat rows of runs that differ in nothing else but their method: a `fl_app.report.gather.Family`.
    folder : Path
        Made if it is not there.

    Returns
    -------
    list of Path
        SVG and PNG files.
    """
    of_methods = telling_of_methods(rows)
    written: list[Path] = []
    with drawing_into(folder):
        attacked = [row for row in rows if row.get("strategy.attack_share") is not None]
        if len({row["strategy.attack_share"] for row in attacked}) > 1:
            points = [
                (
                    _label(row, of_methods, "strategy.attack_share", f"epsilon {rounded_up(row['epsilon'])}"),
                    100 * row["strategy.attack_share"],
                    row,
                )
                for row in attacked
            ]
            written += save_figure(_figure(points, "bad clients, %", title), folder / f"attack-{file_name(title)}")
        private = [row for row in rows if row.get("public_rows") and np.isfinite(row["epsilon"])]
        if len({row["public_rows"] for row in private}) > 1:
            points = [
                (
                    _label(row, of_methods, "asked_clients", f"{row['clients']} x {row['public_rows']} rows"),
                    row["public_rows"] * row["epsilon"],
                    row,
                )
                for row in private
            ]
            figure = _figure(points, "rows of a client times epsilon", title)
            log_axis(figure.axes[0].xaxis)
            written += save_figure(figure, folder / f"rows-{file_name(title)}")
    return written


def _label(row: Row, telling: Mapping[str, Sequence[str]], said: str, words: str) -> str:
    """Its setting, but for what is said anyway, with some words and what its guarantee is about."""
    own = [name for name in telling[row["strategy"]] if name != said]
    return f"{setting_label(row, {row['strategy']: own})}, {words} ({promise(row)})"


def _figure(points: Sequence[tuple[str, float, Row]], what: str, title: str) -> Figure:
    """Mean score with the range of the seeds, one line a label; ``points`` are label, place and run."""
    metric = "accuracy" if "accuracy" in points[0][2] else "r2"
    lines: dict[str, dict[float, list[float]]] = {}
    for label, place, row in points:
        if metric in row:
            lines.setdefault(label, {}).setdefault(place, []).append(row[metric])
    figure = Figure(figsize=(5.6, 4.4), layout="constrained")
    axes = figure.add_subplot()
    for number, (label, scores) in enumerate(lines.items()):
        at = sorted(scores)
        mean = np.array([np.mean(scores[x]) for x in at])
        spread = [mean - [min(scores[x]) for x in at], [max(scores[x]) for x in at] - mean]
        colour = colormaps["viridis"](0.3 + 0.55 * number / max(len(lines) - 1, 1))  # seen on white and on black
        axes.errorbar(at, mean, yerr=spread, label=label, color=colour, marker=_MARKERS[number % 4], markersize=4,
                      capsize=2, linewidth=1.2)  # fmt: skip
    axes.set_xlabel(what)
    axes.set_ylabel(METRICS[metric])
    axes.set_title(title, loc="left", fontsize=9)
    legend_below(figure)
    return figure
