"""Figures and tables of methods that give each user a model: what Liu et al. show in tables 3 to 5, figures 2 to 5."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fl_app.report.figures.style import guarantee_words, legend_below, log_axis, one_panel, spread
from fl_app.report.papers.published import published_on, source_of
from fl_app.report.sections import Section
from fl_app.results.finished import FinishedRun
from fl_app.results.rows import distinct_columns
from fl_app.terminal.tables import columns
from strategies.registry import style_of

# What the paper varies, one at a time: its figures 2 to 5.
_VARIED = {
    "strategy.k": "similar users k",
    "strategy.trees": "trees of a forest",
    "strategy.depth": "largest depth",
    "epsilon": "epsilon, budget of the run",
}
_MARKERS = {"lrf": "s", "pp_fgrf": "^", "pp_fprf": "o"}
_EVERYBODY = "all"

Row = dict[str, Any]


@dataclass(frozen=True)
class _User:
    """A user: number and type, and accuracy by method."""

    client: int
    kind: str
    scores: Mapping[str, float]


@dataclass(frozen=True)
class _Point:
    """A run with its users, and its values of what the paper varies."""

    run: FinishedRun
    users: Sequence[_User]
    at: Mapping[str, float]


def user_figures(section: Section) -> Iterator[tuple[str, Figure | list[Row]]]:
    """Accuracy against what differs between the runs, and of each user, this also as a table."""
    for name, group in _groups(section).items():
        base = _base(group)
        for key, words in _VARIED.items():
            points = _points(group, base, key)
            if len({each.at[key] for each in points}) > 1:
                yield f"{_short(key)}-{name}", _against(points, key, words, _title(name, points, but=key))
        at_base = [each for each in group if each.at == base]
        yield f"each-{name}", _by_user(at_base, _title(name, at_base))
        yield f"each-{name}", _user_rows(at_base)


def user_table(section: Section, width: int | None = None) -> str:
    """Mean accuracy over users and seeds of each type of user, a line a setting and method; empty without such runs."""
    lines = []
    groups = _groups(section)
    for name, group in groups.items():
        settings: dict[tuple[float, ...], list[_Point]] = {}
        for each in group:
            settings.setdefault(tuple(each.at.values()), []).append(each)
        types = _types(group)
        for setting, several in sorted(settings.items()):
            for method in _methods(several):
                scores = [_mean(several, method, kind) for kind in types]
                lines.append([name, *(f"{value:g}" for value in setting), str(len(several)), method]
                             + [f"{score:.3f}" for score in scores])  # fmt: skip
        for values in published_on(section.dataset, section.split):
            lines += [
                [name, "", "", "", "", "", f"{method}, {source_of(values)}", *(f"{scores[kind]:.3f}" for kind in types)]
                for method, scores in values.get("by_type", {}).items()
                if set(types) <= set(scores)
            ]
    if not lines:
        return ""
    most = max(map(len, lines))
    kinds = max(map(_types, groups.values()), key=len)
    header = ["users of", *(_short(key) for key in _VARIED), "runs", "method", *kinds]
    return columns(header, [line + [""] * (most - len(line)) for line in lines], width)


def _groups(section: Section) -> dict[str, list[_Point]]:
    """Runs that differ in seed and in what the paper varies only; those without methods that ran along are left out."""
    distinct = [name for name in distinct_columns([run.row for run in section.runs]) if name not in _VARIED]
    groups: dict[str, list[_Point]] = {}
    for run in section.runs:
        varied: list[Any] = [run.row.get(key) for key in _VARIED]
        if not (_comparison_methods(run) and "accuracy" in run.metrics and all(map(_is_number, varied))):
            continue
        parts = [f"{name.split('.')[-1]}={run.row[name]}" for name in distinct if name in run.row]
        point = _Point(run, _users(run), dict(zip(_VARIED, map(float, varied), strict=True)))
        groups.setdefault(" ".join([run.dataset, *parts]), []).append(point)
    return dict(sorted(groups.items()))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not math.isnan(value)


def _comparison_methods(run: FinishedRun) -> dict[str, str]:
    """The columns of clients with the accuracy of other methods, and which method's it is."""
    return {name: name.removeprefix("accuracy_") for name in map(str, run.clients) if name.startswith("accuracy_")}


def _users(run: FinishedRun) -> list[_User]:
    columns_of = {**_comparison_methods(run), "accuracy": run.method}
    users = []
    for line in run.clients.to_dict("records"):
        kind = line.get("type")
        scores = {method: line[name] for name, method in columns_of.items() if pd.notna(line.get(name))}
        users.append(_User(line["client"], kind if isinstance(kind, str) else "", scores))
    return users


def _base(group: Sequence[_Point]) -> dict[str, float]:
    """The setting from which the others differ in one thing: the commonest value of each."""
    return {key: Counter(each.at[key] for each in group).most_common(1)[0][0] for key in _VARIED}


