"""Figures against epsilon: scores and memorization rates, and the clients' own trees at epsilon = inf."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator

from dpforest.ledger import rounded_up
from fl_app.figures.base import (
    METRICS,
    drawing_into,
    legend_below,
    promise,
    save_figure,
    setting_looks,
    short_unit,
    together,
)
from fl_app.figures.looks import PUBLISHED, Look
from fl_app.figures.published import published_on, source_of

_LINES = ("-", "--", ":", "-.")


def write_figures(runs: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]], folder: Path) -> list[Path]:
    """Draw what the runs allow: score against epsilon, per-client scores, memorization rates.

    Parameters
    ----------
    runs : sequence of mapping
        From `fl_app.report.gather.gather`.
    rows : sequence of mapping
        The same runs as flat rows.
    folder : Path
        Made if it is not there.

    Returns
    -------
    list of Path
        SVG and PNG files.
    """
    frame = pd.DataFrame(rows)
    frame["label"] = [f"{row['setting']} ({promise(row)})" for row in rows]
    written: list[Path] = []
    with drawing_into(folder):
        for group in together(rows):
            part = frame[group.here]
            written += save_figure(against_epsilon(part), folder / f"epsilon-{group.name}")
            if alone := _owner_accuracies(group.of(list(zip(runs, rows, strict=True)))):
                written += save_figure(_per_client(alone, group.title), folder / f"alone-{group.name}")
            if any(str(c).startswith("memorization_") and part[c].notna().any() for c in part):
                written += save_figure(_memorization(part), folder / f"memorization-{group.name}")
    return written


def against_epsilon(frame: pd.DataFrame) -> Figure:
    """Mean scores with their range, one column a privacy unit; hollow marks where nothing is guaranteed.

    Parameters
    ----------
    frame : DataFrame
        Runs of one section as flat rows, with their ``setting`` and the ``label`` of their curve.
    """
    dataset, split = (str(frame[key].iloc[0]) for key in ("dataset", "split"))
    metrics = [name for name in ("accuracy", "balanced_accuracy") if name in frame and frame[name].notna().any()]
    metrics = metrics or [name for name in ("r2", "mse") if name in frame and frame[name].notna().any()]
    # What was never given a budget is a level to compare with, in all panels.
    has_budget = frame.groupby("setting")["epsilon"].transform("min") < np.inf
    free = frame[~has_budget]
    budgeted = frame[has_budget] if has_budget.any() else free
    units = list(budgeted.groupby("unit")["setting"].nunique().sort_values(ascending=False, kind="stable").index)
    figure = Figure(figsize=(max(5.2, 4.6 * len(units)), 1.4 + 3.2 * len(metrics)), layout="constrained")
    ticks = [set(frame["epsilon"]) for _ in units]
    looks = setting_looks(frame.to_dict("records"))
    for line, metric in enumerate(metrics):
        first: Axes | None = None
        for column, unit in enumerate(units):
            place = line * len(units) + column + 1
            above = figure.axes[column] if line else None
            axes = figure.add_subplot(len(metrics), len(units), place, sharex=above, sharey=first)
            first = first or axes
            part = frame[has_budget & (frame["unit"] == unit)]
            for (setting, label), runs in part.groupby(["setting", "label"]):
                _curve(axes, runs, metric, str(label), looks[setting])
            for setting, runs in free.groupby("setting"):
                look = looks[str(setting)]
                axes.axhline(runs[metric].mean(), color=look.colour, linestyle=look.line, linewidth=0.9,
                             label=f"{setting!s}, no privacy")  # fmt: skip
            if metric == "accuracy":
                ticks[column] |= _published_curves(axes, dataset, split, short_unit(unit))
            epsilon_axis(axes, ticks[column])
            axes.set_ylabel(METRICS[metric])
            if not line:
                title = f"{frame['section'].iloc[0]}\nunit: one {short_unit(unit)}"
                if any(_hollow(runs) for _, runs in part.groupby("setting")):
                    # Such a method may count epsilon otherwise than the axis says: the LDP document does, once a round.
                    title += "; hollow: no guarantee,\nepsilon as the method counts it"
                axes.set_title(title, loc="left", fontsize=9)
    legend_below(figure)
    return figure


def epsilon_axis(axes: Axes, epsilons: Iterable[float]) -> None:
    """A logarithmic axis with a tick at each epsilon that was run or published."""
    finite = sorted({float(epsilon) for epsilon in epsilons if np.isfinite(epsilon)})
    axes.set_xscale("log")
    axes.set_xticks(finite, [rounded_up(epsilon) for epsilon in finite])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("epsilon, total of a client over the run")


def _hollow(runs: pd.DataFrame) -> bool:
    """Whether noise was added, but no guarantee comes of it."""
    finite = runs[np.isfinite(runs["epsilon"])]
    return len(finite) > 0 and bool(finite["guarantee"].str.startswith("guarantee: none").all())


def _curve(axes: Axes, runs: pd.DataFrame, metric: str, label: str, look: Look) -> None:
    finite = runs[np.isfinite(runs["epsilon"]) & runs[metric].notna()]
    if len(finite):
        stats = finite.groupby("epsilon")[metric].agg(["mean", "min", "max"])
        # A mean of equal numbers may round to beyond them.
        spread = [(stats["mean"] - stats["min"]).clip(lower=0), (stats["max"] - stats["mean"]).clip(lower=0)]
        axes.errorbar(
            stats.index, stats["mean"], yerr=spread, color=look.colour, linestyle=look.line, marker=look.marker,
            markerfacecolor="white" if _hollow(finite) else look.colour, markersize=4, capsize=2, linewidth=1.2,
            label=label,
        )  # fmt: skip
    without = runs[np.isinf(runs["epsilon"]) & runs[metric].notna()]
    if len(without):
        name = "_nolegend_" if len(finite) else f"{label}, no privacy"
        axes.axhline(
            without[metric].mean(), color=look.colour, linestyle=look.line, linewidth=0.8, alpha=0.6, label=name
        )


def _published_curves(axes: Axes, dataset: str, split: str, unit: str) -> set[float]:
    """What sources say they reached, on the panel of the unit that they claim to protect; returns the epsilons."""
    drawn: set[float] = set()
    for values in published_on(dataset, split):
        if values.get("unit", "record") not in unit:
            continue
        for number, (name, curve) in enumerate(values.get("accuracy", {}).items()):
            label = f"depth {name}" if isinstance(name, int) else name
            drawn.update(map(float, curve))
            axes.plot(
                list(curve), list(curve.values()), color=PUBLISHED, marker="x", linewidth=0.8,
                linestyle=("-", ":")[number % 2], label=f"{source_of(values)}, {label}",
            )  # fmt: skip
        for number, (label, accuracy) in enumerate(values.get("without_privacy", {}).items()):
            axes.axhline(accuracy, color=PUBLISHED, linewidth=0.8, linestyle=_LINES[1 + number % 3],
                         label=f"{values['source']}, {label}")  # fmt: skip
    return drawn


def _owner_accuracies(
    runs: Sequence[tuple[dict[str, Any], dict[str, Any]]],
) -> dict[str, dict[int, list[float]]]:
    """Accuracy of each client's own trees on all test rows, of runs without privacy; by setting."""
    found: dict[str, dict[int, list[float]]] = {}
    for run, row in runs:
        if np.isinf(row["epsilon"]):
            for owner, accuracy in run["metrics"].get("owner_accuracy", {}).items():
                found.setdefault(str(row["setting"]), {}).setdefault(int(owner), []).append(accuracy)
    return found


