"""What all figures share: one style, files, axes and legends, and what runs and their guarantees are called."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any, TypeVar

import matplotlib
import numpy as np
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import LogLocator, NullFormatter

from dpforest.ledger import rounded_up
from fl_app.figures.looks import Look, look_of

_LEGEND = 8
_LETTER = 0.55 * _LEGEND  # mean width, in points
_EDGE = 0.05  # inches around a figure
_DPI = 150
_LINE = 120  # letters in a line of a title or label
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


def short_trust(trust: str) -> str:
    """Whom a guarantee trusts, in a few words."""
    return trust.split(":")[0]


def short_delta(delta: float) -> str:
    """The delta of a guarantee, or that it needs none."""
    return f"delta {rounded_up(delta)}" if delta else "pure"


def promise(row: dict[str, Any]) -> str:
    """What a guarantee of this run would be about: privacy unit, trust and delta, in a few words."""
    words = [short_unit(row["unit"]), short_trust(row["trust"])]
    if str(row["guarantee"]).startswith("guarantee: none"):
        words.append("no guarantee")
    elif np.isfinite(row["epsilon"]):
        words.append(short_delta(row["delta"]))
    return "; ".join(words)


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


def file_name(*words: str) -> str:
    """Words as one name for a file, without what file systems and shells dislike."""
    return re.sub(r"[^A-Za-z0-9_.+-]+", "-", "-".join(words)).strip("-")[:120]


@contextmanager
def drawing_into(folder: Path) -> Iterator[None]:
    """The style of all figures, for a folder that is made if it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(STYLE):
        yield


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
