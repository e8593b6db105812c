"""Sweeps by Hydra's launchers and sweepers, with a user's own files, and over what only some strategies have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hand_made import write_table

from fl_app.commands.cli import main as dpforest
from fl_app.config.compose import compose_config, plain_overrides
from fl_app.engine.experiment import ConfigurationError
from fl_app.jobs.expansion import expand
from fl_app.jobs.job import objective
from fl_app.results.finished import FinishedRun, read_run
from fl_app.results.mlflow import MlflowTracker
from fl_app.results.rows import read_runs
from fl_app.results.run_folder import STATEMENT, failure_of, find_failed, find_runs, is_refused

# Of four clients: with epsilon 0.1, nothing can be learned.
CLIENT_LEVEL = ["strategy=boost", "rounds=1", "privacy.unit=client", "privacy.trust=local", "privacy.delta=1e-5"]


@pytest.fixture
def table(tmp_path: Path) -> list[str]:
    """Options of a small table, in process."""
    dataset: dict[str, Any] = write_table(tmp_path)
    options = [f"dataset.{key}={value}" for key, value in dataset.items() if key != "name"]
    return ["engine.kind=in_process", "references=false", "dataset=table", *options, "strategy.depth=2"]


@pytest.fixture(params=["basic", "joblib"])
def any_launcher(request: pytest.FixtureRequest) -> str:
    """A sweep's runs in its own process, or in others."""
    if request.param == "joblib":
        pytest.importorskip("hydra_plugins.hydra_joblib_launcher")
    return str(request.param)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A user's own configuration files."""
    folder = tmp_path / "it's mine"
    for name, text in {
        "strategy/shallow.yaml": "defaults:\n  - one_shot\n  - _self_\ndepth: 2\n",
        "experiment/mine.yaml": "# @package _global_\ndefaults:\n  - override /strategy: shallow\nseed: 7\n",
    }.items():
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(text)
    return folder


def numbers(folder: Path) -> dict[int, float]:
    """Accuracy of each seed."""
    return {run.config["seed"]: run.metrics["accuracy"] for run in read_runs([folder])}


@pytest.mark.parametrize(
    ("plugin", "launcher"),
    [
        ("hydra_joblib_launcher", ["hydra/launcher=joblib", "hydra.launcher.n_jobs=2"]),
        ("hydra_submitit_launcher", ["hydra/launcher=submitit_local"]),
    ],
)
def test_a_launcher_runs_a_sweep_with_the_same_numbers_and_resumes_it(
    plugin: str, launcher: list[str], table: list[str], tmp_path: Path
) -> None:
    pytest.importorskip(f"hydra_plugins.{plugin}")
    here, there = tmp_path / "here", tmp_path / "there"
    assert dpforest(["sweep", *table, "seed=0,1", f"output={here}"]) == 0
    assert dpforest(["sweep", *table, "seed=0,-1,1", f"output={there}", *launcher]) == 1
    assert numbers(there) == numbers(here)
    assert [run.name for run in find_runs([there])] == ["01_seed-0", "03_seed-1"], "a folder has its run's number"
    assert [run.name for run in find_failed([there])] == ["02_seed--1"]
    assert (there / "results.csv").is_file()
    assert (there / "report.html").is_file()

    kept = (there / "01_seed-0" / "metrics.json").stat().st_mtime_ns
    (there / "03_seed-1" / "metrics.json").unlink()
    assert dpforest(["resume", str(there), "seed=0,1"]) == 0
    assert numbers(there) == numbers(here)
    assert (there / "01_seed-0" / "metrics.json").stat().st_mtime_ns == kept


def test_runs_that_are_launched_together_have_folders_of_their_own(table: list[str], tmp_path: Path) -> None:
    pytest.importorskip("hydra_plugins.hydra_joblib_launcher")
    folder = tmp_path / "sweep"
    assert dpforest(["sweep", *table, "seed=0,1", f"output={folder}"]) == 0
    # The first two are new, and their own numbers are taken; the last has the number that the first would get.
    again = ["resume", str(folder), "seed=2,3,4", "hydra/launcher=joblib"]
    assert dpforest(again) == 0
    assert numbers(folder).keys() == {0, 1, 2, 3, 4}


