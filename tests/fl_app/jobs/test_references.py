"""A sweep brings what there is without a federation, once, and a report says when not to have one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hand_made import make, write_table

from fl_app.client_app import app as client_app
from fl_app.commands.cli import main as dpforest
from fl_app.engine.in_process import InProcessGrid
from fl_app.jobs.record import run_job
from fl_app.jobs.references import missing_references
from fl_app.report.answer import answer
from fl_app.report.gather import gather
from fl_app.results.finished import FinishedRun
from fl_app.results.rows import read_runs

TARGET = {"target": "b", "target_range": [0, 1], "features": [{"name": "a", "low": 0, "high": 1}]}


def test_a_sweep_runs_what_there_is_without_a_federation_and_says_when_to_have_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = [f"dataset.{key}={value}" for key, value in write_table(tmp_path).items() if key != "name"]
    folder = tmp_path / "sweep"
    options = ["engine.kind=in_process", "dataset=table", *table, "privacy.epsilon=0.1", f"output={folder}"]
    assert dpforest(["sweep", *options, "strategy=one_shot,centralized", "seed=range(3)"]) == 0
    by_method: dict[str, list[int]] = {}
    for run in read_runs([folder]):
        by_method.setdefault(run.method, []).append(run.seed)
    # The sweep's own centralized runs are not run again.
    assert by_method == {name: [0, 1, 2] for name in ("one_shot", "centralized", "alone", "standalone")}
    (section,) = gather([folder]).sections
    found = answer(section)
    assert found.headline().startswith("Do not federate at epsilon 0.1 for the clients' own rows: each client's own ")
    assert "Being alone means having no model for a person that nobody trained on" in found.headline()
    assert found.alone is not None
    assert found.alone.own.run.privacy["clients"]["0"]["entries"] == [], "nothing is sent"
    assert [other.setting for other in found.verdicts[0].ranking] == ["one_shot"], "alone is no federation"
    assert found.verdicts[0].alone is not None
    assert "to compare with, 1 of 6: alone on table, seed 0: accuracy 0." in capsys.readouterr().out.replace("\n", " ")
    names = sorted(path.name for path in folder.glob("*alone*"))
    assert names[0] == "07_alone_seed-0"
    assert missing_references(read_runs([folder])) == [], "a sweep that is resumed runs none of them again"


def finished(folder: Path, experiment: Any) -> FinishedRun:
    run_job(experiment, InProcessGrid(client_app, 4), folder)
    (run,) = read_runs([folder])
    return run


def wanted(run: FinishedRun) -> list[str]:
    return [experiment.method.name for experiment in missing_references([run])]


def test_who_is_held_out_has_no_model_alone(tmp_path: Path) -> None:
    people = make(write_table(tmp_path), partition={"kind": "subject"}, evaluation={"split": "subject"})
    run = finished(tmp_path / "people", people)
    assert wanted(run) == ["centralized"]
    words = answer(gather([run.folder]).sections[0]).words()
    assert words[-1].startswith("All test rows are of people that nobody trained on. Who is alone has no model for")


def test_a_regression_is_compared_with_forests_alone(tmp_path: Path) -> None:
    dataset = write_table(tmp_path, schema=TARGET)
    run = finished(tmp_path / "targets", make(dataset, strategy={"name": "fext", "k": None}, rounds=1))
    assert wanted(run) == ["centralized", "alone"]
    alone = next(each for each in missing_references([run]) if each.method.name == "alone")
    done = finished(tmp_path / "alone", alone)
    assert done.metrics["test_rows"] == run.metrics["test_rows"]
    assert done.metrics["bytes_up"] < 4 * 5000, "ledgers only"
    assert wanted(done) == ["centralized"]
