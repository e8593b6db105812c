"""Putting the page together: the answer first, then what it rests on."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, PackageLoader
from markupsafe import Markup, escape

from dpforest.ledger import rounded_up
from fl_app.compare import comparison
from fl_app.figures.base import short_trust
from fl_app.figures.ldp import ldp_tables
from fl_app.figures.published import published_for
from fl_app.figures.rounds import STABILITY, stability_rows
from fl_app.figures.users import EACH, user_table
from fl_app.report.answer import Answer, answer
from fl_app.report.drawing import Drawn, draw, draw_family
from fl_app.report.gather import Gathered, Section, gather
from fl_app.report.ledgers import Promise, promises
from fl_app.report.plots import labels_of, settings_by_epsilon
from fl_app.report.svg import inline
from fl_app.tables import human_bytes

REPORT = "report.html"
FIGURES = "figures"
JOINED = "joined"  # folder of the figures that join sections
_FIGURE = re.compile(rf'href="{FIGURES}/([A-Za-z0-9_.+-]+)/([A-Za-z0-9_.+-]+\.(?:svg|png))"')
# Columns of the table of all runs: key of a row, heading, whether it is a number.
_RUNS = (
    ("setting", "method", False), ("number", "section", True), ("epsilon", "epsilon", True), ("delta", "delta", True),
    ("state", "guarantee", False), ("per", "unit", False), ("seed", "seed", True), ("fold", "fold", True),
    ("accuracy", "accuracy", True), ("balanced_accuracy", "balanced", True), ("macro_f1", "macro F1", True),
    ("log_loss", "log loss", True), ("r2", "R^2", True), ("mse", "MSE", True), ("mae", "MAE", True),
    ("pearson", "Pearson", True), ("worst_client", "worst client", True), ("rounds", "rounds", True),
    ("bytes_down", "bytes down", True), ("bytes_up", "bytes up", True), ("seconds", "seconds", True),
    ("failures", "failures", True), ("trust", "trust", False), ("run", "run", False),
)  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """A table cell: what is shown, and the number to sort by (None: by text)."""

    text: str
    number: float | None = None


@dataclass(frozen=True)
class Shown:
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
    figures: dict[str, list[Shown]]
    table: tuple[list[str], list[list[str]]]
    texts: list[tuple[str, str]]
    clients: list[list[str]]
    stability: list[dict[str, Any]]
    promises: list[Promise]
    published: list[list[str]]

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


def write_page(gathered: Gathered, target: Path) -> list[Answer]:
    """Draw the figures, write the page, and return the answers that it opens with."""
    target.mkdir(parents=True, exist_ok=True)
    answers = [answer(section) for section in gathered.sections]
    drawn = draw(answers, target / FIGURES)
    parts = [
        _part(number, own, _shown(figures, target))
        for number, (own, figures) in enumerate(zip(answers, drawn, strict=True), 1)
    ]
    joined = [each for family in gathered.families for each in draw_family(family, target / FIGURES / JOINED)]
    environment = Environment(
        loader=PackageLoader("fl_app.report", "."), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["rounded_up"] = rounded_up
    header, runs = _runs_table(gathered.sections)
    page = environment.get_template("page.html.j2").render(
        parts=parts,
        joined=_shown(joined, target),
        troubles=gathered.troubles,
        twice=gathered.twice,
        n_runs=len(gathered.rows),
        header=header,
        runs=runs,
        methods=sorted({str(row["strategy"]) for row in gathered.rows}),
        differences=_differences(gathered.sections),
        settings=_settings(gathered.sections),
        infinity=math.inf,
        made=datetime.now().strftime("%Y-%m-%d %H:%M"),
    )
    before = _figures_of(target / REPORT)
    partial = target / f".{REPORT}.partial"
    partial.write_text(page, encoding="utf-8")
    partial.replace(target / REPORT)
    _remove(before - _figures_of(target / REPORT), target / FIGURES)
    return answers


def _figures_of(page: Path) -> set[Path]:
    """The figures that a page names, below `FIGURES`; with what stands beside them under their names."""
    try:
        named = _FIGURE.findall(page.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return set()
    return {Path(folder, file) for folder, file in named if folder.strip(".")}


def _remove(figures: set[Path], folder: Path) -> None:
    """Remove what an earlier page named, and the folders that are empty then; no other file."""
    for figure in figures:
        (folder / figure).unlink(missing_ok=True)
        if figure.name.startswith(EACH):
            (folder / figure).with_suffix(".csv").unlink(missing_ok=True)
    for section in {figure.parent for figure in figures}:
        if not any((folder / section).glob("*.svg")):
            (folder / section / STABILITY).unlink(missing_ok=True)
        with suppress(OSError):  # it is not empty
            (folder / section).rmdir()


def _shown(drawn: Sequence[Drawn], target: Path) -> dict[str, list[Shown]]:
    """Figures by their place."""
    figures: dict[str, list[Shown]] = {}
    for figure in drawn:
        markup = Markup(inline(figure.svg.read_text(encoding="utf-8"), str(escape(figure.caption))))
        names = [path.relative_to(target).as_posix() for path in (figure.svg, figure.png)]
        figures.setdefault(figure.place, []).append(Shown(markup, figure.caption, *names))
    return figures


def _part(number: int, own: Answer, figures: dict[str, list[Shown]]) -> Part:
    section = own.section
    texts = {
        "Accuracy by type of user, as in Liu et al. 2022, tables 3 and 4": user_table(section.runs, section.rows),
        "The tables of the LDP document": ldp_tables(section.runs, section.rows),
    }
    return Part(
        number=number,
        section=section,
        answer=own,
        figures=figures,
        table=_comparison(section),
        texts=[(name, text) for name, text in texts.items() if text],
        clients=_client_table(section),
        stability=stability_rows(section.runs, section.rows) if section.metric in section.frame else [],
        promises=promises(section),
        published=published_for(str(section.rows[0]["dataset"]), str(section.rows[0]["split"])),
    )


def _comparison(section: Section) -> tuple[list[str], list[list[str]]]:
    """The table of the terminal, without the data set and split that the section's title says."""
    if section.metric not in section.frame:
        return [], []
    header, lines = comparison(section.rows)
    return header[2:], [line[2:] for line in lines]


