"""The LDP document's tables, from runs as ``experiment=ldp_document`` makes them."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from fl_app.client_app import app as client_app
from fl_app.config.compose import compose_config, to_experiment
from fl_app.config.places import conf_folder
from fl_app.engine.in_process import InProcessGrid
from fl_app.jobs.record import run_job
from fl_app.report.figures.catalogue import write_all
from fl_app.report.figures.rounds import bars
from fl_app.report.gather import gather
from fl_app.report.page import write_report
from fl_app.report.papers.ldp_document import document_tables
from fl_app.report.papers.published import published
from fl_app.report.sections import Section, sections
from fl_app.results.finished import FinishedRun

PLAN = yaml.safe_load((conf_folder() / "experiment" / "ldp_document.yaml").read_text())
SWEEP = PLAN["hydra"]["sweeper"]["params"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for strategy, seeds in (("ldp_bagging_published", (0, 1)), ("ldp_bagging", (0,))):
        for level in ("none", "medium"):
            for seed in seeds:
                chosen = [
                    f"strategy={strategy}",
                    f"privacy.level={level}",
                    f"seed={seed}",
                    "dataset.synthetic_minutes=8",
                ]
                experiment = to_experiment(compose_config(["experiment=ldp_document", *chosen]))
                run_job(experiment, InProcessGrid(client_app, 3), folder / f"{strategy}-{level}-{seed}")
    return folder


def gathered(folder: Path) -> Section:
    (section,) = gather([folder]).sections
    return section


def test_the_set_up_is_that_of_the_document() -> None:
    experiment = to_experiment(compose_config(["experiment=ldp_document", "strategy=ldp_bagging"]))
    assert experiment.source.subjects() == ("synthetic-01", "synthetic-02", "synthetic-03")
    assert len(experiment.source.load("synthetic-01")) == 1000
    assert experiment.total_rounds == 3
    assert SWEEP["privacy.level"].split(",") == ["none", "low", "medium", "high"]
    assert SWEEP["strategy"].split(",") == ["ldp_bagging_published", "ldp_bagging"]


def test_tables_hold_what_was_measured_and_what_the_document_says(runs: Path) -> None:
    section = gathered(runs)
    text = document_tables(section)
    assert text.count("(synthetic recordings)") == 2
    assert "accounting=published: epsilon a round, no guarantee" in text.replace(" (synthetic recordings)", "")
    assert "accounting=tight: epsilon of the whole run" in text.replace(" (synthetic recordings)", "")
    chosen = [run for run in section.runs if run.option("accounting") == "published" and run.epsilon == 1]
    mean = sum(run.metrics["accuracy"] for run in chosen) / 2
    assert len(chosen) == 2
    accuracy = next(line for line in text.splitlines() if line.startswith("accuracy"))
    assert f"{mean:.3f} (" in accuracy
    assert "  document" in text
    assert "0.786 (-0.066)" in text
    assert "The document's sizes do not agree with its own formula" in text
    assert "medium (1)  leaf values" in text
    assert "0.01892" in text
    assert "document: 3.2 kB for one tree of depth 3" in text
    assert "not sent" in text, "tight clients keep their times to themselves"
    lines = [line.split() for line in text.splitlines() if line.startswith("medium (1)  1  ")]
    assert ["medium", "(1)", "1", "3", "none"] in lines
    assert ["medium", "(1)", "1", "1", "epsilon", "1", "(pure)"] in lines


def test_figures_and_tables_are_written(runs: Path, tmp_path: Path) -> None:
    written = write_all(gathered(runs), tmp_path)
    assert {path.stem for path in written} >= {"ldp-metrics", "ldp-noise"}
    for path in [*written, tmp_path / "ldp_document.txt"]:
        assert path.stat().st_size > 500
    other = gathered(runs).among(lambda run: False)
    assert document_tables(other) == ""


def test_importances_are_compared_on_the_same_draw_only(runs: Path) -> None:
    read = [run for run in gathered(runs).runs if run.option("accounting") == "tight"]
    private, without = sorted(read, key=lambda run: run.epsilon)
    other_fold: Any = copy.deepcopy(without)
    other_fold.config["evaluation"]["fold"] = 1
    importances = other_fold.metrics["importances"]
    other_fold.metrics["importances"] = dict(zip(importances, reversed(importances.values()), strict=True))

    def stability(*several: FinishedRun) -> list[str]:
        (section,) = sections(several)
        text = document_tables(section)
        table = next((part for part in text.split("\n\n") if part.startswith("importance against none")), "")
        return [line for line in table.splitlines() if line.startswith("medium (1)")]

    assert stability(private, without)
    assert stability(private, without, other_fold) == stability(private, without)
    assert stability(private, other_fold) == []


def test_the_report_holds_the_tables_too(runs: Path, tmp_path: Path) -> None:
    page = write_report([runs], tmp_path).read_text(encoding="utf-8")
    assert "The tables of the LDP document" in page
    assert "document: 3.2 kB for one tree of depth 3" in page


def test_what_the_document_prints() -> None:
    document = published("ldp_wearable")
    assert document["levels"][1]["f1"] == 0.762  # "Metrics Comparison Table", medium
    assert document["importance_correlation"][0.1] == 0.743


def test_equal_importances_can_be_drawn() -> None:
    # Rounding puts the mean of these equal numbers outside of them, and a bar would get an error below zero.
    vectors = np.full((10, 2), 33.3)
    assert (100 * vectors).mean(axis=0)[0] != 3330
    assert bars({1.0: vectors, math.inf: vectors}, ["a", "b"], "equal").axes
