"""Reports over real runs, one of whose folders is damaged: that costs this run, and no figure or table of others."""

from __future__ import annotations

import json
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import yaml

from fl_app.client_app import app as client_app
from fl_app.engine.in_process import InProcessGrid
from fl_app.jobs.record import run_job
from fl_app.jobs.sweep_folder import Missing
from fl_app.report.answer import answer
from fl_app.report.figures.catalogue import Subject, entries_for
from fl_app.report.figures.style import styled
from fl_app.report.gather import gather
from fl_app.report.page import write_page
from fl_app.report.tables import section_tables
from fl_app.results.rows import write_results
from tests.fuzz.mutations import damaged, damaged_plain
from tests.helpers.hand_made import CLIENTS, SCHEMA, make, write_table

BAD = "bad"
FILES = ("metrics.json", "privacy.json", "config.yaml", "clients.csv", "rounds.csv")
_TWO = {**SCHEMA, "classes": ["low", "middle"]}
_TARGETS = {**SCHEMA, "target": "b", "target_range": [0, 1], "features": [{"name": "a", "low": 0, "high": 1}]}
del _TARGETS["classes"]
_PUBLISHED = {"strategy": {"name": "ldp_bagging", "accounting": "published", "depth": 2}, "rounds": 2}
_TIGHT = {"strategy": {"name": "ldp_bagging", "depth": 2}, "rounds": 2}
_FEXT = {"strategy": {"name": "fext", "filter_by": "clients", "depth": 2}, "rounds": 3}
_TREES = {"strategy": {"name": "one_shot", "depth": 2}, "memorization": [5]}
_FREE = {"epsilon": "inf"}


def _users(k: int) -> dict[str, Any]:
    return {"strategy": {"name": "pp_fprf", "trees": 3, "depth": 2, "k": k}}


# Runs that are reported together, of which the last is damaged.
REPORTS: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "document": (_TWO, [_PUBLISHED, _PUBLISHED | _FREE, _TIGHT, _PUBLISHED | {"seed": 1}]),
    "users": (SCHEMA, [_users(1), _users(2), _users(1) | {"seed": 1}]),
    "rounds": (_TARGETS, [_FEXT, _FEXT | _FREE, _FEXT | {"seed": 1}]),
    "forests": (SCHEMA, [_TREES, _TREES | _FREE, _TREES | {"seed": 1} | _FREE]),
}


@cache
def sound(name: str) -> Path:
    """A folder of these runs, made once; the table that they are of stays as long as this process."""
    schema, runs = REPORTS[name]
    place = Path(_place().name) / name
    place.mkdir()
    dataset = write_table(place, rows=40, schema=schema)
    if schema is _TWO:
        table = Path(dataset["path"])
        table.write_text(table.read_text().replace("high", "low"))
    for number, options in enumerate(runs, 1):
        output = place / "runs" / (BAD if number == len(runs) else str(number))
        run_job(make(dataset, **options), InProcessGrid(client_app, CLIENTS), output)
    return place / "runs"


@cache
def _place() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory()


def make_damage(rng: np.random.Generator) -> tuple[str, str, bytes | None]:
    """Of which report, which file of the run, and its bytes instead; None where it is missing."""
    name = str(rng.choice(list(REPORTS)))
    if rng.random() < 0.02:
        return name, "model/forest.json", None
    file = str(rng.choice(FILES))
    content = (sound(name) / BAD / file).read_bytes()
    if file.endswith("csv") or rng.random() < 0.1:
        return name, file, damaged(content, rng)
    return name, file, json.dumps(damaged_plain(_plain(name, file), rng)).encode()  # which is YAML, too


@cache
def _plain(name: str, file: str) -> Any:
    return yaml.safe_load((sound(name) / BAD / file).read_text())


def read_reports(given: tuple[str, str, bytes | None], folder: Path) -> None:
    """Everything that is read, computed, drawn and written of the runs; all but the damaged one are in it."""
    name, file, content = given
    place = folder / name
    if not place.exists():
        shutil.copytree(sound(name), place)
    whole = (sound(name) / BAD / file).read_bytes()
    (place / BAD / file).unlink(missing_ok=True)
    if content is not None:
        (place / BAD / file).write_bytes(content)
    try:
        _report(place, len(REPORTS[name][1]) - 1)
    finally:
        (place / BAD / file).write_bytes(whole)


def _report(place: Path, others: int) -> None:
    found = gather([place])
    read = {run.folder.name for run in found.runs}
    assert read | {BAD} >= {BAD, *map(str, range(1, others + 1))} or found.duplicates
    assert all(each.folder.name == BAD for each in found.left_out)
    subjects: list[Subject] = [*found.families]
    for section in found.sections:
        section_tables(section)
        subjects += [section, answer(section)]
    with styled():
        for subject in subjects:
            for entry in entries_for(subject):
                for _, made in entry.make(entry.few(subject)):
                    if hasattr(made, "draw_without_rendering"):
                        made.draw_without_rendering()
    with (
        patch("fl_app.report.page.draw", lambda answers, folder: [[] for _ in answers]),
        patch("fl_app.report.page.draw_family", lambda family, folder: []),
    ):
        write_page(found, place)
    write_results(place)
    Missing(place)
