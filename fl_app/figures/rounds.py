"""Figures and numbers about rounds and importances: what Oliveira et al. show in figures 3, 4 and 5."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from dpforest.explain import compare_importances, mean_stability
from dpforest.ledger import rounded_up
from fl_app.figures.base import drawing_into, legend_below, promise, save_figure
from fl_app.figures.looks import PUBLISHED
from fl_app.figures.published import published_on
from fl_app.run_folder import write_table
from fl_app.tables import columns

_METRICS = {"mse": "MSE", "r2": "R^2", "pearson": "Pearson correlation", "accuracy": "accuracy"}
_TOP = 5  # features whose overlap is counted
_SHOWN = 12  # features in the bars
_MAPPED = 40  # features in the heat map
_NAME = 0.075  # inches that a letter of a feature's name takes
_LINES = ("-", "--", ":", "-.")
_TOLD = ("x:", "+-.")  # a source's curves
STABILITY = "importance_stability.csv"

Pair = tuple[dict[str, Any], dict[str, Any]]
Group = dict[float, list[Pair]]


def write_round_figures(runs: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]], folder: Path) -> list[Path]:
    """Draw learning curves over rounds, importances by epsilon as bars and as a heat map; write their stability.

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
        SVG and PNG files; none for runs of one round without importances.
    """
    written: list[Path] = []
    groups = _groups(runs, rows)
    with drawing_into(folder):
        for number, ((section, setting), group) in enumerate(groups.items(), 1):
            row = _finite_row(group)
            name = f"{row['slug']}-{number}" if len(groups) > 1 else str(row["slug"])
            title = f"{section}: {setting}\n{promise(row)}"
            if curves := _curves(group):
                written += save_figure(_rounds(curves, row, title), folder / f"rounds-{name}")
            if importances := _importances(group):
                features = _features(group)
                written += save_figure(_bars(importances, features, title), folder / f"importance-{name}")
                if len(importances) > 1:
                    written += save_figure(_heat_map(importances, features, title), folder / f"importance-map-{name}")
    if stability := stability_rows(runs, rows):
        write_table(folder / STABILITY, stability)
    return written


def stability_rows(runs: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """How stable importances are, a setting and epsilon: between seeds, and against no privacy.

    Returns
    -------
    list of dict
        ``spearman`` and ``overlap`` (share of the 5 most important features in common) as means over pairs of seeds,
        and ``..._to_no_privacy`` as means over seeds against the mean importances at epsilon = inf.
    """
    found = []
    for (section, setting), group in _groups(runs, rows).items():
        importances = _importances(group)
        reference = np.mean(importances[math.inf], axis=0) if math.inf in importances else None
        for epsilon, vectors in importances.items():
            row: dict[str, Any] = {"section": section, "setting": setting, "epsilon": epsilon, "runs": len(vectors)}
            top = min(_TOP, vectors.shape[1])
            if len(vectors) > 1:
                between = mean_stability(vectors.tolist(), top)
                row |= {"spearman": between.spearman, "overlap": between.overlap}
            if reference is not None and not math.isinf(epsilon):
                against = [compare_importances(vector, reference.tolist(), top) for vector in vectors.tolist()]
                ordered = [pair.spearman for pair in against if not math.isnan(pair.spearman)]
                row["spearman_to_no_privacy"] = float(np.mean(ordered)) if ordered else math.nan
                row["overlap_to_no_privacy"] = float(np.mean([pair.overlap for pair in against]))
            if len(row) > 4:
                found.append(row)
    return found


def stability_table(runs: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]]) -> str:
    """`stability_rows` for the terminal; empty if there is nothing to compare."""
    names = ("spearman", "overlap", "spearman_to_no_privacy", "overlap_to_no_privacy")
    lines = [
        [str(row["setting"]), rounded_up(row["epsilon"]), str(row["runs"])]
        + [f"{row[name]:.2f}" if name in row else "" for name in names]
        for row in stability_rows(runs, rows)
    ]
    header = ["importances of", "epsilon", "runs", "rank corr.", f"top {_TOP}"]
    return columns([*header, "rank corr. to inf", f"top {_TOP} to inf"], lines) if lines else ""


def _groups(runs: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]]) -> dict[tuple[str, str], Group]:
    """Runs of a section that differ in epsilon and seed only."""
    groups: dict[tuple[str, str], Group] = {}
    for run, row in zip(runs, rows, strict=True):
        key = str(row["section"]), str(row["setting"])
        groups.setdefault(key, {}).setdefault(float(row["epsilon"]), []).append((run, row))
    return {key: dict(sorted(group.items())) for key, group in sorted(groups.items())}


def _finite_row(group: Group) -> dict[str, Any]:
    """A run's row, of the smallest epsilon: one with privacy if there is any."""
    return group[min(group)][0][1]


def _features(group: Group) -> list[str]:
    return next(list(run["metrics"]["importances"]) for pairs in group.values() for run, _ in pairs)


def _importances(group: Group) -> dict[float, np.ndarray]:
    """Importances by epsilon, shape (n_runs, n_features); none unless all runs have them."""
    found = {}
    for epsilon, pairs in group.items():
        vectors = [list(run["metrics"].get("importances", {}).values()) for run, _ in pairs]
        if not all(vectors) or len({len(vector) for vector in vectors}) > 1:
            return {}
        found[epsilon] = np.array(vectors, dtype=np.float64)
    return found


