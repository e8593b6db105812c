"""The answer in one picture, clients, confusion and cost."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dpforest.ledger import rounded_up
from fl_app.report.answer import Answer, Verdict
from fl_app.report.figures.style import EPSILON, PUBLISHED, grid_of, legend_below, log_axis, most_frequent_line
from fl_app.report.papers.published import published_on
from fl_app.report.sections import Section, nearest_to_one
from fl_app.report.statistics import Interval
from fl_app.results.finished import OPEN, PRIVATE
from strategies.method import Scope
from strategies.style import Style

_BOXES = 36  # in one row of axes
_MATRICES = 6
_CELL, _NUMBERED = 0.24, 12  # inches of a cell of a confusion matrix; most classes for which it has its number
_FLOOR = -0.5  # of scores by which methods are compared: what is worse is shown here
_LONGEST = 24  # characters of a class's name


def answer_picture(answer: Answer) -> Iterator[tuple[str, Figure]]:
    """The methods with a guarantee at each epsilon with their intervals, one panel a unit, or a unit and trust model.

    The highest has its mean. Lines: what was reached without privacy, and by always predicting one class.
    """
    if not answer.verdicts:
        return
    section = answer.section
    panels = list(dict.fromkeys(verdict.panel for verdict in answer.verdicts))
    epsilons = {panel: _epsilons(answer, panel) for panel in panels}
    most = max(map(len, epsilons.values()))
    down, across = grid_of(len(panels), section.splits_trust)
    figure = Figure(figsize=(max(5.6, (1.1 + 1.15 * most) * across), 0.6 + 3.6 * down), layout="constrained")
    for number, panel in enumerate(panels, 1):
        axes = figure.add_subplot(down, across, number, sharey=figure.axes[0] if number > 1 else None)
        here = {verdict.epsilon: verdict for verdict in answer.verdicts if verdict.panel == panel}
        for place, epsilon in enumerate(epsilons[panel]):
            if epsilon in here:
                _verdict(axes, place, here[epsilon])
            else:
                _nothing(axes, place)
        _levels(axes, answer)
        axes.set_xticks(range(len(epsilons[panel])), [rounded_up(epsilon) for epsilon in epsilons[panel]])
        axes.set_xlim(-0.6, len(epsilons[panel]) - 0.4)
        axes.grid(False, axis="x")
        axes.margins(y=0.15)
        axes.set_xlabel(EPSILON)
        axes.set_ylabel(section.metric.label)
        axes.set_title(f"per {panel}".replace(", ", ",\n"), loc="left", fontsize=9)
    figure.suptitle(f"{section.title}: methods with a guarantee", x=0.01, ha="left", fontsize=10)
    legend_below(figure)
    yield "", figure


def _epsilons(answer: Answer, panel: str) -> list[float]:
    """Those on a panel's axis: its own; where trust models have panels, those of all, so that a gap is seen."""
    of_all = answer.section.splits_trust
    return sorted({verdict.epsilon for verdict in answer.verdicts if of_all or verdict.panel == panel})


def _levels(axes: Axes, answer: Answer) -> None:
    """Lines to compare with: the best without privacy, the best of each client alone, and always predicting one class.

    They lie behind all marks and numbers.
    """
    own = next((other for other in answer.references if other.scope is Scope.ALONE), None)
    for reference, line in ((answer.reference, "--"), (own, ":")):
        if reference is not None:
            whose = ", each client by itself" if reference is own else f" ({reference.trust})"
            axes.axhline(
                reference.score.mean, color=PUBLISHED, linestyle=line, linewidth=1, zorder=1.5,
                label=f"without privacy: {reference.setting}{whose}",
            )  # fmt: skip
    most_frequent_line(axes, answer.section, answer.section.metric.name)


def _nothing(axes: Axes, place: int) -> None:
    """Say that no method with a guarantee has a score here, so that a gap is not taken for a fault of the figure."""
    axes.text(place, 0.5, "no score", transform=axes.get_xaxis_transform(), color=PUBLISHED, ha="center", va="center")


def _verdict(axes: Axes, place: int, verdict: Verdict) -> None:
    section = verdict.section
    width = min(0.8 / len(verdict.ranking), 0.16)
    for number, contender in enumerate(verdict.ranking):
        at = place + (number - (len(verdict.ranking) - 1) / 2) * width
        score, style = contender.score, section.panel_styles[contender.name]
        terms = [contender.delta] if section.splits_trust else [contender.delta, contender.trust]
        # What lies far below 0, as an R^2 can, is at the end of the axis and points down: no mark takes all of it.
        low, mean, high = (max(end, _FLOOR) for end in _ends(score))
        spread = None if score.n < 2 else [[max(mean - low, 0)], [max(high - mean, 0)]]
        axes.errorbar(
            at, mean, yerr=spread, color=style.colour, marker=style.marker if score.mean > _FLOOR else "v",
            markersize=8 if not number else 5, capsize=2, linewidth=1.2, linestyle="none",
            label=f"{contender.name} ({'; '.join(terms)})",
        )  # fmt: skip
        if not number:
            sign = "" if not verdict.ties else "≈ "
            axes.annotate(
                f"{sign}{score.mean:z.2f}", (at, high), xytext=(0, 7), textcoords="offset points", ha="center",
                fontsize=9, fontweight="bold", color=style.colour, zorder=1.6,  # behind the bars of its neighbours
                bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 0.5},
            )  # fmt: skip


