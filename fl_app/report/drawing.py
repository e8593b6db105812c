"""All figures of a section: drawn as SVG and PNG into a folder, and put in order for the page."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from joblib import Parallel, cpu_count, delayed

from dpforest.ledger import rounded_up
from fl_app.figures.base import drawing_into, save_figure
from fl_app.figures.epsilon import write_figures
from fl_app.figures.federation import write_federation_figures
from fl_app.figures.ldp import write_ldp_figures
from fl_app.figures.rounds import write_round_figures
from fl_app.figures.settings import write_setting_figures
from fl_app.figures.users import write_user_figures
from fl_app.report.answer import Answer
from fl_app.report.gather import OPEN, Family, Section
from fl_app.report.plots import answer_picture, client_boxes, confusion_matrices, costs, settings_by_epsilon

# Each is given runs, their rows and a folder, and returns the files that it wrote.
WRITERS = (write_figures, write_ldp_figures, write_user_figures)
_CURVES = 12  # that a figure of learning curves can show
_EXPLAINED = 4  # methods whose rounds and importances are shown, the best ones

# Where a figure goes and what it shows, by how its file name begins (the longest beginning decides), in order.
_PLACES = {
    "answer": ("answer", "Methods with a guarantee, the best of each epsilon first, larger and with its score; bars "
               "are 95 % intervals over seeds, by bootstrap; one seed has none. An ≈ says that no difference from "
               "another method is shown."),
    "epsilon": ("score", "Mean over seeds and folds, bars from the lowest to the highest. Hollow: no valid guarantee. "
                "Grey crosses: published values with their source."),
    "convergence": ("learning", "Score after each round, and after the bytes sent so far, of test rows if nothing else "
                    "is said; bands span the seeds. The lighter, the smaller epsilon."),
    "rounds": ("learning", "Scores over rounds by epsilon; grey: what a source claims. Of many methods, the best four "
               "are shown."),
    "clients": ("clients", "Each box: the clients' scores (means over seeds); the filled mark is the worst."),
    "alone": ("clients", "What each client reaches alone, without privacy."),
    "labels": ("clients", "How the classes are spread over the clients (non-IID), as dealt in the first run. Private "
               "facts, read from the data on this machine and from no run."),
    "confusion": ("confusion", "Share of each true class, in per cent; runs of all seeds together."),
    "importance": ("importance", "Mean decrease in impurity, of what clients sent; bars span the seeds. Of many "
                   "methods, the best four are shown; fl_app.compare --figures draws all."),
    "importance-map": ("importance", "The same as a heat map over epsilon, features in the order of the data."),
    "memorization": ("memorization", "Share of clients whose tree does better on its own test rows than on anyone "
                     "else's (Favero et al. 2024, section V-B)."),
    "attack": ("joined", "Mean score against the share of clients with bad labels or trees; bars span the seeds."),
    "rows": ("joined", "Mean score against the rows of a client times epsilon; bars span the seeds, and each number of "
             "clients has a line of its own."),
    "ldp": ("settings", "Metrics and sizes of the noise at each level, with what the document says."),
    "users": ("clients", "Users' own forests against what differs between runs, and each user."),
    "costs": ("cost", "Mean score of each method against bytes and seconds, a mark an epsilon. Hollow: no valid "
              "guarantee. Grey crosses: published values."),
}  # fmt: skip


@dataclass(frozen=True)
class Drawn:
    """A figure in its place."""

    place: str
    caption: str
    svg: Path
    order: int

    @property
    def png(self) -> Path:
        """The same figure as PNG."""
        return self.svg.with_suffix(".png")


def draw(answers: Sequence[Answer], folder: Path) -> list[list[Drawn]]:
    """Draw what the runs of each section allow into a folder of its own, which is made if it is not there.

    Each processor draws some of the figures: drawing takes most of a report's time.
    """
    drawings = [(number, drawing) for number, each in enumerate(answers) for drawing in _drawings(each, folder)]
    parallel = Parallel(
        n_jobs=cpu_count(), batch_size=1, max_nbytes=None, initializer=_end_with_parent, initargs=(os.getpid(),)
    )
    files = parallel(drawing for _, drawing in drawings)
    written: list[list[Path]] = [[] for _ in answers]
    for (number, _), paths in zip(drawings, files, strict=True):
        written[number] += paths
    return [_in_order(paths) for paths in written]


def _end_with_parent(parent: int) -> None:
    """Let a worker end soon after the process that started it: joblib's wait for good where that one was killed."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _drawings(answer: Answer, folder: Path) -> list[Any]:
    """What is to be drawn of a section, in parts that do not wait for each other."""
    section, own = answer.section, folder / answer.section.slug
    comparison = delayed(_draw_comparison)(answer, own)
    if section.metric not in section.frame:
        return [comparison]
    return [
        delayed(write_round_figures)(*_few_settings(section), own),  # takes longest
        comparison,
        delayed(write_federation_figures)(*_few_curves(section), own),
        *(delayed(write)(section.runs, section.rows, own) for write in WRITERS),
    ]


