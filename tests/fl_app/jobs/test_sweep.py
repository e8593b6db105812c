"""Sweeps leave a report, go on where they were interrupted, and survive runs that fail."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hand_made import make, write_table

from fl_app.commands.cli import main as dpforest
from fl_app.config.compose import compose_config
from fl_app.engine.experiment import ConfigurationError
from fl_app.jobs.expansion import expand
from fl_app.jobs.job import sweep_experiment
from fl_app.jobs.names import free_place, run_names
from fl_app.jobs.sweep_folder import Missing, place_runs, resume_option, split_resume
from fl_app.results.run_folder import OutputError, failure_of, find_failed, find_runs, write_failure

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("overrides", "runs"),
    [
        (["seed=range(5)"], 5),
        (["strategy=one_shot,standalone", "privacy.epsilon=0.1,1,10", "seed=range(5)"], 30),
        (["experiment=compare_watch"], 45),
        (["experiment=compare_watch", "seed=0"], 15),
        (["experiment=favero2024", "privacy.epsilon=1,10"], 80),
        (["experiment=trees_or_fedavg"], 37),  # each client alone has no unit, trust or epsilon: once
        (["experiment=trees_or_fedavg", "contender.epsilon=1", "seed=range(2)"], 38),
        (["experiment=many_clients"], 36),
        (["seed=3"], 1),
    ],
)
def test_runs_are_counted_with_those_of_the_experiment_file(overrides: list[str], runs: int) -> None:
    assert len(expand(overrides)) == runs


@pytest.mark.parametrize("name", ["compare_watch", "compare_hugadb"])
def test_the_comparisons_can_be_composed(name: str) -> None:
    assert compose_config([f"experiment={name}"]).dataset.name == name.removeprefix("compare_")


def test_rounds_of_a_sweep_go_to_the_methods_that_have_them() -> None:
    """An experiment file says the rounds of all its methods."""
    for strategy, rounds in (("fedavg", 10), ("centralized_mlp", None)):
        config = compose_config(["experiment=har_chapter", f"strategy={strategy}"])
        assert sweep_experiment(config).rounds == rounds
        assert config.rounds == 10, "what the user said stays"


def test_without_resume_arguments_stay_as_they_are() -> None:
    assert split_resume(["-m", "seed=1,2"]) == (["-m", "seed=1,2"], None)


def test_resume_takes_the_overrides_of_the_sweep(tmp_path: Path) -> None:
    folder = tmp_path / "my sweep's"
    folder.mkdir()
    composed = {
        "hydra": {"overrides": {"hydra": ["hydra.mode=MULTIRUN"], "task": ["strategy=one_shot", "seed=range(3)"]}}
    }
    (folder / "multirun.yaml").write_text(yaml.safe_dump(composed))
    arguments, found = split_resume([f"+resume={folder}"])
    assert found == folder
    assert arguments[:3] == ["-m", "strategy=one_shot", "seed=range(3)"]
    assert arguments[3] == f"hydra.sweep.dir='{tmp_path}/my sweep\\'s'"
    # Given anew, an axis takes the place of the sweep's own; the others stay, so that no stray run joins the sweep.
    given, _ = split_resume(["-m", "seed=range(9)", "engine.kind=in_process", f"+resume={folder}"])
    assert given[:4] == ["-m", "strategy=one_shot", "seed=range(9)", "engine.kind=in_process"]


def test_the_hint_to_resume_can_be_pasted_into_a_shell(tmp_path: Path) -> None:
    folder = tmp_path / "a b" / 'it\'s <i>"new"'
    folder.mkdir(parents=True)
    (folder / "multirun.yaml").write_text("hydra: {overrides: {hydra: [], task: [seed=1]}}", encoding="utf-8")
    assert split_resume(shlex.split(resume_option(folder)))[1] == folder


def test_resume_of_what_is_no_sweep_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no sweep there .*give a sweep's folder"):
        split_resume([f"+resume={tmp_path}"])
    (tmp_path / "multirun.yaml").write_text("hydra: 3")
    with pytest.raises(ConfigurationError, match="damaged"):
        split_resume([f"+resume={tmp_path}"])
    with pytest.raises(ConfigurationError, match="leave output=FOLDER out"):
        split_resume([f"+resume={tmp_path}", "output=there"])


def test_several_values_need_the_flag_wherever_it_stands() -> None:
    with pytest.raises(ConfigurationError, match=r"seed=1,2 has several values: add -m to run all of them"):
        place_runs(["strategy=one_shot", "seed=1,2"])
    assert place_runs(["strategy=one_shot", "-m", "seed=1,2"]) == ["-m", "strategy=one_shot", "seed=1,2"]


def test_output_names_the_folder_of_a_sweep(tmp_path: Path) -> None:
    placed = place_runs(["-m", "seed=1,2", f"output='{tmp_path}/my sweep'"])
    assert placed == ["-m", "seed=1,2", f"hydra.sweep.dir='{tmp_path}/my sweep'"]
    assert place_runs(["-m", "seed=1,2", "output=null"]) == ["-m", "seed=1,2"]
    for kept in (["output=there", "seed=1"], ["-m", "hydra.sweep.dir=there", "seed=1,2"]):
        assert place_runs(kept) == kept


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["hydra.run.dir=there"], r"^hydra\.run\.dir does not say where a single run goes: give output=FOLDER"),
        (["hydra.sweep.dir=there"], r"^hydra\.sweep\.dir does not say where a single run goes: give output=FOLDER"),
        (["-m", "output=here", "hydra.sweep.dir=there"], "both name the sweep's folder: give one"),
        (["-m", "output=here,there"], "output=here,there: a sweep has one folder"),
        (["-m", f"output={ROOT}"], "holds files already: choose another"),
    ],
)
def test_a_folder_that_would_be_passed_over_is_refused(arguments: list[str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        place_runs(arguments)


def test_a_missing_run_gets_a_folder_that_is_free(tmp_path: Path) -> None:
    for number in (0, 1):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "metrics.json").write_text("{}")
    write_failure(tmp_path / "2", ["seed=1"], RuntimeError("no power"))
    Missing(tmp_path)
    assert free_place(tmp_path / "0") == tmp_path / "2", "the failed try made room"
    write_failure(tmp_path / "2", ["seed=2"], RuntimeError("no power again"))
    assert free_place(tmp_path / "2") == tmp_path / "3", "what failed since then stays"
    assert find_failed([tmp_path]) == [tmp_path / "2"]


def test_runs_are_named_by_what_differs() -> None:
    runs = expand(["strategy=one_shot,boost", "privacy.epsilon=0.1,1", "strategy.depth=3", "seed=range(2)"])
    names = run_names(runs)
    assert names[:3] == ["01_one_shot_eps-0.1_seed-0", "02_one_shot_eps-0.1_seed-1", "03_one_shot_eps-1_seed-0"]
    assert names[-1] == "08_boost_eps-1_seed-1"
    assert run_names([["seed=1"]]) == ["01"]
    hostile = run_names([["dataset.path=/a/../b c", "x=1"], ["dataset.path='../../etc'", "x=" + "y" * 300]])
    assert hostile[0] == "01_path--a-..-b-c_x-1"
    assert all("/" not in name and len(name) <= 100 for name in hostile)


def test_new_names_find_room_among_old_numbers(tmp_path: Path) -> None:
    for name in ("0", "1", "02_boost_seed-1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "metrics.json").write_text("{}")
    assert free_place(tmp_path / "01_boost_seed-0") == tmp_path / "03_boost_seed-0"
    assert free_place(tmp_path / "01_a", [tmp_path / "03_b"]) == tmp_path / "04_a"
    assert free_place(tmp_path / "mine") == tmp_path / "mine"


def test_only_failed_tries_of_the_sweep_itself_are_removed(tmp_path: Path) -> None:
    sweep_folder, elsewhere, notes = tmp_path / "sweep", tmp_path / "elsewhere", tmp_path / "sweep" / "notes"
    write_failure(sweep_folder / "0", ["seed=1"], RuntimeError("no power"))
    write_failure(elsewhere, ["seed=2"], RuntimeError("no power"))
    (sweep_folder / "linked").symlink_to(elsewhere)
    notes.mkdir()
    (notes / "FAILED.txt").write_text("what went wrong in spring")
    Missing(sweep_folder)
    assert sorted(path.name for path in sweep_folder.iterdir()) == ["linked", "notes"]
    assert find_failed([elsewhere]) == [elsewhere]
    assert (notes / "FAILED.txt").is_file()


def test_a_failed_try_that_cannot_be_removed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    write_failure(tmp_path / "0", ["seed=1"], RuntimeError("no power"))
    monkeypatch.setattr("fl_app.jobs.sweep_folder.shutil.rmtree", refuse)
    with pytest.raises(OutputError, match=r"cannot remove the failed run .*0: Permission denied; remove it yourself"):
        Missing(tmp_path)


def sweep(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "DPFOREST_RUNS": str(folder)}
    command = [sys.executable, "-m", "fl_app", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)


def test_a_sweep_reports_and_goes_on_with_what_is_missing(tmp_path: Path) -> None:
    dataset: dict[str, Any] = write_table(tmp_path)
    table = [f"dataset.{key}={value}" for key, value in dataset.items() if key != "name"]
    first = sweep(
        tmp_path, "-m", "engine.kind=in_process", "references=false", "dataset=table", *table, "strategy.depth=2,-3",
        "seed=range(2)",
    )  # fmt: skip
    assert first.returncode == 1, "two runs failed"
    (folder,) = tmp_path.glob("sweep-*")
    assert [run.name for run in find_runs([folder])] == ["01_depth-2_seed-0", "02_depth-2_seed-1"]
    assert [run.name for run in find_failed([folder])] == ["03_depth--3_seed-0", "04_depth--3_seed-1"]
    assert "depth" in failure_of(folder / "03_depth--3_seed-0")
    assert re.search(r"^run 2 of 4: one_shot on table, epsilon 1\S*, seed 1: accuracy \d\.\d{3}; ", first.stdout, re.M)
    assert re.search(r"^run 3 of 4: 03_depth--3_seed-0: failed; ", first.stdout, re.M)
    page = (folder / "report.html").read_text()
    assert "2 runs" in page
    assert "depth -3" in page
    assert f"+resume={folder}" in first.stdout.replace("\n", "")
    assert "strategy.depth=-3 seed=1: " in first.stdout.partition("runs that failed: 2")[2]

    # As if it had been interrupted after its first run.
    kept = (folder / "01_depth-2_seed-0" / "metrics.json").stat().st_mtime_ns
    (folder / "02_depth-2_seed-1" / "metrics.json").unlink()
    again = sweep(tmp_path, f"+resume={folder}")
    assert again.stdout.count("there already") == 1
    assert (folder / "01_depth-2_seed-0" / "metrics.json").stat().st_mtime_ns == kept
    assert (folder / "03_depth-2_seed-1" / "metrics.json").is_file(), "02 still holds files, and 03 had failed"
    seeds = [yaml.safe_load((run / "config.yaml").read_text())["seed"] for run in find_runs([folder])]
    assert sorted(seeds) == [0, 1]
    assert len(find_failed([folder])) == 2, "what fails again is listed again, once"


def test_an_interrupt_while_the_report_is_written_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(folders: list[Path]) -> None:
        raise KeyboardInterrupt

    dataset = write_table(tmp_path)
    table = [f"dataset.{key}={value}" for key, value in dataset.items() if key != "name"]
    monkeypatch.setattr("fl_app.report.gather.gather", interrupt)
    folder = tmp_path / "sweep"
    arguments = ["engine.kind=in_process", "references=false", "dataset=table", *table, f"output={folder}"]
    assert dpforest(["sweep", *arguments]) == 130
    advice = f"interrupted; go on with dpforest resume {folder} (or python -m fl_app +resume={folder})"
    assert advice.replace(" ", "") in "".join(capsys.readouterr().out.split())


def test_an_experiment_is_recognised_by_its_folder(tmp_path: Path) -> None:
    from fl_app.client_app import app as client_app
    from fl_app.engine.in_process import InProcessGrid
    from fl_app.jobs.record import run_job

    dataset = write_table(tmp_path)
    run_job(make(dataset, seed=1, memorization=[5]), InProcessGrid(client_app, 4), tmp_path / "sweep" / "0")
    missing = Missing(tmp_path / "sweep")
    assert missing.has(make(dataset, seed=1, memorization=[5]))
    assert not missing.has(make(dataset, seed=2, memorization=[5]))
    assert not missing.has(make(dataset, seed=1, memorization=[5], epsilon="inf"))
    table = tmp_path / "sweep" / "0" / "clients.csv"
    table.write_text(table.read_text().rpartition("\n")[0])
    assert not Missing(tmp_path / "sweep").has(make(dataset, seed=1, memorization=[5])), "what a report calls damaged"


def test_a_schema_that_is_none_is_refused_before_an_engine_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def never(*asked: object) -> None:
        pytest.fail("an engine was started")

    monkeypatch.setattr("fl_app.jobs.engine.WarmEngine.grid", never)
    tables = tmp_path / "tables"
    tables.mkdir()
    for client in ("a", "b"):
        (tables / f"{client}.csv").write_text("x,y\n1,0\n")
    schema = tmp_path / "nowhere.yaml"
    dataset = ["dataset=table", f"dataset.path={tables}", f"dataset.schema={schema}"]
    assert dpforest(["run", *dataset, f"output={tmp_path / 'run'}"]) == 1
    assert f"no schema file at {schema}" in capsys.readouterr().out.replace("\n", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-m", "seed=1,2", "report.target=high"], "report.target 'high' must be a score such as 0.9, or a share"),
        (["report.target=0.9"], "report.target is for the report of a sweep: add -m; or afterwards"),
    ],
)
def test_a_wanted_score_is_checked_before_anything_runs(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dpforest(["run", *arguments, f"output={tmp_path / 'here'}"]) == 2
    said = capsys.readouterr().err
    assert f"error: {message}" in said
    assert said.count("\n") == 1
    assert not (tmp_path / "here").exists()
