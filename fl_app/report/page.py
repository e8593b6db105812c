"""Putting the page together: the answer first, then what it rests on."""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml
from jinja2 import Environment, PackageLoader
from markupsafe import Markup, escape

from dpforest.errors import printable
from dpforest.files import written_whole
from dpforest.ledger import rounded_up
from fl_app.report.answer import NONE_FINISHED, Answer, across, answer
from fl_app.report.comparison import comparison
from fl_app.report.drawing import Placed, draw, draw_family
from fl_app.report.figures.catalogue import CATALOGUE, TABLES
from fl_app.report.figures.rounds import stability_rows
from fl_app.report.gather import Gathered, gather
from fl_app.report.ledgers import Disclosure, disclosures
from fl_app.report.papers import compared as papers
from fl_app.report.papers.compared import compared
from fl_app.report.papers.published import citations, published_for
from fl_app.report.sections import Section
from fl_app.report.svg import inline
from fl_app.report.wanted import HEADER, Sought, Wanted, sought
from fl_app.results.finished import FinishedRun, flat
from fl_app.results.text import human_bytes
from strategies.metrics import metrics_of

REPORT = "report.html"
FIGURES = "figures"
JOINED = "joined"  # folder of the figures that join sections
_FIGURE = re.compile(rf'href="{FIGURES}/([A-Za-z0-9_.+-]+)/([A-Za-z0-9_.+-]+\.(?:svg|png))"')
# Columns of the table of all runs before and after the metrics: key of a row, heading, whether it is a number.
_SETTING = (
    ("setting", "method", False), ("number", "section", True), ("epsilon", "epsilon", True), ("delta", "delta", True),
    ("state", "guarantee", False), ("per", "unit", False), ("seed", "seed", True), ("fold", "fold", True),
)  # fmt: skip
_FACTS = (
    ("worst_client", "worst client", True), ("rounds", "rounds", True), ("bytes_down", "bytes down", True),
    ("bytes_up", "bytes up", True), ("seconds", "seconds", True), ("failures", "failures", True),
    ("trust_model", "trust", False), ("run", "run", False),
)  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """A table cell: what is shown, and the number to sort by (None: by text)."""

    text: str
    number: float | None = None


@dataclass(frozen=True)
class PageFigure:
    """A figure for the template."""

    markup: Markup
    caption: str
    svg: str
    png: str


@dataclass(frozen=True)
class Part:
    """A section for the template."""

    number: int
    section: Section
    answer: Answer
    figures: dict[str, list[PageFigure]]
    table: tuple[list[str], list[list[str]]]
    texts: list[tuple[str, str]]
    clients: list[list[str]]
    stability: list[dict[str, Any]]
    disclosures: list[Disclosure]
    published: list[list[str]]
    citations: list[str]
    compared: tuple[list[list[str]], list[str]]
    sought: Sought | None

    @property
    def slug(self) -> str:
        """Name of the section in the page."""
        return f"s{self.number}"


def write_report(folders: Sequence[Path], target: Path | None = None) -> Path:
    """Write the report of all runs at or below the folders.

    Parameters
    ----------
    folders : sequence of Path
        Run folders, sweep folders, or folders of them.
    target : Path, optional
        Folder of the page and its figures; the first of ``folders`` if not given.

    Returns
    -------
    Path
        The page.

    Raises
    ------
    DPForestError
        There is no run.
    """
    target = target or folders[0]
    write_page(gather(folders), target)
    return target / REPORT


