"""The tables and figures of the LDP document, of runs of ``strategy=ldp_bagging``, with its own values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from dpforest.ledger import rounded_up
from fl_app.engine.experiment import LEVELS
from fl_app.report.figures.style import legend_below, log_axis, spread
from fl_app.report.papers.published import published
from fl_app.report.sections import Section
from fl_app.results.finished import FinishedRun
from fl_app.results.rows import distinct_by_method, setting_label
from fl_app.results.run_folder import FOREST
from fl_app.terminal.tables import columns
from strategies.metrics import metrics_of

_STEPS = {"training_ms": "training", "noise_ms": "noise", "packing_ms": "packing", "aggregation_ms": "aggregation"}
# What the document's tables are of, all of which a run on two classes has.
_NEEDED = {"precision", "importances", "trees", "depth", "epsilon_a_round", "epsilon_counted"}
_KINDS = ("leaf values", "importances")
_TOP = 5
_STYLES = (("#0072B2", "o", "-"), ("#D55E00", "s", "--"), ("#009E73", "^", "-."), ("#CC79A7", "D", ":"))

Group = Mapping[float, Sequence[FinishedRun]]  # runs by epsilon, from none to the least


def document_tables(section: Section, width: int | None = None) -> str:
    """The document's tables as text, no wider than ``width``; empty where no run is of ldp_bagging on two classes."""
    parts = []
    for label, group in _groups(section).items():
        tables = [
            _metrics(group, width),
            _stability(group, width),
            _noise(group, width),
            _sizes(group, width),
            _times(group, width),
            _budget(group, width),
        ]
        parts.append("\n\n".join([f"== {label}", *filter(None, tables)]))
    return "\n\n".join(parts)


def document_file(section: Section) -> Iterator[tuple[str, str]]:
    """`document_tables` as a file, where there are any."""
    if text := document_tables(section):
        yield "", text


def document_figures(section: Section) -> Iterator[tuple[str, Figure]]:
    """Metrics and sizes of the noise against the levels."""
    if groups := _groups(section):
        yield "metrics", _metric_figure(groups)
        if any(math.isfinite(eps) and _has_noise(group[eps]) for group in groups.values() for eps in group):
            yield "noise", _noise_figure(groups)


def _groups(section: Section) -> dict[str, Group]:
    distinct = distinct_by_method([run.row for run in section.runs])
    found: dict[str, dict[float, list[FinishedRun]]] = {}
    # One axis of levels for both: what epsilon counts must stand with it.
    counts = {"published": "epsilon a round, no guarantee", "tight": "epsilon of the whole run"}
    for run in section.runs:
        accounting = str(run.option("accounting"))
        if run.method == "ldp_bagging" and accounting in counts and run.metrics.keys() >= _NEEDED:
            label = f"{run.dataset}, {run.split} split, {setting_label(run.row, distinct)}"
            if "synthetic" in run.privacy["record"]:
                label += " (synthetic recordings)"
            if not any(name.endswith("accounting") for name in distinct["ldp_bagging"]):
                label += f" accounting={accounting}"
            found.setdefault(f"{label}: {counts[accounting]}", {}).setdefault(run.epsilon, []).append(run)
    return {label: dict(sorted(group.items(), reverse=True)) for label, group in sorted(found.items())}


def _level(epsilon: float) -> str:
    names = {value: name for name, value in LEVELS.items()}
    word = names.get(epsilon, "epsilon")
    return word if math.isinf(epsilon) else f"{word} ({rounded_up(epsilon)})"


def _document(name: str) -> Mapping[float, Any]:
    values: dict[float, Any] = published("ldp_wearable")[name]
    return {float(epsilon): value for epsilon, value in values.items()}


def _document_metrics() -> list[tuple[str, str]]:
    """Name and label of the metrics that the document has."""
    known = _document("levels")[math.inf]
    return [(metric.name, metric.label) for metric in metrics_of() if metric.name in known]


def _mean(group: Sequence[FinishedRun], name: str) -> float:
    values = [run.metrics[name] for run in group if name in run.metrics]
    return float(np.mean(values)) if values else math.nan


def _metrics(group: Group, width: int | None) -> str:
    """Means over seeds, with the change against no privacy, and the document's."""
    document, without = _document("levels"), group.get(math.inf)
    lines = []
    for name, word in _document_metrics():
        cells = [word]
        for runs in group.values():
            cell = f"{_mean(runs, name):.3f}"
            if without is not None and runs is not without:
                cell += f" ({_mean(runs, name) - _mean(without, name):+.3f})"
            cells.append(cell)
        lines.append(cells)
        cells = ["  document"]
        for epsilon in group:
            cell = f"{document[epsilon][name]:.3f}" if epsilon in document else ""
            if cell and not math.isinf(epsilon):
                cell += f" ({document[epsilon][name] - document[math.inf][name]:+.3f})"
            cells.append(cell)
        lines.append(cells)
    seeds = max(len(runs) for runs in group.values())
    return columns([f"mean of {seeds} runs", *map(_level, group)], lines, width)


