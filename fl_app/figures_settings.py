"""Figures of a score against what a sweep varies beside epsilon: the share of bad clients, the rows of a client."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure

from fl_app.figures import STYLE, by_dataset, legend_below, save_figure, setting_label
from fl_app.results import telling_columns

_MARKERS = ("o", "s", "^", "D")

Row = dict[str, Any]


def write_setting_figures(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the score against the share of bad clients, and against rows times epsilon, where they vary.

    Parameters
    ----------
    rows : sequence of mapping
        Runs as flat rows, from `fl_app.results.result_row`.
    folder : Path
        Made if it is not there.

    Returns
    -------
    list of Path
        SVG and PNG files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    telling = telling_columns(rows)
    written: list[Path] = []
    with matplotlib.rc_context(STYLE):
        for (dataset, split, settings), here in by_dataset(rows, telling).items():
            part = [row for row, wanted in zip(rows, here, strict=True) if wanted]
            name = "-".join([dataset, split, *settings]).replace("=", "-")
            title = " ".join([f"{dataset},", *settings, f"{split} split"])
            attacked = [row for row in part if row.get("strategy.attack_share") is not None]
            if len({row["strategy.attack_share"] for row in attacked}) > 1:
                others = [column for column in telling if column != "strategy.attack_share"]
                figure = _figure(
                    attacked,
                    lambda row: 100 * row["strategy.attack_share"],
                    lambda row, others=others: f"{setting_label(row, others)}, epsilon {row['epsilon']:g}",
                    "bad clients, %",
                    title,
                )
                written += save_figure(figure, folder / f"attack-{name}")
            private = [row for row in part if row.get("public_rows") and np.isfinite(row["epsilon"])]
            if len({row["public_rows"] for row in private}) > 1:
                others = [column for column in telling if column != "asked_clients"]
                figure = _figure(
                    private,
                    lambda row: row["public_rows"] * row["epsilon"],
                    lambda row, others=others: (
                        f"{setting_label(row, others)}, {row['clients']} clients of {row['public_rows']} rows"
                    ),
                    "rows of a client times epsilon",
                    title,
                )
                for axes in figure.axes:
                    axes.set_xscale("log")
                written += save_figure(figure, folder / f"rows-{name}")
    return written


def _figure(
    rows: Sequence[Row], place: Callable[[Row], float], label: Callable[[Row], str], what: str, title: str
) -> Figure:
    """Mean score with the range of the seeds, one line a label."""
    metric = "accuracy" if "accuracy" in rows[0] else "r2"
    lines: dict[str, dict[float, list[float]]] = {}
    for row in rows:
        if metric in row:
            lines.setdefault(label(row), {}).setdefault(place(row), []).append(row[metric])
    figure = Figure(figsize=(5.6, 4.4), layout="constrained")
    axes = figure.add_subplot()
    for number, (name, points) in enumerate(lines.items()):
        at = sorted(points)
        mean = np.array([np.mean(points[x]) for x in at])
        spread = [mean - [min(points[x]) for x in at], [max(points[x]) for x in at] - mean]
        colour = colormaps["viridis"](0.85 * number / max(len(lines) - 1, 1))
        axes.errorbar(at, mean, yerr=spread, label=name, color=colour, marker=_MARKERS[number % 4], markersize=4,
                      capsize=2, linewidth=1.2)  # fmt: skip
    axes.set_xlabel(what)
    axes.set_ylabel("accuracy" if metric == "accuracy" else "R^2")
    axes.set_title(title, loc="left", fontsize=9)
    legend_below(figure)
    return figure