def _draw_comparison(answer: Answer, folder: Path) -> list[Path]:
    """The figures that only a report has."""
    section = answer.section
    written: list[Path] = []
    with drawing_into(folder):
        if answer.verdicts:
            written += save_figure(answer_picture(answer), folder / "answer")
        if (boxes := client_boxes(section)) is not None:
            written += save_figure(boxes, folder / "clients")
        by_epsilon = settings_by_epsilon(section)
        if section.metric in section.frame:
            written += save_figure(costs(section), folder / "costs")
            for epsilon in (nearest_to_one(by_epsilon), OPEN):
                if epsilon in by_epsilon and (matrices := confusion_matrices(section, epsilon)) is not None:
                    written += save_figure(matrices, folder / f"confusion-{epsilon.replace(' ', '-')}")
    return written


def draw_family(family: Family, folder: Path) -> list[Drawn]:
    """Draw what joins the sections of a family; nothing where they say nothing together."""
    return _in_order(write_setting_figures(family.title, family.rows, folder))


def _in_order(written: Sequence[Path]) -> list[Drawn]:
    return sorted((_placed(path) for path in written if path.suffix == ".svg"), key=lambda drawn: drawn.order)


def nearest_to_one(epsilons: Sequence[str] | dict[str, Any]) -> str:
    """The finite epsilon nearest to 1 on a logarithmic scale; empty without one."""
    finite = [text for text in epsilons if text != OPEN and math.isfinite(float(text))]
    return min(finite, key=lambda text: abs(math.log(float(text))), default="")


def _few_settings(section: Section) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The runs of the settings with the highest means: each of them has figures of its own."""
    best = section.frame.groupby("setting")[section.metric].mean().sort_values(ascending=False).index[:_EXPLAINED]
    return _pairs(section, [row["setting"] in best for row in section.rows])


def _few_curves(section: Section) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """All runs; of many settings and epsilons only the epsilon nearest to 1 and no privacy."""
    frame = section.frame
    if frame.groupby(["setting", "epsilon"]).ngroups > _CURVES:
        middle = nearest_to_one([rounded_up(epsilon) for epsilon in frame["epsilon"].unique()])
        shown = [rounded_up(row["epsilon"]) == middle or math.isinf(row["epsilon"]) for row in section.rows]
    else:
        shown = [True] * len(section.rows)
    return _pairs(section, shown)


def _pairs(section: Section, shown: Sequence[bool]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    pairs = [pair for pair, wanted in zip(zip(section.runs, section.rows, strict=True), shown, strict=True) if wanted]
    return [run for run, _ in pairs], [row for _, row in pairs]


def _placed(svg: Path) -> Drawn:
    beginnings = [name for name in _PLACES if svg.stem == name or svg.stem.startswith(f"{name}-")]
    if not beginnings:
        return Drawn("more", svg.stem.replace("-", " "), svg, len(_PLACES))
    beginning = max(beginnings, key=len)
    return Drawn(*_PLACES[beginning], svg, list(_PLACES).index(beginning))