def _importances(run: FinishedRun) -> np.ndarray:
    return np.array(list(run.metrics["importances"].values()))


def _stability(group: Group, width: int | None) -> str:
    """Correlation of importances with those of the run without privacy on the same draw, and how the top changes."""
    without = {run.draw: _importances(run) for run in group.get(math.inf, [])}
    lines = []
    for epsilon, runs in group.items():
        draws = [(_importances(run), without.get(run.draw)) for run in runs]
        pairs = [(mine, other) for mine, other in draws if other is not None and len(mine) == len(other)]
        if not pairs:
            continue
        correlations = [np.corrcoef(mine, reference)[0, 1] for mine, reference in pairs]
        top = min(_TOP, len(pairs[0][0]))
        changed = [top - len(set(np.argsort(-a)[:top]) & set(np.argsort(-b)[:top])) for a, b in pairs]
        theirs, swaps = _document("importance_correlation"), _document("importance_swaps")
        lines.append([
            _level(epsilon), f"{np.mean(correlations):.3f}", f"{np.mean(changed):.1f}",
            f"{theirs[epsilon]:.3f}" if epsilon in theirs else "", str(swaps.get(epsilon, "")),
        ])  # fmt: skip
    header = ["importance against none", "correlation", f"of the top {_TOP} changed", "document: correlation", "swaps"]
    return columns(header, lines, width) if lines else ""


def _facts(runs: Sequence[FinishedRun], kind: str) -> list[Mapping[str, Any]]:
    return [run.metrics["noise"][kind] for run in runs if kind in run.metrics.get("noise", {})]


def _has_noise(runs: Sequence[FinishedRun]) -> bool:
    return all(_facts(runs, kind) for kind in _KINDS)


def _noise_of(runs: Sequence[FinishedRun], kind: str) -> dict[str, float]:
    facts = _facts(runs, kind)
    numbers = [float(fact["numbers"]) for fact in facts]
    relative = [fact["relative_change"] for fact in facts if fact["relative_change"] is not None]
    return {
        "mean": float(np.average([fact["mean"] for fact in facts], weights=numbers)) if any(numbers) else math.nan,
        "largest": max(fact["largest"] for fact in facts),
        "relative": float(np.mean(relative)) if relative else math.nan,
        "expected": facts[0]["expected_mean"],
        "document": facts[0]["document_mean"] or math.nan,
        "numbers": sum(numbers),
    }


def _noise(group: Group, width: int | None) -> str:
    finite = {eps: runs for eps, runs in group.items() if math.isfinite(eps)}
    lines = []
    for epsilon, runs in finite.items():
        if not _has_noise(runs):
            size = _mean(runs, "expected_noise_of_leaf_counts")
            lines.append([_level(epsilon), "class counts of leaves", "-", "-", "-", f"{size:.4g} records", "-"])
            continue
        for kind in _KINDS:
            facts = _noise_of(runs, kind)
            lines.append([
                _level(epsilon), kind, f"{facts['mean']:.4g}", f"{facts['largest']:.4g}",
                f"{100 * facts['relative']:.0f} %" if not math.isnan(facts["relative"]) else "-",
                f"{facts['expected']:.4g}", f"{facts['document']:.4g}" if not math.isnan(facts["document"]) else "-",
            ])  # fmt: skip
    if not lines:
        return ""
    header = ["noise on", "", "mean size", "largest", "relative change", "sensitivity / epsilon says", "document says"]
    text = columns(header, lines, width)
    if any(_has_noise(runs) for runs in finite.values()):
        text += "\nThe document's sizes do not agree with its own formula, Laplace(sensitivity / epsilon); ours do."
    return text


def _kilobytes(run: FinishedRun) -> float | None:
    """Size of its model's file, or None where that is gone."""
    try:
        return (run.folder / "model" / FOREST).stat().st_size / 1000
    except OSError:
        return None


