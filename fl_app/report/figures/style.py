"""What all figures share: one style, files, axes and legends, and what their guarantees are called."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from textwrap import wrap
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import LogLocator, NullFormatter

from fl_app.report.sections import Section
from fl_app.results.finished import FinishedRun
from fl_app.results.text import short_delta

_LEGEND = 8
_LETTER = 0.55 * _LEGEND  # mean width, in points
_EDGE = 0.05  # inches around a figure
_DPI = 150
_LINE = 120  # letters in a line of a title or label
# Sources' own numbers: grey crosses, whatever the method.
PUBLISHED = "0.45"
EPSILON = "epsilon, total of a client over the run"
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


def guarantee_words(run: FinishedRun) -> str:
    """What a guarantee of this run would be about: privacy unit, trust and delta, in a few words."""
    words = [run.guarantee.unit.name, run.guarantee.trust.model]
    if not run.guarantee.holds:
        words.append("no guarantee")
    elif math.isfinite(run.epsilon):
        words.append(short_delta(run.budget.delta))
    return "; ".join(words)


def one_panel(title: str, size: tuple[float, float]) -> tuple[Figure, Axes]:
    """A figure of one panel under a title."""
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title, loc="left", fontsize=9)
    return figure, axes


def grid_of(panels: int, splits_trust: bool) -> tuple[int, int]:
    """Lines and columns of so many panels: in one line, or, of a unit and a trust model each, in columns of two."""
    across = min(panels, 2) if splits_trust else panels
    return math.ceil(panels / across), across


def most_frequent_line(axes: Axes, section: Section, metric: str) -> None:
    """The level of always predicting the most frequent class or the mean, where it is known."""
    if metric in section.most_frequent:
        axes.axhline(
            section.most_frequent[metric], color=PUBLISHED, linestyle="-.", linewidth=0.8,
            label=f"always {section.guess}", zorder=1.5,
        )  # fmt: skip


def spread(values: Sequence[Sequence[float] | np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Means of several samples, and how far their ends are from these, as error bars want it."""
    mean = np.array([np.nanmean(each) for each in values])
    ends = [mean - [np.nanmin(each) for each in values], [np.nanmax(each) for each in values] - mean]
    return mean, np.maximum(ends, 0)  # rounding may put the mean of equal numbers outside of them


def log_axis(axis: Axis) -> None:
    """A logarithmic axis in plain numbers, with more of them where it spans little; to be called at the end."""
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


def styled() -> AbstractContextManager[None]:
    """The style of all figures, while they are made and written."""
    return matplotlib.rc_context(STYLE)


def save_figure(figure: Figure, path: Path) -> list[Path]:
    """Write a figure as SVG and PNG, as large as its longest titles and labels make it."""
    _wrap_texts(figure)
    figure.set_dpi(_DPI)  # small letters are wider or narrower at another one
    if (engine := figure.get_layout_engine()) is not None:
        # Laid out once for both formats: it takes longer than drawing.
        engine.execute(figure)
        figure.set_layout_engine(None)  # or else each file is drawn twice
    box = figure.get_tightbbox().padded(_EDGE)
    svg, png = (path.with_name(f"{path.name}.{form}") for form in ("svg", "png"))
    figure.savefig(svg, dpi=_DPI, bbox_inches=box, metadata={"Date": None})
    # Packed less than by default: some 10 % larger, in less time.
    figure.savefig(png, dpi=_DPI, bbox_inches=box, pil_kwargs={"compress_level": 2})
    return [svg, png]


def _wrap_texts(figure: Figure) -> None:
    """Break titles and labels of very long names: they would make the figure as wide as they are."""
    for text in figure.findobj(Text):
        lines = text.get_text().split("\n")
        if max(map(len, lines)) > _LINE:
            wrapped = [wrap(line, _LINE, max_lines=2, placeholder=" …") for line in lines]
            text.set_text("\n".join(part for parts in wrapped for part in parts))
