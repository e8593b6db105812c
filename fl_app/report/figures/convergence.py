"""How models converge over rounds and bytes, and how labels are spread over clients."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from dpforest.errors import DPForestError
from dpforest.guarantee import RECORD_UNIT
from dpforest.ledger import rounded_up
from fl_app.engine.experiment import Experiment
from fl_app.report.figures.style import PUBLISHED, guarantee_words, legend_below, log_axis
from fl_app.report.sections import Section
from strategies.style import Style

log = logging.getLogger(__name__)


def convergence(section: Section) -> Iterator[tuple[str, Figure]]:
    """Scores over rounds and over bytes, one line of panels a privacy unit."""
    curves = learning_curves(section)
    if not curves:
        return
    units = list(dict.fromkeys(curve.unit for curve in curves))
    epsilons = sorted({curve.epsilon for curve in curves if np.isfinite(curve.epsilon)})
    figure = Figure(figsize=(9.2, 3.9 * len(units)), layout="constrained")
    raw_rows = {run.metrics["bytes_of_rows"] for run in section.runs if run.metrics.get("bytes_of_rows")}
    for line, unit in enumerate(units):
        for column, (over, label) in enumerate((("round", "round"), ("bytes", "MB sent, down and up, all clients"))):
            first = figure.axes[0] if figure.axes else None
            above = figure.axes[column] if line else None
            axes = figure.add_subplot(len(units), 2, 2 * line + column + 1, sharey=first, sharex=above)
            for curve in curves:
                if curve.unit == unit:
                    style = section.styles[curve.setting]
                    if curve.epsilon in epsilons:
                        style = style.at_level(epsilons.index(curve.epsilon), len(epsilons))
                    _mean_curve(axes, curve, over, style)
            for size in raw_rows if over == "bytes" else ():
                axes.axvline(size / 1e6, color=PUBLISHED, linestyle=":", linewidth=0.8, label="sending the raw rows")
            if over == "bytes":
                log_axis(axes.xaxis)  # methods differ by orders of magnitude
            else:
                axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            axes.set_xlabel(label)
            axes.set_ylabel(section.metric.label)
            if not column:
                axes.set_title(f"{section.title}\nunit: one {unit}", loc="left", fontsize=9)
    legend_below(figure)
    yield section.slug, figure


def label_map(section: Section) -> Iterator[tuple[str, Figure]]:
    """Share of each class in the training rows of each client, as given out in the first run."""
    shares = label_shares(section.runs[0].config)
    if shares is None:
        return
    clients, classes = shares.shape
    figure = Figure(figsize=(2.6 + 0.45 * classes, 1.9 + 0.17 * clients), layout="constrained")
    axes = figure.add_subplot()
    image = axes.imshow(100 * shares.to_numpy(), aspect="auto", cmap="viridis", vmin=0)
    axes.set_xticks(np.arange(classes), list(shares.columns), rotation=45, ha="right")
    axes.set_yticks(np.arange(clients), [str(client) for client in shares.index])
    axes.set_ylabel("client")
    axes.grid(False)
    figure.colorbar(image, ax=axes, label="share of its rows, %")
    figure.suptitle(f"{section.title}\nprivate facts, for the researcher only", x=0.02, ha="left", fontsize=9)
    yield section.slug, figure


@dataclass(frozen=True)
class Curve:
    """Evaluated rounds of runs that differ in their seed only: a table a run, with ``round``, ``bytes`` and ``score``.

    ``bytes`` are those sent so far, down and up.
    """

    unit: str
    setting: str
    epsilon: float
    label: str
    tables: list[pd.DataFrame]


def learning_curves(section: Section) -> list[Curve]:
    """Learning curves of the runs that have several evaluated rounds, records first; units never share a curve.

    A method that is evaluated at its end only may have reported its score on the public rows after each round.
    """
    metric = section.metric.name
    found: dict[tuple[str, str, float, str], list[pd.DataFrame]] = {}
    for run in section.runs:
        table = run.rounds
        scored = next((name for name in (metric, f"public_{metric}") if table.get(name, pd.Series()).count() > 1), None)
        if scored is None:
            continue
        sent = (table["bytes_down"] + table["bytes_up"]).cumsum()
        scores = pd.DataFrame({"bytes": sent, "score": table[scored]}).dropna()
        scores["round"] = np.arange(1, len(scores) + 1)  # an exchange before the first round makes no model
        at = f", epsilon {rounded_up(run.epsilon)}" if np.isfinite(run.epsilon) else ""
        at += ", on public rows" if scored != metric else ""
        key = (run.guarantee.unit.name, run.setting, run.epsilon, f"{run.setting}{at} ({guarantee_words(run)})")
        found.setdefault(key, []).append(scores)
    ordered = sorted(found.items(), key=lambda item: (item[0][0] != RECORD_UNIT.name, item[0]))
    return [Curve(*key, tables) for key, tables in ordered]


def label_shares(config: Mapping[str, Any]) -> pd.DataFrame | None:
    """Share of each class in each client's training rows, one row a client.

    These are private facts. They are read from the data itself and never from a run, so that the figure exists where
    the data does: on the machine of a researcher who simulates. None for real nodes, for targets, or without the data.
    """
    plain = {key: value for key, value in config.items() if key != "overrides"}
    try:
        experiment = Experiment.from_json(json.dumps(plain))
        source = experiment.source
        if source.on_nodes or not source.schema().is_classification:
            return None
        clients = experiment.partition.count(source)
        classes = source.schema().classes
        counts = {}
        for client, role in enumerate(experiment.roles(clients)):
            if role == "train":
                y = experiment.client_data(client, clients).train.y
                counts[client] = np.bincount(y, minlength=len(classes))
    except DPForestError as error:
        log.warning("no figure of label shares: %s", error)
        return None
    table = pd.DataFrame.from_dict(counts, orient="index", columns=list(classes))
    return table.div(table.sum(axis=1).clip(lower=1), axis=0)


def _mean_curve(axes: Axes, curve: Curve, over: str, style: Style) -> None:
    """Mean over seeds with their range, cut to the shortest run; its marks are few, to tell curves apart."""
    shortest = min(map(len, curve.tables))
    x = np.mean([table[over][:shortest] for table in curve.tables], axis=0) / (1e6 if over == "bytes" else 1)
    scores = np.array([table["score"][:shortest] for table in curve.tables])
    axes.plot(x, scores.mean(axis=0), color=style.colour, linestyle=style.line, marker=style.marker, markersize=4,
              markevery=max(shortest // 4, 1), linewidth=1.2, label=curve.label)  # fmt: skip
    if len(curve.tables) > 1:
        axes.fill_between(x, scores.min(axis=0), scores.max(axis=0), color=style.colour, alpha=0.12, linewidth=0)