def write_page(gathered: Gathered, target: Path, wanted: Wanted | None = None) -> list[Answer]:
    """Make the figures, write the page, and return the answers that it opens with; and who reaches a wanted score."""
    target.mkdir(parents=True, exist_ok=True)
    answers = [answer(section, wanted) for section in gathered.sections]
    placed = draw(answers, target / FIGURES)
    parts = [
        _part(number, own, _by_place(figures, target))
        for number, (own, figures) in enumerate(zip(answers, placed, strict=True), 1)
    ]
    joined = [each for family in gathered.families for each in draw_family(family, target / FIGURES / JOINED)]
    environment = Environment(
        loader=PackageLoader("fl_app.report", "."),
        autoescape=True,
        finalize=_displayed,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"rounded_up": rounded_up, "link": lambda file: _link(target.absolute(), file)}
    header, runs = _runs_table(gathered.sections)
    page = environment.get_template("page.html.j2").render(
        parts=parts,
        none_finished=NONE_FINISHED,
        across=across(answers),
        joined=_by_place(joined, target),
        reach_header=HEADER,
        papers_header=papers.HEADER,
        left_out=gathered.left_out,
        duplicates=gathered.duplicates,
        repeats=gathered.repeats,
        n_runs=len(gathered.runs),
        header=header,
        runs=runs,
        methods=sorted({run.method for run in gathered.runs}),
        differences=_differences(gathered.runs),
        settings=_settings(gathered.sections),
        infinity=math.inf,
        made=datetime.now().strftime("%Y-%m-%d %H:%M"),
    )
    before = _figures_of(target / REPORT)
    with written_whole(target / REPORT) as place:
        place.write_text(page, encoding="utf-8")
    _remove(before - _figures_of(target / REPORT), target / FIGURES)
    return answers


def _link(target: Path, file: Path) -> str:
    """The address of a file from a page in a folder."""
    return quote(os.path.relpath(file.absolute(), target).replace(os.sep, "/"))


def _displayed(value: Any) -> Any:
    """A value of the page; names of others, but not what is markup already, without escape codes."""
    return printable(str(value), but="\n") if isinstance(value, Path) or type(value) is str else value


