"""Figures and tables of methods that give each user a model: what Liu et al. show in tables 3 to 5, figures 2 to 5."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fl_app.figures.base import drawing_into, file_name, legend_below, log_axis, promise, save_figure
from fl_app.figures.looks import colour_of
from fl_app.figures.published import published_on, source_of
from fl_app.results import telling_columns
from fl_app.run_folder import write_table
from fl_app.tables import columns

# What the paper varies, one at a time: its figures 2 to 5.
_VARIED = {
    "strategy.k": "similar users k",
    "strategy.trees": "trees of a forest",
    "strategy.depth": "largest depth",
    "epsilon": "epsilon, budget of the run",
}
_MARKERS = {"lrf": "s", "pp_fgrf": "^", "pp_fprf": "o"}
_EVERYBODY = "all"
EACH = "users-each-"  # beginning of the names of the figures that have a table of the same name beside them

Row = dict[str, Any]


def write_user_figures(runs: Sequence[Row], rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw accuracy against what differs between the runs, and of each user; write the accuracy of each user.

    Parameters
    ----------
    runs : sequence of mapping
        From `fl_app.report.gather.gather`; those without methods that ran beside are left out.
    rows : sequence of mapping
        The same runs as flat rows.
    folder : Path
        Made if it is not there.

    Returns
    -------
    list of Path
        SVG and PNG files; none where no methods ran beside.
    """
    groups = _groups(runs, rows)
    if not groups:
        return []
    written: list[Path] = []
    with drawing_into(folder):
        for name, group in groups.items():
            base = _base(group)
            for key, words in _VARIED.items():
                points = _points(group, base, key)
                if len({each[key] for each in points}) > 1:
                    figure = _against(points, key, words, _title(name, points, but=key))
                    written += save_figure(figure, folder / f"users-{_short(key)}-{file_name(name)}")
            at_base = [each for each in group if all(each[k] == base[k] for k in _VARIED)]
            figure = _by_user(at_base, _title(name, at_base))
            written += save_figure(figure, folder / f"{EACH}{file_name(name)}")
            write_table(folder / f"{EACH}{file_name(name)}.csv", _user_rows(at_base))
    return written


def user_table(runs: Sequence[Row], rows: Sequence[Row]) -> str:
    """Mean accuracy over users and seeds of each type of user, a line a setting and method; empty without such runs."""
    lines = []
    for name, group in _groups(runs, rows).items():
        settings: dict[tuple[Any, ...], list[Row]] = {}
        for each in group:
            settings.setdefault(tuple(each[key] for key in _VARIED), []).append(each)
        types = _types(group)
        for setting, several in sorted(settings.items(), key=lambda item: tuple(map(float, item[0]))):
            for method in _methods(several):
                scores = [_mean(several, method, kind) for kind in types]
                lines.append([name, *(f"{value:g}" for value in setting), str(len(several)), method]
                             + [f"{score:.3f}" for score in scores])  # fmt: skip
        for source, by_method in _told(group[0]).items():
            lines += [
                [name, "", "", "", "", "", f"{method}, {source}", *(f"{scores[kind]:.3f}" for kind in types)]
                for method, scores in by_method.items()
                if set(types) <= set(scores)
            ]
    if not lines:
        return ""
    most = max(map(len, lines))
    kinds = max(map(_types, _groups(runs, rows).values()), key=len)
    header = ["users of", *(_short(key) for key in _VARIED), "runs", "method", *kinds]
    return columns(header, [line + [""] * (most - len(line)) for line in lines])


