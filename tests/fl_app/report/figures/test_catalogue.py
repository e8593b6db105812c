"""A figure is its function and one line, and the report and the comparison both have it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from made_up_runs import write_run
from matplotlib.figure import Figure

from fl_app.commands.cli import main as dpforest
from fl_app.report import drawing
from fl_app.report.figures import catalogue
from fl_app.report.figures.catalogue import CATALOGUE, Entry
from fl_app.report.page import write_report
from fl_app.report.sections import Section


def _seeds(section: Section) -> Iterator[tuple[str, Figure | list[dict[str, int]]]]:
    figure = Figure()
    figure.add_subplot().plot([run.seed for run in section.runs])
    yield "", figure
    yield "", [{"seed": run.seed} for run in section.runs]


def test_a_new_figure_is_one_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = Entry("seeds", Section, _seeds, "cost", "Seeds of the runs.")
    monkeypatch.setattr(catalogue, "CATALOGUE", (*CATALOGUE, entry))
    monkeypatch.setattr(drawing, "Parallel", lambda **options: lambda jobs: [f(*a, **k) for f, a, k in jobs])
    write_run(tmp_path / "runs" / "a")
    page = write_report([tmp_path / "runs"], tmp_path / "report").read_text(encoding="utf-8")
    assert page.count("Seeds of the runs.") == 2, "as a caption, and for those who cannot see it"
    assert dpforest(["compare", str(tmp_path / "runs"), "--figures", str(tmp_path / "compared")]) == 0
    for folder in (tmp_path / "report" / "figures" / "watch-row-split", tmp_path / "compared"):
        assert {path.name for path in folder.glob("seeds*")} == {"seeds.svg", "seeds.png", "seeds.csv"}


def test_no_two_entries_share_a_name_and_every_figure_has_a_place_and_a_caption() -> None:
    assert len({entry.name for entry in CATALOGUE}) == len(CATALOGUE)
    assert all(bool(entry.place) == bool(entry.caption) for entry in CATALOGUE)