def _points(group: Sequence[_Point], base: Mapping[str, float], key: str) -> list[_Point]:
    """Runs that differ from the base in one thing; with more trees, the budget of each or of all stays."""

    def same(each: _Point, but: str) -> bool:
        return all(each.at[k] == base[k] for k in _VARIED if k not in (key, but))

    points = [each for each in group if same(each, key)]
    if key == "strategy.trees" and math.isfinite(base["epsilon"]):
        a_tree = base["epsilon"] / base[key]
        of_equal_trees = [e for e in group if same(e, "epsilon") and math.isclose(e.at["epsilon"] / e.at[key], a_tree)]
        points = max(points, of_equal_trees, key=lambda several: len({each.at[key] for each in several}))
    return points


def _title(name: str, points: Sequence[_Point], but: str = "") -> str:
    """The data, what all the points have in common, and what their guarantee would be about."""
    common = {_short(key): {each.at[key] for each in points} for key in _VARIED if key != but}
    words = [f"{key} {min(values):g}" for key, values in common.items() if len(values) == 1]
    if len(common.get("epsilon", ())) > 1:
        words.append("epsilon in proportion to the trees")
    return "\n".join([", ".join([name, *words]), *sorted({guarantee_words(each.run) for each in points})])


def _methods(group: Sequence[_Point]) -> list[str]:
    found = {method for each in group for user in each.users for method in user.scores}
    return [method for method in _MARKERS if method in found]


def _types(group: Sequence[_Point]) -> list[str]:
    return [*sorted({user.kind for each in group for user in each.users} - {""}), _EVERYBODY]


def _mean(group: Sequence[_Point], method: str, kind: str = _EVERYBODY) -> float:
    scores = [
        user.scores[method]
        for each in group
        for user in each.users
        if kind in (user.kind, _EVERYBODY) and method in user.scores
    ]
    return float(np.mean(scores)) if scores else math.nan


def _against(points: Sequence[_Point], key: str, words: str, title: str) -> Figure:
    """One panel a type of user and one for all: mean over users, with the range of the seeds."""
    types = _types(points)
    figure = Figure(figsize=(3.1 * len(types), 3.6), layout="constrained")
    for number, kind in enumerate(types, 1):
        axes = figure.add_subplot(1, len(types), number, sharey=figure.axes[0] if figure.axes else None)
        for method in _methods(points):
            colour = style_of(method, {}).colour
            values = sorted({each.at[key] for each in points if math.isfinite(each.at[key])})
            seeds = [[_mean([each], method, kind) for each in points if each.at[key] == value] for value in values]
            mean, ends = spread(seeds)
            axes.errorbar(values, mean, yerr=ends, color=colour, marker=_MARKERS[method], markersize=4,
                          linewidth=1.2, capsize=2, label=method)  # fmt: skip
            if without := [each for each in points if math.isinf(each.at[key])]:
                axes.axhline(_mean(without, method, kind), color=colour, linewidth=0.8, linestyle=":")
        if key == "epsilon":
            log_axis(axes.xaxis)
        else:
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel(words)
        axes.set_title(f"users of type {kind}" if kind != _EVERYBODY else "all users", loc="left", fontsize=9)
        if number == 1:
            axes.set_ylabel("mean accuracy of the users")
    dots = "; dotted: epsilon = inf" if key == "epsilon" and any(math.isinf(each.at[key]) for each in points) else ""
    figure.suptitle(f"{title}{dots}", x=0.01, ha="left", fontsize=9)
    legend_below(figure)
    return figure


def _by_user(group: Sequence[_Point], title: str) -> Figure:
    """Mean accuracy of each user over the seeds, sorted by LRF inside each type of the first seed."""
    users = _user_rows(group)
    methods = _methods(group)
    # A user that fell silent in one of the runs has no score of that method.
    users.sort(key=lambda user: (user["type"], -user.get(methods[0], 0.0)))
    figure, axes = one_panel(title, (max(6.0, 0.2 * len(users)), 3.8))
    for method in methods:
        axes.plot([user.get(method, math.nan) for user in users], linestyle="none", marker=_MARKERS[method],
                  markersize=4, color=style_of(method, {}).colour, label=method)  # fmt: skip
    axes.set_xticks(range(len(users)), [f"{user['type']}{user['client']}" for user in users], rotation=90, fontsize=6)
    axes.set_xlabel("user, with its type")
    axes.set_ylabel("accuracy")
    legend_below(figure)
    return figure


def _user_rows(group: Sequence[_Point]) -> list[Row]:
    """Mean accuracy of each user and type over runs."""
    scores: dict[tuple[str, int], dict[str, list[float]]] = {}
    for each in group:
        for user in each.users:
            of_user = scores.setdefault((user.kind, user.client), {})
            for method, score in user.scores.items():
                of_user.setdefault(method, []).append(score)
    return [
        {"client": client, "type": kind, "runs": max(map(len, by_method.values()))}
        | {method: float(np.mean(by_method[method])) for method in _MARKERS if method in by_method}
        for (kind, client), by_method in sorted(scores.items())
        if by_method
    ]


def _short(key: str) -> str:
    return key.removeprefix("strategy.")