def _groups(runs: Sequence[Row], rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Runs that differ in seed and in what the paper varies only, each with the scores of its users."""
    telling = [name for name in telling_columns(rows) if name not in _VARIED]
    groups: dict[str, list[Row]] = {}
    for run, row in zip(runs, rows, strict=True):
        if "beside" not in run["metrics"] or "accuracy" not in row or any(key not in row for key in _VARIED):
            continue
        parts = [f"{name.split('.')[-1]}={row[name]}" for name in telling if name in row]
        name = " ".join([str(row["dataset"]), *parts])
        groups.setdefault(name, []).append(
            {key: row[key] for key in _VARIED}
            | {"dataset": row["dataset"], "split": row["split"], "seed": row["seed"], "strategy": row["strategy"]}
            | {"promise": promise(row), "users": _users(run["clients"], str(row["strategy"]))}
        )
    return dict(sorted(groups.items()))


def _users(clients: pd.DataFrame, strategy: str) -> list[Row]:
    """Client, type and accuracy by method of each user."""
    columns_of = {name: name.removeprefix("accuracy_") for name in map(str, clients) if name.startswith("accuracy_")}
    columns_of["accuracy"] = strategy
    users = []
    for line in clients.to_dict("records"):
        kind = line.get("type")
        scores = {method: line[name] for name, method in columns_of.items() if pd.notna(line.get(name))}
        users.append({"client": line["client"], "type": kind if isinstance(kind, str) else "", "scores": scores})
    return users


def _base(group: Sequence[Row]) -> Row:
    """The setting from which the others differ in one thing: the commonest value of each."""
    return {key: Counter(each[key] for each in group).most_common(1)[0][0] for key in _VARIED}


def _points(group: Sequence[Row], base: Row, key: str) -> list[Row]:
    """Runs that differ from the base in one thing; with more trees, the budget of each or of all stays."""

    def same(each: Row, but: str) -> bool:
        return all(each[k] == base[k] for k in _VARIED if k not in (key, but))

    points = [each for each in group if same(each, key)]
    if key == "strategy.trees" and math.isfinite(base["epsilon"]):
        a_tree = base["epsilon"] / base[key]
        of_equal_trees = [e for e in group if same(e, "epsilon") and math.isclose(e["epsilon"] / e[key], a_tree)]
        points = max(points, of_equal_trees, key=lambda several: len({each[key] for each in several}))
    return points


def _title(name: str, points: Sequence[Row], but: str = "") -> str:
    """The data, what all the points have in common, and what their guarantee would be about."""
    common = {_short(key): {each[key] for each in points} for key in _VARIED if key != but}
    words = [f"{key} {min(values):g}" for key, values in common.items() if len(values) == 1]
    if len(common.get("epsilon", ())) > 1:
        words.append("epsilon in proportion to the trees")
    return "\n".join([", ".join([name, *words]), *sorted({each["promise"] for each in points})])


def _methods(group: Sequence[Row]) -> list[str]:
    found = {method for each in group for user in each["users"] for method in user["scores"]}
    return [method for method in _MARKERS if method in found]


def _types(group: Sequence[Row]) -> list[str]:
    return [*sorted({user["type"] for each in group for user in each["users"]} - {""}), _EVERYBODY]


def _mean(group: Sequence[Row], method: str, kind: str = _EVERYBODY) -> float:
    scores = [
        user["scores"][method]
        for each in group
        for user in each["users"]
        if kind in (user["type"], _EVERYBODY) and method in user["scores"]
    ]
    return float(np.mean(scores)) if scores else math.nan


def _told(run: Row) -> dict[str, Any]:
    """What sources say about the same data set, by source."""
    told = published_on(str(run["dataset"]), str(run["split"]))
    return {source_of(values): values["by_type"] for values in told if "by_type" in values}


def _against(points: Sequence[Row], key: str, words: str, title: str) -> Figure:
    """One panel a type of user and one for all: mean over users, with the range of the seeds."""
    types = _types(points)
    figure = Figure(figsize=(3.1 * len(types), 3.6), layout="constrained")
    for number, kind in enumerate(types, 1):
        axes = figure.add_subplot(1, len(types), number, sharey=figure.axes[0] if figure.axes else None)
        for method in _methods(points):
            values = sorted({each[key] for each in points if math.isfinite(each[key])})
            seeds = [[_mean([each], method, kind) for each in points if each[key] == value] for value in values]
            mean = np.array([np.nanmean(several) for several in seeds])
            spread = [mean - np.array([min(s) for s in seeds]), np.array([max(s) for s in seeds]) - mean]
            axes.errorbar(values, mean, yerr=spread, color=colour_of(method), marker=_MARKERS[method], markersize=4,
                          linewidth=1.2, capsize=2, label=method)  # fmt: skip
            if without := [each for each in points if math.isinf(each[key])]:
                axes.axhline(_mean(without, method, kind), color=colour_of(method), linewidth=0.8, linestyle=":")
        if key == "epsilon":
            log_axis(axes.xaxis)
        else:
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel(words)
        axes.set_title(f"users of type {kind}" if kind != _EVERYBODY else "all users", loc="left", fontsize=9)
        if number == 1:
            axes.set_ylabel("mean accuracy of the users")
    dots = "; dotted: epsilon = inf" if key == "epsilon" and any(math.isinf(each[key]) for each in points) else ""
    figure.suptitle(f"{title}{dots}", x=0.01, ha="left", fontsize=9)
    legend_below(figure)
    return figure


def _by_user(group: Sequence[Row], title: str) -> Figure:
    """Mean accuracy of each user over the seeds, sorted by LRF inside each type of the first seed."""
    users = _user_rows(group)
    methods = _methods(group)
    # A user that fell silent in one of the runs has no score of that method.
    users.sort(key=lambda user: (user["type"], -user.get(methods[0], 0.0)))
    figure = Figure(figsize=(max(6.0, 0.2 * len(users)), 3.8), layout="constrained")
    axes = figure.add_subplot()
    for method in methods:
        axes.plot([user.get(method, math.nan) for user in users], linestyle="none", marker=_MARKERS[method],
                  markersize=4, color=colour_of(method), label=method)  # fmt: skip
    axes.set_xticks(range(len(users)), [f"{user['type']}{user['client']}" for user in users], rotation=90, fontsize=6)
    axes.set_xlabel("user, with its type")
    axes.set_ylabel("accuracy")
    axes.set_title(title, loc="left", fontsize=9)
    legend_below(figure)
    return figure


def _user_rows(group: Sequence[Row]) -> list[Row]:
    """Mean accuracy of each user and type over runs."""
    scores: dict[tuple[str, int], dict[str, list[float]]] = {}
    for each in group:
        for user in each["users"]:
            of_user = scores.setdefault((user["type"], user["client"]), {})
            for method, score in user["scores"].items():
                of_user.setdefault(method, []).append(score)
    return [
        {"client": client, "type": kind, "runs": max(map(len, by_method.values()))}
        | {method: float(np.mean(by_method[method])) for method in _MARKERS if method in by_method}
        for (kind, client), by_method in sorted(scores.items())
        if by_method
    ]


def _short(key: str) -> str:
    return key.removeprefix("strategy.")
