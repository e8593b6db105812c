"""Figures of many runs, in one style: colour-blind safe, the same colour for a method in every figure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import matplotlib
import numpy as np
import pandas as pd
import yaml
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, NullLocator

from fl_app.looks import PUBLISHED, Look, look_of

_LINES = ("-", "--", ":", "-.")
_LEGEND = 8
_LETTER = 0.55 * _LEGEND  # mean width, in points
_EDGE = 0.05  # inches around a figure
_DPI = 150
Item = TypeVar("Item")
METRICS = {"accuracy": "accuracy", "balanced_accuracy": "balanced accuracy", "r2": "R^2", "mse": "MSE"}
STYLE = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "font.size": 9,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "text.parse_math": False,  # names may have dollar signs in them
    "svg.hashsalt": "dpforest",
}


def write_figures(runs: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]], folder: Path) -> list[Path]:
    """Draw what the runs allow: score against epsilon, per-client scores, memorization rates.

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
        SVG and PNG files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    frame = pd.DataFrame(rows)
    frame["label"] = [f"{row['setting']} ({promise(row)})" for row in rows]
    written: list[Path] = []
    with matplotlib.rc_context(STYLE):
        for group in together(rows):
            part = frame[group.here]
            written += save_figure(against_epsilon(part), folder / f"epsilon-{group.name}")
            if alone := _owner_accuracies(group.of(list(zip(runs, rows, strict=True)))):
                written += save_figure(_per_client(alone, group.title), folder / f"alone-{group.name}")
            if any(str(c).startswith("memorization_") and part[c].notna().any() for c in part):
                written += save_figure(_memorization(part), folder / f"memorization-{group.name}")
    return written


@dataclass(frozen=True)
class Together:
    """Runs whose scores may share axes: those of one section."""

    title: str
    name: str
    here: Sequence[bool]

    def of(self, items: Sequence[Item]) -> list[Item]:
        """Their items, of one for each run."""
        return [item for item, wanted in zip(items, self.here, strict=True) if wanted]


def together(rows: Sequence[dict[str, Any]]) -> list[Together]:
    """The rows' sections, which `fl_app.report.gather` found."""
    names = {str(row["section"]): str(row["slug"]) for row in rows}
    return [Together(title, name, [row["section"] == title for row in rows]) for title, name in sorted(names.items())]


def setting_label(row: dict[str, Any], telling: Mapping[str, Sequence[str]]) -> str:
    """A short label: the method and the settings that tell its runs apart (`telling_of_methods`)."""
    names = telling[row["strategy"]]
    values = [f"{name.removeprefix('strategy.').removeprefix('asked_')}={row[name]}" for name in names if name in row]
    return " ".join([str(row["strategy"]), *values])


def short_unit(unit: str) -> str:
    """The privacy unit in a few words."""
    return unit.split(" added")[0].removeprefix("one ")


def promise(row: dict[str, Any]) -> str:
    """What a guarantee of this run would be about: privacy unit, trust and delta, in a few words."""
    words = [short_unit(row["unit"]), row["trust"].split(":")[0]]
    if str(row["guarantee"]).startswith("guarantee: none"):
        words.append("no guarantee")
    elif np.isfinite(row["epsilon"]):
        words.append(f"delta {row['delta']:g}" if row["delta"] else "pure")
    return "; ".join(words)


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


def setting_looks(rows: Sequence[Mapping[Any, Any]]) -> dict[str, Look]:
    """The look of each ``setting`` of the rows: a method's settings share its colour."""
    looks: dict[str, Look] = {}
    seen: dict[Look, int] = {}
    for row in sorted(rows, key=lambda row: str(row["setting"])):
        if row["setting"] not in looks:
            own = look_of(row)
            looks[row["setting"]] = own.variant(seen.get(own, 0))
            seen[own] = seen.get(own, 0) + 1
    return looks


