"""Figures about the federation: how models converge over rounds and bytes, and how labels are spread over clients."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from dpforest.errors import DPForestError
from fl_app.data import client_data
from fl_app.experiment import Experiment
from fl_app.figures import STYLE, legend_below, promise, save_figure, setting_label, short_unit, together
from fl_app.looks import colour_of
from fl_app.results import telling_of_methods

_DASHES = ("-", "--", ":", "-.")
log = logging.getLogger(__name__)

Pair = tuple[dict[str, Any], dict[str, Any]]


def write_federation_figures(
    runs: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]], folder: Path
) -> list[Path]:
    """Draw scores over rounds and over bytes, and the label shares of the clients.

    Parameters
    ----------
    runs : sequence of mapping
        From `fl_app.run_folder.read_run`.
    rows : sequence of mapping
        The same runs as flat rows.
    folder : Path
        Made if it is not there.

    Returns
    -------
    list of Path
        SVG and PNG files; none for runs of one round on rows that are not on this machine.
    """
    folder.mkdir(parents=True, exist_ok=True)
    of_methods = telling_of_methods(rows)
    written: list[Path] = []
    with matplotlib.rc_context(STYLE):
        for group in together(rows):
            pairs = group.of(list(zip(runs, rows, strict=True)))
            if curves := convergence(pairs, of_methods):
                written += save_figure(_convergence(curves, pairs, group.title), folder / f"convergence-{group.name}")
            shares = label_shares(pairs[0][0]["config"])
            if shares is not None:
                written += save_figure(_label_map(shares, group.title), folder / f"labels-{group.name}")
    return written


def convergence(
    pairs: Sequence[Pair], telling: Mapping[str, Sequence[str]]
) -> dict[tuple[str, str, float, str], list[pd.DataFrame]]:
    """Judged rounds of runs, by unit, strategy, epsilon and label.

    Returns
    -------
    dict
        A table a run, with ``round``, ``bytes`` (sent so far, down and up) and ``score``; only runs of several judged
        rounds. Runs with different privacy units never share a key.
    """
    found: dict[tuple[str, str, float, str], list[pd.DataFrame]] = {}
    telling = {method: [n for n in names if n.startswith("strategy.")] for method, names in telling.items()}
    for run, row in pairs:
        table = pd.read_csv(run["folder"] / "rounds.csv")
        metric = "accuracy" if "accuracy" in table else "r2"
        if metric not in table or table[metric].notna().sum() < 2:
            continue
        sent = (table["bytes_down"] + table["bytes_up"]).cumsum()
        judged = pd.DataFrame({"bytes": sent, "score": table[metric]}).dropna()
        judged["round"] = np.arange(1, len(judged) + 1)  # an exchange before the first round makes no model
        epsilon = float(row["epsilon"])
        words = [setting_label(row, telling)]
        words += [f"epsilon {epsilon:g}"] if np.isfinite(epsilon) else []
        label = f"{', '.join(words)} ({promise(row)})"
        found.setdefault((short_unit(row["unit"]), str(row["strategy"]), epsilon, label), []).append(judged)
    return dict(sorted(found.items()))


def label_shares(config: dict[str, Any]) -> pd.DataFrame | None:
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
                y = client_data(source, experiment.partition, experiment.evaluation, client, clients).train.y
                counts[client] = np.bincount(y, minlength=len(classes))
    except DPForestError as error:
        log.warning("no figure of label shares: %s", error)
        return None
    table = pd.DataFrame.from_dict(counts, orient="index", columns=list(classes))
    return table.div(table.sum(axis=1).clip(lower=1), axis=0)


def _convergence(
    curves: dict[tuple[str, str, float, str], list[pd.DataFrame]], pairs: Sequence[Pair], title: str
) -> Figure:
    units = sorted({unit for unit, *_ in curves})
    figure = Figure(figsize=(9.2, 3.9 * len(units)), layout="constrained")
    raw_rows = {row["bytes_of_rows"] for _, row in pairs if row.get("bytes_of_rows")}
    metric = "accuracy" if "accuracy" in pairs[0][1] else "R^2"
    for line, unit in enumerate(units):
        for column, (over, label) in enumerate((("round", "round"), ("bytes", "MB sent, down and up, all clients"))):
            first = figure.axes[0] if figure.axes else None
            above = figure.axes[column] if line else None
            axes = figure.add_subplot(len(units), 2, 2 * line + column + 1, sharey=first, sharex=above)
            mine = {key: tables for key, tables in curves.items() if key[0] == unit}
            for number, ((_, strategy, _, name), tables) in enumerate(mine.items()):
                _mean_curve(axes, tables, over, colour_of(strategy), _DASHES[number % 4], name)
            for size in raw_rows if over == "bytes" else ():
                axes.axvline(size / 1e6, color="0.45", linestyle=":", linewidth=0.8, label="sending the raw rows")
            if over == "bytes":
                axes.set_xscale("log")  # methods differ by orders of magnitude
                axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
                axes.xaxis.set_major_formatter("{x:g}")
                axes.xaxis.set_minor_formatter(NullFormatter())
            axes.set_xlabel(label)
            axes.set_ylabel(metric)
            if not column:
                axes.set_title(f"{title}\nunit: one {unit}", loc="left", fontsize=9)
    legend_below(figure)
    return figure


def _mean_curve(axes: Axes, tables: Sequence[pd.DataFrame], over: str, colour: str, line: str, label: str) -> None:
    """Mean over seeds with their range, cut to the shortest run."""
    shortest = min(map(len, tables))
    x = np.mean([table[over][:shortest] for table in tables], axis=0) / (1e6 if over == "bytes" else 1)
    scores = np.array([table["score"][:shortest] for table in tables])
    axes.plot(x, scores.mean(axis=0), color=colour, linestyle=line, linewidth=1.2, label=label)
    if len(tables) > 1:
        axes.fill_between(x, scores.min(axis=0), scores.max(axis=0), color=colour, alpha=0.12, linewidth=0)


def _label_map(shares: pd.DataFrame, title: str) -> Figure:
    clients, classes = shares.shape
    figure = Figure(figsize=(2.6 + 0.45 * classes, 1.9 + 0.17 * clients), layout="constrained")
    axes = figure.add_subplot()
    image = axes.imshow(100 * shares.to_numpy(), aspect="auto", cmap="viridis", vmin=0)
    axes.set_xticks(np.arange(classes), list(shares.columns), rotation=45, ha="right")
    axes.set_yticks(np.arange(clients), [str(client) for client in shares.index])
    axes.set_ylabel("client")
    axes.grid(False)
    figure.colorbar(image, ax=axes, label="share of its rows, %")
    figure.suptitle(f"{title}\nprivate facts, for the researcher only", x=0.02, ha="left", fontsize=9)
    return figure
