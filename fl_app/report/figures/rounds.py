"""Figures and numbers about rounds and importances: what Oliveira et al. show in figures 3, 4 and 5."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from dpforest.explain import compare_importances, mean_stability
from dpforest.ledger import rounded_up
from fl_app.report.figures.style import PUBLISHED, guarantee_words, legend_below, one_panel, spread
from fl_app.report.papers.published import published_on
from fl_app.report.sections import Section
from fl_app.results.finished import FinishedRun
from fl_app.terminal.screen import screen_width
from fl_app.terminal.tables import columns
from strategies.metrics import Metric, metrics_of

_TOP = 5  # features whose overlap is counted
_MOST_FEATURES = 12  # features in the bars
_MAPPED = 40  # features in the heat map
_NAME = 0.075  # inches that a letter of a feature's name takes
_LINES = ("-", "--", ":", "-.")
_CROSSES = ("x:", "+-.")  # a source's curves

Group = Mapping[float, Sequence[FinishedRun]]  # runs by epsilon
Curves = Mapping[float, np.ndarray]  # values of shape (n_runs, n_rounds) by epsilon


def rounds(section: Section) -> Iterator[tuple[str, Figure]]:
    """Learning curves over rounds, of each setting."""
    for name, title, group in _groups(section):
        metrics = [metric for metric in metrics_of() if metric.over_rounds and _curves(group, metric)]
        if metrics:
            yield name, _rounds(section, title, group, metrics)


def importances(section: Section) -> Iterator[tuple[str, Figure]]:
    """Importances by epsilon as bars, of each setting."""
    for name, title, group in _groups(section):
        if vectors := _importances(group):
            yield name, bars(vectors, _features(group), title)


def importance_maps(section: Section) -> Iterator[tuple[str, Figure]]:
    """Importances by epsilon as a heat map, of each setting."""
    for name, title, group in _groups(section):
        if len(vectors := _importances(group)) > 1:
            yield name, _heat_map(vectors, _features(group), title)


def stability(section: Section) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """`stability_rows` as a table of its own."""
    if rows := stability_rows(section):
        yield "", rows


def stability_rows(section: Section) -> list[dict[str, Any]]:
    """How stable importances are, a setting and epsilon: between seeds, and against no privacy.

    Returns
    -------
    list of dict
        ``spearman`` and ``overlap`` (share of the 5 most important features in common) as means over pairs of seeds,
        and ``..._to_no_privacy`` as means over seeds against the mean importances at epsilon = inf.
    """
    found = []
    for setting, group in _by_setting(section).items():
        by_epsilon = _importances(group)
        reference = np.mean(by_epsilon[math.inf], axis=0) if math.inf in by_epsilon else None
        for epsilon, vectors in by_epsilon.items():
            row: dict[str, Any] = {"section": section.title, "setting": setting, "epsilon": epsilon}
            row["runs"] = len(vectors)
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


def stability_table(section: Section) -> str:
    """`stability_rows` for the terminal; empty if there is nothing to compare."""
    names = ("spearman", "overlap", "spearman_to_no_privacy", "overlap_to_no_privacy")
    lines = [
        [str(row["setting"]), rounded_up(row["epsilon"]), str(row["runs"])]
        + [f"{row[name]:.2f}" if name in row else "" for name in names]
        for row in stability_rows(section)
    ]
    header = ["importances of", "epsilon", "runs", "rank corr.", f"top {_TOP}"]
    return columns([*header, "rank corr. to inf", f"top {_TOP} to inf"], lines, screen_width()) if lines else ""


def _by_setting(section: Section) -> dict[str, Group]:
    """Runs of each setting, by epsilon."""
    groups: dict[str, dict[float, list[FinishedRun]]] = {}
    for run in section.runs:
        groups.setdefault(run.setting, {}).setdefault(run.epsilon, []).append(run)
    return {setting: dict(sorted(group.items())) for setting, group in sorted(groups.items())}


def _groups(section: Section) -> Iterator[tuple[str, str, Group]]:
    """Name of a file, title and runs by epsilon of each setting."""
    groups = _by_setting(section)
    for number, (setting, group) in enumerate(groups.items(), 1):
        first = group[min(group)][0]  # one with privacy if there is any
        name = f"{section.slug}-{number}" if len(groups) > 1 else section.slug
        yield name, f"{section.title}: {setting}\n{guarantee_words(first)}", group


def _features(group: Group) -> tuple[str, ...]:
    """Names of the features of most runs that say importances; none where no run does."""
    named = Counter(tuple(run.metrics.get("importances", {})) for runs in group.values() for run in runs)
    del named[()]
    return named.most_common(1)[0][0] if named else ()


def _importances(group: Group) -> dict[float, np.ndarray]:
    """Importances of `_features` by epsilon, shape (n_runs, n_features), of the runs that have them."""
    features, found = _features(group), {}
    for epsilon, runs in group.items():
        said = [run.metrics.get("importances", {}) for run in runs]
        if vectors := [list(values.values()) for values in said if values and tuple(values) == features]:
            found[epsilon] = np.array(vectors, dtype=np.float64)
    return found


def _curves(group: Group, metric: Metric) -> Curves:
    """Values of a metric after each round, cut to the shortest run."""
    curves = {}
    for epsilon, runs in group.items():
        tables = [run.rounds for run in runs]
        found = [table[metric.name].dropna().to_numpy() if metric.name in table else np.empty(0) for table in tables]
        if (shortest := min(map(len, found))) > 1:
            curves[epsilon] = np.array([each[:shortest] for each in found])
    return curves


def _label(epsilon: float) -> str:
    return "no privacy" if math.isinf(epsilon) else f"epsilon {rounded_up(epsilon)}"


def _colour(number: int, of: int) -> Any:
    return colormaps["viridis"](0.35 + 0.45 * number / max(of - 1, 1))  # seen on white and on black


def _rounds(section: Section, title: str, group: Group, metrics: Sequence[Metric]) -> Figure:
    figure = Figure(figsize=(4.6 * len(metrics), 4.4), layout="constrained")
    for number, metric in enumerate(metrics, 1):
        axes = figure.add_subplot(1, len(metrics), number)
        curves = _curves(group, metric)
        for place, (epsilon, values) in enumerate(curves.items()):
            colour, at = _colour(place, len(curves)), np.arange(1, values.shape[1] + 1)
            axes.plot(at, values.mean(axis=0), color=colour, linestyle=_LINES[place % 4], linewidth=1.2,
                      label=_label(epsilon))  # fmt: skip
            if len(values) > 1:
                axes.fill_between(at, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.12, linewidth=0)
        if metric.name == "mse":
            for source in published_on(section.dataset, section.split):
                for mark, (label, points) in zip(_CROSSES, source.get("mse", {}).items(), strict=False):
                    axes.plot(list(points), list(points.values()), mark, color=PUBLISHED, linewidth=0.8,
                              label=f"{source['source']}: {label}")  # fmt: skip
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("round")
        axes.set_ylabel(metric.label)
        if number == 1:
            axes.set_title(title, loc="left", fontsize=9)
    legend_below(figure)
    return figure


def bars(importances: Mapping[float, np.ndarray], features: Sequence[str], title: str) -> Figure:
    """Mean importance of the features that matter most without (or with the least) privacy, with the range of seeds."""
    last = importances[max(importances)].mean(axis=0)
    order = np.argsort(-last, kind="stable")[:_MOST_FEATURES]
    names = _NAME * max(len(features[i]) for i in order) / math.sqrt(2)  # they stand at 45 degrees
    figure, axes = one_panel(title, (max(5.5, 0.75 * len(order)), 3.6 + names))
    width = 0.8 / len(importances)
    for number, (epsilon, vectors) in enumerate(importances.items()):
        mean, ends = spread(list(100 * vectors[:, order].T))
        at = np.arange(len(order)) + (number - (len(importances) - 1) / 2) * width
        axes.bar(at, mean, width, yerr=ends, color=_colour(number, len(importances)),
                 label=_label(epsilon), error_kw={"linewidth": 0.6, "ecolor": "0.3"})  # fmt: skip
    axes.set_xticks(np.arange(len(order)), [features[i] for i in order], rotation=45, ha="right")
    axes.set_ylabel("mean decrease in impurity, %")
    legend_below(figure)
    return figure


def _heat_map(importances: Mapping[float, np.ndarray], features: Sequence[str], title: str) -> Figure:
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