def _figures_of(page: Path) -> set[Path]:
    """The figures that a page names, below `FIGURES`."""
    try:
        named = _FIGURE.findall(page.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return set()
    return {Path(folder, file) for folder, file in named if folder.strip(".")}


def _remove(figures: set[Path], folder: Path) -> None:
    """Remove what an earlier page named, tables that were written with it, and empty folders; no other file."""
    for figure in figures:
        (folder / figure).unlink(missing_ok=True)
        (folder / figure).with_suffix(".csv").unlink(missing_ok=True)
    for section in {figure.parent for figure in figures}:
        if not any((folder / section).glob("*.svg")):
            for table in (f"{entry.name}{form}" for entry in CATALOGUE if not entry.place for form in (".csv", ".txt")):
                (folder / section / table).unlink(missing_ok=True)
        with suppress(OSError):  # it is not empty
            (folder / section).rmdir()


def _by_place(placed: Sequence[Placed], target: Path) -> dict[str, list[PageFigure]]:
    figures: dict[str, list[PageFigure]] = {}
    for figure in placed:
        markup = Markup(inline(figure.svg.read_text(encoding="utf-8"), str(escape(figure.caption))))
        names = [path.relative_to(target).as_posix() for path in (figure.svg, figure.png)]
        figures.setdefault(figure.place, []).append(PageFigure(markup, figure.caption, *names))
    return figures


def _part(number: int, own: Answer, figures: dict[str, list[PageFigure]]) -> Part:
    section = own.section
    texts = [(name, table(section, None)) for name, table in TABLES.items()]
    return Part(
        number=number,
        section=section,
        answer=own,
        figures=figures,
        table=_comparison(section),
        texts=[(name, text) for name, text in texts if text],
        clients=_client_table(section),
        stability=stability_rows(section) if section.has_scores else [],
        disclosures=disclosures(section),
        published=published_for(section.dataset, section.split),
        citations=citations(section.dataset, section.split),
        compared=compared(section),
        sought=sought(own),
    )


def _comparison(section: Section) -> tuple[list[str], list[list[str]]]:
    """The table of the terminal, without the data set and split that the section's title says."""
    if not section.has_scores:
        return [], []
    header, lines = comparison(section.runs)
    return header[2:], [line[2:] for line in lines]


def _client_table(section: Section) -> list[list[str]]:
    """Setting, epsilon, and as means over seeds: worst and best client, their gap, and the spread of all clients."""
    name = section.client_metric.name
    if name not in section.clients:
        return []
    lines, labels = [], section.labels
    for epsilon, runs in section.by_epsilon.items():
        for setting, members in runs.groupby("setting"):
            own = section.clients[section.clients["number"].isin(members.index) & section.clients[name].notna()]
            scores = own.groupby("number")[name].agg(["min", "max", "std"]).mean()
            if len(own):
                ends = scores["min"], scores["max"]
                worst, best = ends if section.client_metric.more_is_better else ends[::-1]
                cells = (worst, best, abs(best - worst), scores["std"])
                lines.append(
                    [labels[str(setting)], epsilon, *(f"{cell:.3f}" if not math.isnan(cell) else "" for cell in cells)]
                )
    return lines


def _runs_table(sections: Sequence[Section]) -> tuple[list[tuple[str, bool]], list[tuple[str, list[Cell]]]]:
    """Headings with whether they are numbers, and the lines with their method."""
    rows = [
        run.row
        | {"number": number, "setting": run.setting, "state": run.state}
        | {"per": run.guarantee.unit.name, "trust_model": run.guarantee.trust.model}
        for number, section in enumerate(sections, 1)
        for run in section.runs
    ]
    rows.sort(key=lambda row: (row["number"], row["setting"], row["epsilon"], row["seed"], row["fold"]))
    scores = sorted(metrics_of(), key=lambda metric: not metric.is_primary)
    columns = [*_SETTING, *((each.name, each.heading or each.label, True) for each in scores), *_FACTS]
    present = [entry for entry in columns if any(_known(row.get(entry[0])) for row in rows)]
    present = [entry for entry in present if entry[0] != "number" or len(sections) > 1]
    lines = [(str(row["strategy"]), [_cell(key, row.get(key), number) for key, _, number in present]) for row in rows]
    return [(heading, number) for _, heading, number in present], lines


def _known(value: Any) -> bool:
    return value is not None and not (isinstance(value, float) and math.isnan(value))


def _cell(key: str, value: Any, number: bool) -> Cell:
    if not _known(value):
        return Cell("", math.nan if number else None)
    if not number:
        return Cell(str(value))
    if key.startswith("bytes"):
        return Cell(human_bytes(value), float(value))
    if key in ("epsilon", "delta"):
        return Cell(rounded_up(value), float(value))
    if key == "seconds":
        return Cell(f"{value:.1f}", float(value))
    return Cell(f"{value:.4g}" if isinstance(value, float) else str(value), float(value))


def _differences(runs: Sequence[FinishedRun]) -> list[tuple[str, list[tuple[str, int]]]]:
    """Keys of the configuration with more than one value, their values and in how many runs each stands."""
    counts: dict[str, Counter[str]] = {}
    for run in runs:
        for key, value in flat({k: v for k, v in run.config.items() if k != "overrides"}):
            own = key.startswith("strategy.") and key != "strategy.name"
            counts.setdefault(f"{run.method}: {key}" if own else key, Counter())[str(value)] += 1
    return [(key, sorted(values.items(), key=_by_number)) for key, values in counts.items() if len(values) > 1]


def _by_number(item: tuple[str, int]) -> tuple[float, str]:
    try:
        return float(item[0]), item[0]
    except ValueError:
        return math.inf, item[0]


def _settings(sections: Sequence[Section]) -> list[tuple[str, str]]:
    """Each setting of each section with the whole configuration of its first run."""
    found = []
    for number, section in enumerate(sections, 1):
        firsts: dict[str, Mapping[str, Any]] = {}
        for run in section.runs:
            firsts.setdefault(run.setting, run.config)
        for setting, config in sorted(firsts.items()):
            found.append((f"{number}. {setting}", yaml.safe_dump(config, sort_keys=False)))
    return found