def _sizes(group: Group, width: int | None) -> str:
    lines = []
    for epsilon, runs in group.items():
        sizes = {run: size for run in runs if (size := _kilobytes(run)) is not None}
        of_tree = [size / run.metrics["trees"] for run, size in sizes.items() if run.metrics["trees"]]
        lines.append([
            _level(epsilon), f"{np.mean(list(sizes.values())):.1f} kB" if sizes else "", f"{_mean(runs, 'trees'):.0f}",
            f"{np.mean(of_tree):.2f} kB" if of_tree else "", f"{_mean(runs, 'depth'):.0f}",
        ])  # fmt: skip
    theirs = published("ldp_wearable")["model_kilobytes"]
    header = ["model file", "size", "trees", "a tree", "depth"]
    return columns(header, lines, width) + f"\ndocument: {theirs} kB for one tree of depth 3, the same at all levels"


def _times(group: Group, width: int | None) -> str:
    """Milliseconds of a client and round; a client of the tight setting keeps its times to itself."""
    theirs = published("ldp_wearable")["milliseconds"]
    lines = []
    for epsilon, runs in group.items():
        table = pd.concat([run.rounds for run in runs])
        clients = max(1, runs[0].metrics["clients"])
        cells = [f"{table[name].median():.2f}" if name in table else "not sent" for name in _STEPS]
        whole = f"{1000 * table['train_seconds'].median() / clients:.1f}" if "train_seconds" in table else ""
        lines.append([_level(epsilon), *cells, whole])
    lines.append(["document", *(str(theirs[step]) for step in _STEPS.values()), "63 to 152"])
    return columns(["milliseconds (median)", *_STEPS.values(), "exchange a client"], lines, width)


def _budget(group: Group, width: int | None) -> str:
    lines = []
    for epsilon, runs in group.items():
        metrics, guarantee = runs[0].metrics, runs[0].guarantee
        holds = f"epsilon {rounded_up(guarantee.epsilon, 4)} (pure)" if guarantee.holds else "none"
        spent = [rounded_up(float(metrics[name])) for name in ("epsilon_a_round", "epsilon_counted")]
        lines.append([_level(epsilon), *spent, holds])
    return columns(["budget", "epsilon a round", "counted over the run", "guaranteed"], lines, width)


def _metric_figure(groups: Mapping[str, Group]) -> Figure:
    figure = Figure(figsize=(10.5, 6.2), layout="constrained")
    document = _document("levels")
    all_levels = sorted({eps for group in groups.values() for eps in group} | set(document), reverse=True)
    place = {epsilon: number for number, epsilon in enumerate(all_levels)}
    for panel, (name, word) in enumerate(_document_metrics(), 1):
        axes = figure.add_subplot(2, 3, panel)
        for (colour, marker, line), (label, group) in zip(_STYLES * len(groups), groups.items(), strict=False):
            mean, ends = spread([[r.metrics.get(name, math.nan) for r in runs] for runs in group.values()])
            axes.errorbar(
                [place[eps] for eps in group], mean, yerr=ends, color=colour, marker=marker, linestyle=line,
                markersize=4, capsize=2, linewidth=1.2, label=label,
            )  # fmt: skip
        axes.plot(
            [place[eps] for eps in document], [document[eps][name] for eps in document], color="0.45", marker="x",
            linestyle=":", linewidth=0.8, label=published("ldp_wearable")["source"],
        )  # fmt: skip
        axes.set_xticks(list(place.values()), [_level(eps) for eps in place])
        axes.set_title(word, loc="left", fontsize=9)
        if name == "log_loss":
            log_axis(axes.yaxis)
    figure.axes[4].set_xlabel("privacy level (epsilon); points: mean of the seeds, bars: least and most", fontsize=8)
    legend_below(figure)
    return figure


def _noise_figure(groups: Mapping[str, Group]) -> Figure:
    figure = Figure(figsize=(5.6, 4.6), layout="constrained")
    axes = figure.add_subplot()
    for group in groups.values():
        finite = {eps: runs for eps, runs in group.items() if math.isfinite(eps) and _has_noise(runs)}
        if not finite:
            continue
        at = list(finite)
        facts = {kind: [_noise_of(runs, kind) for runs in finite.values()] for kind in _KINDS}
        expected = [f["expected"] for f in facts[_KINDS[0]]]
        axes.plot(at, expected, color="0.3", linewidth=1, label="Laplace(sensitivity / epsilon)")
        for (colour, marker, _), kind in zip(_STYLES, _KINDS, strict=False):
            axes.plot(at, [f["mean"] for f in facts[kind]], color=colour, marker=marker, linestyle="none",
                      label=f"measured on {kind}")  # fmt: skip
            axes.plot(at, [f["document"] for f in facts[kind]], color=colour, marker="x", linestyle=":", linewidth=0.8,
                      label=f"the document, {kind}")  # fmt: skip
    log_axis(axes.xaxis)
    log_axis(axes.yaxis)
    axes.set_xlabel("epsilon of a round")
    axes.set_ylabel("mean size of the noise")
    legend_below(figure)
    return figure