def epsilon_axis(axes: Axes, epsilons: Iterable[float]) -> None:
    """A logarithmic axis with a tick at each epsilon that was run or published."""
    finite = sorted({float(epsilon) for epsilon in epsilons if np.isfinite(epsilon)})
    axes.set_xscale("log")
    axes.set_xticks(finite, [f"{epsilon:g}" for epsilon in finite])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("epsilon, total of a client over the run")


def log_axis(axis: Axis) -> None:
    """A logarithmic axis in plain numbers, with more of them where it spans little; to be called when all is drawn."""
    axis.axes.set(**{"xscale" if axis is axis.axes.xaxis else "yscale": "log"})
    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < 300 else (1,)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def legend_below(figure: Figure) -> None:
    """One legend for all panels, below them; the figure grows with it."""
    entries: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    longest = max(map(len, entries), default=0)
    columns = min(max(int(72 * figure.get_figwidth() / (_LETTER * longest + 40)), 1), 2)
    figure.set_figheight(figure.get_figheight() + 0.17 * max(math.ceil(len(entries) / columns) - 2, 0))
    figure.legend(entries.values(), entries.keys(), loc="outside lower left", ncols=columns, fontsize=_LEGEND)


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


def published(name: str) -> dict[str, Any]:
    """Figures that a source published, with where they stand."""
    text = (Path(__file__).parent / "published" / f"{name}.yaml").read_text(encoding="utf-8")
    plain: dict[str, Any] = yaml.safe_load(text)
    return plain


def published_on(dataset: str, split: str) -> list[dict[str, Any]]:
    """What all sources say about a data set and split.

    ``mind``, where it stands, is what keeps a source's numbers from being the same thing as ours, in a few words.
    """
    names = sorted(file.stem for file in (Path(__file__).parent / "published").glob("*.yaml"))
    return [told for told in map(published, names) if (told["dataset"], told["split"]) == (dataset, split)]


def source_of(told: Mapping[str, Any]) -> str:
    """The name of a source, with what one must mind about its numbers."""
    return f"{told['source']} ({told['mind']})" if "mind" in told else str(told["source"])


def published_for(dataset: str, split: str) -> list[list[str]]:
    """`published_on` as lines of a table: source, method, epsilon, metric and value."""
    lines = []
    for told in published_on(dataset, split):
        source = source_of(told)
        for name, curve in told.get("accuracy", {}).items():
            label = f"depth {name}" if isinstance(name, int) else str(name)
            lines += [[source, label, f"{at:g}", "accuracy", f"{value:g}"] for at, value in curve.items()]
        for name, value in told.get("without_privacy", {}).items():
            lines.append([source, str(name), "no privacy", "accuracy", f"{value:g}"])
        for name, curve in told.get("mse", {}).items():
            lines += [[source, str(name), f"round {at}", "MSE", f"{value:g}"] for at, value in curve.items()]
        for name, value in told.get("megabytes", {}).items():
            lines.append([source, str(name), "", "MB sent", f"{value:g}"])
    return lines


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


def file_name(*words: str) -> str:
    """Words as one name for a file, without what file systems and shells dislike."""
    return re.sub(r"[^A-Za-z0-9_.+-]+", "-", "-".join(words)).strip("-")[:120]


def save_figure(figure: Figure, path: Path) -> list[Path]:
    """Write a figure as SVG and PNG, as large as its longest titles and labels make it."""
    figure.set_dpi(_DPI)  # small letters are wider or narrower at another one
    if (engine := figure.get_layout_engine()) is not None:
        # Laid out once for both formats: it takes longer than drawing.
        engine.execute(figure)
        figure.set_layout_engine(None)  # or else each file is drawn twice
    box = figure.get_tightbbox().padded(_EDGE)
    paths = [path.with_name(f"{path.name}.svg"), path.with_name(f"{path.name}.png")]
    for target in paths:
        metadata = {"Date": None} if target.suffix == ".svg" else None
        figure.savefig(target, dpi=_DPI, bbox_inches=box, metadata=metadata)
    return paths