def _client_table(section: Section) -> list[list[str]]:
    """Setting, epsilon, and as means over seeds: worst and best client, their gap, and the spread of all clients."""
    name = "accuracy" if section.metric == "accuracy" else "mse"
    if name not in section.clients:
        return []
    lines, labels = [], labels_of(section)
    for epsilon, runs in settings_by_epsilon(section).items():
        for setting, members in runs.groupby("setting"):
            own = section.clients[section.clients["number"].isin(members.index) & section.clients[name].notna()]
            scores = own.groupby("number")[name].agg(["min", "max", "std"]).mean()
            if len(own):
                worst, best = (scores["min"], scores["max"]) if name == "accuracy" else (scores["max"], scores["min"])
                cells = (worst, best, abs(best - worst), scores["std"])
                lines.append(
                    [labels[str(setting)], epsilon, *(f"{cell:.3f}" if not math.isnan(cell) else "" for cell in cells)]
                )
    return lines


def _runs_table(sections: Sequence[Section]) -> tuple[list[tuple[str, bool]], list[tuple[str, list[Cell]]]]:
    """Headings with whether they are numbers, and the lines with their method."""
    rows = [row | {"number": n} for n, section in enumerate(sections, 1) for row in section.rows]
    rows.sort(key=lambda row: (row["number"], row["setting"], row["epsilon"], row["seed"], row["fold"]))
    present = [entry for entry in _RUNS if any(_known(row.get(entry[0])) for row in rows)]
    present = [entry for entry in present if entry[0] != "number" or len(sections) > 1]
    lines = [(str(row["strategy"]), [_cell(key, row.get(key), number) for key, _, number in present]) for row in rows]
    return [(heading, number) for _, heading, number in present], lines


def _known(value: Any) -> bool:
    return value is not None and not (isinstance(value, float) and math.isnan(value))


def _cell(key: str, value: Any, number: bool) -> Cell:
    if not _known(value):
        return Cell("", math.nan if number else None)
    if not number:
        return Cell(short_trust(str(value)) if key == "trust" else str(value))
    if key.startswith("bytes"):
        return Cell(human_bytes(value), float(value))
    if key in ("epsilon", "delta"):
        return Cell(rounded_up(value), float(value))
    if key == "seconds":
        return Cell(f"{value:.1f}", float(value))
    return Cell(f"{value:.4g}" if isinstance(value, float) else str(value), float(value))


def _differences(sections: Sequence[Section]) -> list[tuple[str, list[tuple[str, int]]]]:
    """Keys of the configuration with more than one value, their values and in how many runs each stands."""
    counts: dict[str, Counter[str]] = {}
    for section in sections:
        for run in section.runs:
            method = run["config"]["strategy"]["name"]
            for key, value in _flat({k: v for k, v in run["config"].items() if k != "overrides"}):
                own = key.startswith("strategy.") and key != "strategy.name"
                counts.setdefault(f"{method}: {key}" if own else key, Counter())[str(value)] += 1
    return [(key, sorted(values.items(), key=_by_number)) for key, values in counts.items() if len(values) > 1]


def _by_number(item: tuple[str, int]) -> tuple[float, str]:
    try:
        return float(item[0]), item[0]
    except ValueError:
        return math.inf, item[0]


def _flat(plain: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in plain.items():
        inner = isinstance(value, dict) and value
        found += _flat(value, f"{prefix}{key}.") if inner else [(f"{prefix}{key}", value)]
    return found


def _settings(sections: Sequence[Section]) -> list[tuple[str, str]]:
    """Each setting of each section with the whole configuration of its first run."""
    found = []
    for number, section in enumerate(sections, 1):
        firsts: dict[str, dict[str, Any]] = {}
        for run, row in zip(section.runs, section.rows, strict=True):
            firsts.setdefault(str(row["setting"]), run["config"])
        for setting, config in sorted(firsts.items()):
            found.append((f"{number}. {setting}", yaml.safe_dump(config, sort_keys=False)))
    return found