def _curves(group: Group) -> dict[str, dict[float, tuple[np.ndarray, np.ndarray]]]:
    """For each metric and epsilon: rounds, and values of shape (n_runs, n_rounds); cut to the shortest run."""
    tables = {eps: [run["rounds"] for run, _ in pairs] for eps, pairs in group.items()}
    curves: dict[str, dict[float, tuple[np.ndarray, np.ndarray]]] = {}
    for metric in _METRICS:
        for epsilon, several in tables.items():
            found = [table[metric].dropna().to_numpy() if metric in table else np.empty(0) for table in several]
            shortest = min(map(len, found))
            if shortest > 1:
                values = np.array([each[:shortest] for each in found])
                curves.setdefault(metric, {})[epsilon] = np.arange(1, shortest + 1), values
    return curves


def _label(epsilon: float) -> str:
    return "no privacy" if math.isinf(epsilon) else f"epsilon {rounded_up(epsilon)}"


def _colour(number: int, of: int) -> Any:
    return colormaps["viridis"](0.35 + 0.45 * number / max(of - 1, 1))  # seen on white and on black


def _rounds(curves: dict[str, dict[float, tuple[np.ndarray, np.ndarray]]], row: dict[str, Any], title: str) -> Figure:
    shown = [metric for metric in ("mse", "pearson", "accuracy") if metric in curves]
    figure = Figure(figsize=(4.6 * len(shown), 4.4), layout="constrained")
    for number, metric in enumerate(shown, 1):
        axes = figure.add_subplot(1, len(shown), number)
        for place, (epsilon, (rounds, values)) in enumerate(curves[metric].items()):
            colour = _colour(place, len(curves[metric]))
            axes.plot(rounds, values.mean(axis=0), color=colour, linestyle=_LINES[place % 4], linewidth=1.2,
                      label=_label(epsilon))  # fmt: skip
            if len(values) > 1:
                axes.fill_between(rounds, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.12, linewidth=0)
        if metric == "mse":
            for told in published_on(str(row["dataset"]), str(row["split"])):
                for mark, (label, points) in zip(_TOLD, told.get("mse", {}).items(), strict=False):
                    axes.plot(list(points), list(points.values()), mark, color=PUBLISHED, linewidth=0.8,
                              label=f"{told['source']}: {label}")  # fmt: skip
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("round")
        axes.set_ylabel(_METRICS[metric])
        if number == 1:
            axes.set_title(title, loc="left", fontsize=9)
    legend_below(figure)
    return figure


def _bars(importances: dict[float, np.ndarray], features: Sequence[str], title: str) -> Figure:
    """Mean importance of the features that matter most without (or with the least) privacy, with the range of seeds."""
    last = importances[max(importances)].mean(axis=0)
    order = np.argsort(-last, kind="stable")[:_SHOWN]
    names = _NAME * max(len(features[i]) for i in order) / math.sqrt(2)  # they stand at 45 degrees
    figure = Figure(figsize=(max(5.5, 0.75 * len(order)), 3.6 + names), layout="constrained")
    axes = figure.add_subplot()
    width = 0.8 / len(importances)
    for number, (epsilon, vectors) in enumerate(importances.items()):
        percent = 100 * vectors[:, order]
        mean = percent.mean(axis=0)
        # Rounding may put the mean of equal numbers outside of them.
        spread = np.maximum([mean - percent.min(axis=0), percent.max(axis=0) - mean], 0)
        at = np.arange(len(order)) + (number - (len(importances) - 1) / 2) * width
        axes.bar(at, mean, width, yerr=spread, color=_colour(number, len(importances)),
                 label=_label(epsilon), error_kw={"linewidth": 0.6, "ecolor": "0.3"})  # fmt: skip
    axes.set_xticks(np.arange(len(order)), [features[i] for i in order], rotation=45, ha="right")
    axes.set_ylabel("mean decrease in impurity, %")
    axes.set_title(title, loc="left", fontsize=9)
    legend_below(figure)
    return figure


def _heat_map(importances: dict[float, np.ndarray], features: Sequence[str], title: str) -> Figure:
    """Mean importances of the features that matter most at any epsilon, in the order of the schema."""
    percent = 100 * np.stack([vectors.mean(axis=0) for vectors in importances.values()], axis=1)
    if len(features) > _MAPPED:
        most = np.sort(np.argsort(-percent.max(axis=1), kind="stable")[:_MAPPED])
        percent, features = percent[most], [features[i] for i in most]
        title += f"\nthe {_MAPPED} features that matter most at any epsilon"
    names = _NAME * max(map(len, features))
    size = (max(2.2 + names + 0.75 * len(importances), 5.2), 1.4 + 0.2 * len(features))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.add_subplot()
    image = axes.imshow(percent, aspect="auto", cmap="viridis", vmin=0)
    axes.set_xticks(np.arange(len(importances)), [_label(epsilon) for epsilon in importances], rotation=45, ha="right")
    axes.set_yticks(np.arange(len(features)), features)
    axes.grid(False)
    figure.colorbar(image, ax=axes, label="mean decrease in impurity, %")
    figure.suptitle(title, x=0.02, ha="left", fontsize=9)
    return figure
