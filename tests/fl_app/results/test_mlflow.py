"""Runs are logged to MLflow when asked: to the real one where it is installed, else to a recorder of its calls."""

from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from hand_made import CLIENTS, make, write_table

from fl_app.client_app import app as client_app
from fl_app.config.compose import compose_config, to_experiment
from fl_app.engine.experiment import ConfigurationError
from fl_app.engine.in_process import InProcessGrid
from fl_app.jobs.record import run_job
from fl_app.results.mlflow import MlflowTracker, build_tracker
from fl_app.results.run_folder import is_finished


class Recorder:
    """The part of MLflow's client that is used, with its signatures."""

    def __init__(self) -> None:
        self.experiments: dict[str, str] = {}
        self.runs: dict[str, dict[str, Any]] = {}

    def module(self) -> types.ModuleType:
        recorder = self

        class Failure(Exception):
            pass

        class Client:
            def __init__(self, tracking_uri: str) -> None:
                if tracking_uri.startswith("http"):
                    raise Failure("no server\nthere")

            def get_experiment_by_name(self, name: str) -> Any:
                found = recorder.experiments.get(name)
                return types.SimpleNamespace(experiment_id=found) if found else None

            def create_experiment(self, name: str) -> str:
                recorder.experiments[name] = str(len(recorder.experiments) + 1)
                return recorder.experiments[name]

            def create_run(self, experiment_id: str, run_name: str) -> Any:
                number = f"r{len(recorder.runs)}"
                recorder.runs[number] = {"experiment": experiment_id, "name": run_name, "tags": {}, "params": {},
                                         "metrics": [], "files": set(), "ended": False}  # fmt: skip
                return types.SimpleNamespace(info=types.SimpleNamespace(run_id=number))

            def set_tag(self, run_id: str, key: str, value: str) -> None:
                recorder.runs[run_id]["tags"][key] = value

            def log_batch(self, run_id: str, metrics: Any = (), params: Any = ()) -> None:
                assert len(metrics) <= 1000
                assert len(params) <= 100
                recorder.runs[run_id]["params"] |= dict(params)
                recorder.runs[run_id]["metrics"] += list(metrics)

            def log_artifacts(self, run_id: str, local_dir: str) -> None:
                recorder.runs[run_id]["files"] = {path.name for path in Path(local_dir).iterdir()}

            def set_terminated(self, run_id: str) -> None:
                recorder.runs[run_id]["ended"] = True

        module: Any = types.ModuleType("mlflow")
        module.MlflowClient = Client
        module.entities = types.SimpleNamespace(
            Param=lambda key, value: (key, value),
            Metric=lambda key, value, timestamp, step: (key, value, step),
        )
        module.exceptions = types.SimpleNamespace(MlflowException=Failure)
        return module


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder()
    monkeypatch.setitem(sys.modules, "mlflow", recorder.module())
    return recorder


def test_runs_of_a_sweep_are_logged_to_one_experiment(recorder: Recorder, tmp_path: Path) -> None:
    dataset = write_table(tmp_path)
    tracker = build_tracker({"kind": "mlflow", "uri": None}, "sweep-1", tmp_path)
    for seed in (1, 2):
        run_job(make(dataset, seed=seed), InProcessGrid(client_app, CLIENTS), tmp_path / str(seed), tracker=tracker)
    assert recorder.experiments == {"sweep-1": "1"}
    assert [run["name"] for run in recorder.runs.values()] == ["1", "2"]
    first = recorder.runs["r0"]
    assert first["ended"]
    assert first["params"]["strategy.name"] == "one_shot"
    assert first["params"]["privacy.epsilon"] == "2.0"
    assert first["tags"]["guarantee"].startswith("epsilon = 2 (pure) for one record")
    assert {"privacy.json", "config.yaml", "model", "rounds.csv"} <= first["files"]
    steps = {(name, step) for name, _, step in first["metrics"]}
    assert {("accuracy", 0), ("round/accuracy", 1), ("round/bytes_up", 1)} <= steps


def test_a_tracker_that_fails_spoils_no_run(
    recorder: Recorder, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tracker = build_tracker({"kind": "mlflow", "uri": "http://localhost:1"}, "x", tmp_path)
    run_job(make(write_table(tmp_path)), InProcessGrid(client_app, CLIENTS), tmp_path / "run", tracker=tracker)
    assert is_finished(tmp_path / "run")
    assert "run is whole, but not in MLflow at http://localhost:1: no server there" in caplog.text


def test_tracking_is_off_and_no_part_of_an_experiment(tmp_path: Path) -> None:
    assert build_tracker(compose_config([]).tracking, "x", tmp_path) is None
    assert to_experiment(compose_config(["tracking=mlflow"])).to_dict() == to_experiment(compose_config([])).to_dict()


def test_without_mlflow_the_answer_is_how_to_install_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(ConfigurationError, match=r'pip install "dpforest\[mlflow\]"'):
        build_tracker(compose_config(["tracking=mlflow"]).tracking, "x", tmp_path)
    with pytest.raises(ConfigurationError, match=r"tracking\.kind 'wandb' must be mlflow"):
        build_tracker({"kind": "wandb"}, "x", tmp_path)


@pytest.mark.skipif(not importlib.util.find_spec("mlflow"), reason="MLflow is not installed")
def test_the_real_mlflow_takes_a_run(tmp_path: Path) -> None:
    import mlflow

    tracker = build_tracker({"kind": "mlflow"}, "sweep <1>", tmp_path)
    assert isinstance(tracker, MlflowTracker)
    run_job(make(write_table(tmp_path)), InProcessGrid(client_app, CLIENTS), tmp_path / "run", tracker=tracker)
    client = mlflow.MlflowClient(tracking_uri=tracker.uri)
    (run,) = client.search_runs([client.get_experiment_by_name("sweep <1>").experiment_id])
    assert run.info.status == "FINISHED"
    assert run.data.params["strategy.name"] == "one_shot"
    assert 0 < run.data.metrics["accuracy"] <= 1
    assert [metric.step for metric in client.get_metric_history(run.info.run_id, "round/accuracy")] == [1]
    assert "privacy.json" in {file.path for file in client.list_artifacts(run.info.run_id)}