def _ends(score: Interval) -> tuple[float, float, float]:
    """The mean between the ends that are shown; of one seed all the same."""
    low, high = score.spread if score.n > 1 else (score.mean, score.mean)
    return low, score.mean, high


def client_boxes(section: Section) -> Iterator[tuple[str, Figure]]:
    """How well the model serves each client: a box of the clients' means over seeds, by setting and epsilon."""
    metric = section.client_metric
    if metric.name not in section.clients:
        return
    groups = []
    for epsilon, runs in section.by_epsilon.items():
        for setting, members in runs.groupby("setting"):
            own = section.clients[section.clients["number"].isin(members.index)]
            scores = own.groupby(["assignment", "client"])[metric.name].mean().dropna()
            if len(scores) > 1:
                groups.append((epsilon, str(setting), scores.to_numpy()))
    if not groups:
        return
    lines = math.ceil(len(groups) / _BOXES)
    figure = Figure(figsize=(min(9.5, 2.4 + 0.32 * min(len(groups), _BOXES)), 3.3 * lines + 0.5), layout="constrained")
    for line in range(lines):
        first = figure.axes[0] if line else None
        axes = figure.add_subplot(lines, 1, line + 1, sharey=first)
        boxes = groups[line * _BOXES : (line + 1) * _BOXES]
        _boxes(axes, boxes, section.styles, section.labels, np.min if metric.more_is_better else np.max)
        axes.set_ylabel(f"{metric.label} of a client")
    figure.axes[-1].set_xlabel(EPSILON)
    figure.suptitle(f"{section.title}: clients", x=0.01, ha="left", fontsize=9)
    legend_below(figure)
    yield "", figure


def _boxes(
    axes: Axes,
    groups: Sequence[tuple[str, str, np.ndarray]],
    styles: Mapping[str, Style],
    labels: dict[str, str],
    worst: Callable[[np.ndarray], float],
) -> None:
    at, places, before = 0.0, [], None
    by_setting: dict[str, tuple[list[float], list[np.ndarray]]] = {}
    for epsilon, setting, scores in groups:
        at += 1.0 if epsilon == before else 1.8
        before = epsilon
        places.append((epsilon, at))
        positions, boxes = by_setting.setdefault(setting, ([], []))
        positions.append(at)
        boxes.append(scores)
    for setting, (positions, boxes) in by_setting.items():
        style = styles[setting]
        colours = {"color": style.colour, "linewidth": 1.1}
        axes.boxplot(
            boxes, positions=positions, widths=0.7, boxprops=colours, whiskerprops=colours, capprops=colours,
            medianprops=colours | {"linewidth": 2},
            flierprops={"marker": style.marker, "markersize": 3, "markeredgecolor": style.colour},
        )  # fmt: skip
        axes.plot(positions, [worst(scores) for scores in boxes], color=style.colour, marker=style.marker, markersize=4,
                  linestyle="none", label=labels[setting])  # fmt: skip
    names = list(dict.fromkeys(epsilon for epsilon, _ in places))
    middles = [float(np.mean([x for epsilon, x in places if epsilon == name])) for name in names]
    axes.set_xticks(middles, names)
    axes.grid(False, axis="x")


def confusion_matrices(section: Section) -> Iterator[tuple[str, Figure]]:
    """Where the best settings err, at the epsilon nearest to 1 and without privacy."""
    nearest = nearest_to_one([float(epsilon) for epsilon in section.by_epsilon if epsilon != OPEN])
    for epsilon in (rounded_up(nearest) if nearest else "", OPEN):
        if epsilon in section.by_epsilon and (figure := _matrices(section, epsilon)) is not None:
            yield epsilon, figure