def _per_client(alone: dict[str, dict[int, list[float]]], title: str) -> Figure:
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.add_subplot()
    looks = setting_looks([{"setting": label, "strategy": label.split()[0]} for label in alone])
    for label, by_owner in sorted(alone.items()):
        owners = sorted(by_owner)
        axes.plot(owners, [np.mean(by_owner[o]) for o in owners], marker=looks[label].marker, markersize=4,
                  linestyle="none", color=looks[label].colour, label=label)  # fmt: skip
    axes.set_xlabel("client")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel("accuracy of its own trees on all test rows")
    axes.set_title(f"{title}: stand-alone trees, no privacy", loc="left", fontsize=9)
    legend_below(figure)
    return figure


def _memorization(frame: pd.DataFrame) -> Figure:
    dataset, split = (str(frame[key].iloc[0]) for key in ("dataset", "split"))
    sizes = sorted(int(str(c).removeprefix("memorization_")) for c in frame if str(c).startswith("memorization_"))
    figure = Figure(figsize=(3.6 * len(sizes), 4.0), layout="constrained")
    overlay = [told for told in published_on(dataset, split) if "memorization" in told]
    finite = frame[np.isfinite(frame["epsilon"])]
    for number, size in enumerate(sizes, 1):
        axes = figure.add_subplot(1, len(sizes), number)
        for setting, look in setting_looks(finite.to_dict("records")).items():
            mean = finite[finite["setting"] == setting].groupby("epsilon")[f"memorization_{size}"].mean().dropna()
            axes.plot(mean.index, mean, marker=look.marker, markersize=4, linestyle=look.line, color=look.colour,
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
    figure.suptitle(str(frame["section"].iloc[0]), x=0.01, ha="left", fontsize=9)
    legend_below(figure)
    return figure