def test_a_sweep_into_a_folder_that_cannot_be_made_says_so(
    table: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert dpforest(["sweep", *table, "seed=0,1", f"output={tmp_path / 'file' / 'sweep'}"]) == 2
    assert "sweep: Not a directory; choose another folder with output=..." in capsys.readouterr().err


def test_a_run_that_fails_in_a_process_of_its_own_leaves_its_folder(
    table: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("hydra_plugins.hydra_joblib_launcher")
    folder = tmp_path / "sweep"
    epsilon = "privacy.epsilon=1e-320"  # valid, and too small for any mechanism
    assert dpforest(["sweep", *table, epsilon, f"output={folder}", "hydra/launcher=joblib"]) == 1
    assert [run.name for run in find_failed([folder])] == ["01"]
    assert "runs that failed: 1" in capsys.readouterr().out


def test_a_sweep_goes_well_though_nothing_can_be_learned_in_some_of_its_runs(
    any_launcher: str, table: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "sweep"
    asked = ["privacy.epsilon=0.1,inf", f"output={folder}", f"hydra/launcher={any_launcher}"]
    assert dpforest(["sweep", *table, *CLIENT_LEVEL, *asked]) == 0
    said = capsys.readouterr().out
    assert "runs left out, as nothing can be learned: 1" in said
    assert "runs that failed" not in said
    assert [is_refused(failure_of(run)) for run in find_failed([folder])] == [True]
    assert "<td>nothing can be learned</td>" in (folder / "report.html").read_text()
    # A run of its own has failed all the same.
    assert dpforest(["run", *table, *CLIENT_LEVEL, "privacy.epsilon=0.1", f"output={tmp_path / 'run'}"]) == 1


def test_a_run_that_finds_its_folder_taken_has_failed_whatever_lies_there(
    any_launcher: str, table: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "sweep"
    asked = ["privacy.epsilon=0.1,inf", f"output={folder}", "hydra.sweep.subdir=same", f"hydra/launcher={any_launcher}"]
    assert dpforest(["sweep", *table, *CLIENT_LEVEL, *asked]) == 1
    said = capsys.readouterr().out
    assert "runs left out, as nothing can be learned: 1" in said
    assert "runs that failed: 1" in said
    assert "choose another output folder" in said.split("runs that failed: 1")[1]


def test_a_sweeper_searches_the_least_of_a_metric_and_goes_on(
    table: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("hydra_plugins.hydra_optuna_sweeper")
    folder = tmp_path / "search"
    search = ["hydra/sweeper=optuna", "hydra.sweeper.n_jobs=1", "hydra.sweeper.sampler.seed=1"]
    asked = ["privacy.epsilon=interval(0.1,50)", "hydra.sweeper.n_trials=3", f"output={folder}"]
    assert dpforest(["sweep", *table, *search, *asked]) == 0
    runs = read_runs([folder])
    found = yaml.safe_load((folder / "optimization_results.yaml").read_text())
    assert found["best_value"] == min(run.metrics["log_loss"] for run in runs)
    assert len(runs) == 3
    capsys.readouterr()
    assert dpforest(["resume", str(folder), "hydra.sweeper.n_trials=4"]) == 0
    assert capsys.readouterr().out.count("there already") == 3
    assert len(read_runs([folder])) == 4


def test_an_interval_needs_a_sweeper(capsys: pytest.CaptureFixture[str]) -> None:
    assert dpforest(["sweep", "privacy.epsilon=interval(0.1,1)"]) == 2
    assert "an interval needs a sweeper that searches it, such as hydra/sweeper=optuna" in capsys.readouterr().err


def test_a_plugin_that_is_not_there_is_named_with_its_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert dpforest(["sweep", "seed=1,2", "hydra/launcher=faraway"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: no hydra/launcher 'faraway' (there are basic")
    assert "pip install hydra-faraway-launcher" in error


def test_the_objective_is_a_number_of_the_run() -> None:
    assert objective(None, {"log_loss": 0.5, "accuracy": 0.9, "confusion": [[1]]}) == 0.5
    assert objective(None, {"mae": 2.0}) == 2.0
    assert objective("accuracy", {"log_loss": 0.5, "accuracy": 0.9}) == 0.9
    with pytest.raises(ConfigurationError, match=r"objective 'confusion' is none of .*metrics: accuracy"):
        objective("confusion", {"accuracy": 0.9, "confusion": [[1]]})


def test_a_users_own_files_are_found(own: Path, table: list[str], tmp_path: Path) -> None:
    place = f"--config-dir={own}"
    assert dpforest(["run", place, "+experiment=mine", *table[:-1], f"output={tmp_path / 'run'}"]) == 0
    assert numbers(tmp_path / "run").keys() == {7}
    folder = tmp_path / "sweep"
    assert dpforest(["sweep", place, *table[:-1], "strategy=shallow,centralized", f"output={folder}"]) == 0
    assert len(find_runs([folder])) == 2
    (folder / "01_shallow" / "metrics.json").unlink()
    assert dpforest(["resume", str(folder)]) == 0, "it knows where the files are"
    assert len(find_runs([folder])) == 2


def test_a_folder_of_own_files_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert dpforest(["run", "--config-dir", "nowhere"]) == 2
    assert "--config-dir 'nowhere' is no folder" in capsys.readouterr().err


def test_glob_finds_files_of_a_group() -> None:
    (found,) = plain_overrides(["strategy=glob(one_shot*)"])
    assert found == "strategy=one_shot,one_shot_published"
    assert plain_overrides(["+experiment=frontier", "+strategy.new=1"]) == ["experiment=frontier", "+strategy.new=1"]
    with pytest.raises(ConfigurationError, match=r"strategy=glob\(zz\*\): fits no strategy \(there are alone, boost"):
        plain_overrides(["strategy=glob(zz*)"])
    with pytest.raises(ConfigurationError, match=r"glob\(\) is for files of"):
        plain_overrides(["seed=glob(*)"])


def test_an_option_goes_to_the_strategies_that_have_it() -> None:
    runs = expand(["strategy=one_shot,boost", "strategy.candidates=grid", "strategy.clip=1,2", "seed=3"])
    assert runs == [
        ["strategy=one_shot", "strategy.candidates=grid", "seed=3"],
        ["strategy=boost", "strategy.clip=1", "seed=3"],
        ["strategy=boost", "strategy.clip=2", "seed=3"],
    ]
    for run in runs:
        compose_config(run)


def test_an_option_that_no_strategy_has_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert dpforest(["sweep", "strategy=one_shot,boost", "strategy.clipp=1"]) == 2
    assert "error: no option 'strategy.clipp'; did you mean 'strategy.clip'?" in capsys.readouterr().err


def test_several_experiments_bring_the_axes_of_each() -> None:
    both = expand(["experiment=compare_watch,compare_hugadb"])
    assert both == expand(["experiment=compare_watch"]) + expand(["experiment=compare_hugadb"])


def test_a_sweep_attacks_its_runs_before_they_are_written_about(
    table: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracked: list[tuple[FinishedRun, str]] = []

    def track(tracker: MlflowTracker, folder: Path) -> None:
        tracked.append((read_run(folder), (folder / STATEMENT).read_text(encoding="utf-8")))

    monkeypatch.setattr(MlflowTracker, "log", track)
    monkeypatch.setattr(MlflowTracker, "log_sweep", lambda *_, **__: None)
    monkeypatch.setattr("fl_app.jobs.job.build_tracker", lambda *_: MlflowTracker("", "", None))
    place = tmp_path / "sweep"
    assert dpforest(["sweep", *table, "strategy=one_shot", "attack_models=4", f"output={place}"]) == 0
    ((run, statement),) = tracked
    assert run.attack is not None
    assert run.attack["models"] == 4
    assert "none were run" not in statement.partition("Attacks")[2]
    assert f"{run.attack['membership'][0]['area'][0]:.3f}" in statement
    assert list((place / "figures").rglob("membership*.svg"))


def test_too_few_shadow_models_of_a_sweep_are_refused_in_one_line(table: list[str], tmp_path: Path) -> None:
    assert dpforest(["run", *table[:-1], "attack_models=2", f"output={tmp_path / 'run'}"]) == 1
    assert not (tmp_path / "run" / "metrics.json").exists()