def _matrices(section: Section, epsilon: str) -> Figure | None:
    """Where the best settings at one epsilon err: rows add up to 100 per cent; seeds are added up."""
    runs = section.by_epsilon[epsilon]
    matrices = {}
    ordered = runs.groupby("setting")[section.metric.name].mean().sort_values(ascending=False)
    for setting in ordered.index[:_MATRICES]:
        members = [section.runs[number].metrics for number in runs.index[runs["setting"] == setting]]
        found = [metrics for metrics in members if "confusion" in metrics]
        if found:
            counts = np.sum([np.array(metrics["confusion"], dtype=float) for metrics in found], axis=0)
            matrices[str(setting)] = counts, found[0]["classes"]
    if not matrices:
        return None
    across = min(3, len(matrices))
    down = math.ceil(len(matrices) / across)
    # All have the same classes: their names stand at the left and below only.
    labels = plain(next(iter(matrices.values()))[1])
    settings = section.labels
    classes = len(labels)
    side = max(1.7, classes * (_CELL if classes <= _NUMBERED else 0.6 * _CELL))
    names = 0.055 * max(map(len, labels))
    size = (across * (side + 0.2) + names + 1.4, down * (side + 0.4) + names + 0.9)
    figure = Figure(figsize=size, layout="constrained")
    for number, (setting, (counts, _)) in enumerate(matrices.items()):
        axes = figure.add_subplot(down, across, number + 1)
        share = 100 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        image = axes.imshow(share, cmap="viridis", vmin=0, vmax=100, aspect="auto")
        if classes <= _NUMBERED:
            for i, j in np.ndindex(*share.shape):
                # Not quite black and white: the page replaces those two by the colours of its theme.
                ink = "#010101" if share[i, j] > 60 else "#fefefe"
                axes.text(j, i, f"{share[i, j]:.0f}", ha="center", va="center", color=ink, fontsize=6)
        first, last = number % across == 0, number + across >= len(matrices)
        axes.set_xticks(range(classes), labels if last else [], rotation=60, ha="right", fontsize=6)
        axes.set_yticks(range(classes), labels if first else [], fontsize=6)
        axes.grid(False)
        axes.set_title("\n".join(textwrap.wrap(settings[setting], 34)), fontsize=7)
        if first:
            axes.set_ylabel("true class", fontsize=7)
        if last:
            axes.set_xlabel("predicted class", fontsize=7)
    figure.colorbar(image, ax=figure.axes, label="share of the true class, %", shrink=0.7)
    where = epsilon if epsilon == OPEN else f"epsilon {epsilon}"
    figure.suptitle(f"{section.title}: {where}", x=0.01, ha="left", fontsize=9)
    return figure


def costs(section: Section) -> Iterator[tuple[str, Figure]]:
    """Score against bytes and against seconds of a run."""
    labels, metric = section.labels, section.metric
    frame = section.frame.assign(bytes=section.frame["bytes_down"] + section.frame["bytes_up"])
    figure = Figure(figsize=(9.2, 3.8), layout="constrained")
    for number, (column, label, unit) in enumerate(
        (("bytes", "MB sent in a run, down and up, all clients", 1e6), ("seconds", "seconds of a run", 1.0)), 1
    ):
        axes = figure.add_subplot(1, 2, number, sharey=figure.axes[0] if number > 1 else None)
        for setting, style in section.styles.items():
            for state, runs in frame[frame["setting"] == setting].groupby("state"):
                mean = runs.groupby("epsilon")[[column, metric.name]].mean().dropna()
                axes.plot(
                    mean[column] / unit, mean[metric.name], color=style.colour, marker=style.marker, markersize=5,
                    markerfacecolor=style.colour if state == PRIVATE else "white", linestyle="none",
                    label=labels[setting],
                )  # fmt: skip
        if column == "bytes":
            for size in sorted(frame["bytes_of_rows"].dropna().unique())[:2] if "bytes_of_rows" in frame else ():
                axes.axvline(size / unit, color=PUBLISHED, linestyle=":", linewidth=0.8, label="sending the raw rows")
            _published_costs(axes, section)
        log_axis(axes.xaxis)
        axes.set_xlabel(label)
        axes.set_ylabel(metric.label)
    figure.suptitle(f"{section.title}: cost; a mark an epsilon, hollow: no guarantee", x=0.01, ha="left", fontsize=9)
    legend_below(figure)
    yield "", figure


def _published_costs(axes: Axes, section: Section) -> None:
    """What sources say about megabytes and the accuracy that they bought."""
    if section.metric.name != "accuracy":
        return
    for source in published_on(section.dataset, section.split):
        for mark, (name, megabytes) in zip("x+12", source.get("megabytes", {}).items(), strict=False):
            reached = list(source["accuracy"].get(name, {}).values()) or [source["without_privacy"][name]]
            axes.plot([megabytes] * len(reached), reached, mark, color=PUBLISHED, markersize=5,
                      label=f"{source['source']}, {name}")  # fmt: skip


def plain(names: Sequence[str]) -> list[str]:
    """Names for an axis: what is very long is cut."""
    return [str(name) if len(str(name)) <= _LONGEST else f"{str(name)[: _LONGEST - 1]}…" for name in names]
