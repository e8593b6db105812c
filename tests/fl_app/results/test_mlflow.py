"""Runs are logged to MLflow when asked: to the real one where it is installed, else to a recorder of its calls."""

from __future__ import annotations

import importlib.util
import json
import sys
import types
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hand_made import CLIENTS, make, write_table
from made_up_runs import write_run

from dpforest.forest import load
from fl_app.client_app import app as client_app
from fl_app.commands.cli import main as dpforest
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

            def create_run(
                self, experiment_id: str, start_time: int | None = None, tags: Any = None, run_name: str = ""
            ) -> Any:
                number = f"r{len(recorder.runs)}"
                recorder.runs[number] = {"experiment": experiment_id, "name": run_name, "tags": dict(tags or {}),
                                         "params": {}, "metrics": [], "files": set(), "ended": "",
                                         "times": [start_time]}  # fmt: skip
                return types.SimpleNamespace(info=types.SimpleNamespace(run_id=number))

            def search_runs(self, experiment_ids: list[str], filter_string: str, max_results: int) -> list[Any]:
                place = filter_string.partition("= '")[2].removesuffix("'")
                found = [number for number, run in recorder.runs.items() if run["tags"].get("dpforest.sweep") == place]
                return [types.SimpleNamespace(info=types.SimpleNamespace(run_id=number)) for number in found]

            def set_tag(self, run_id: str, key: str, value: str) -> None:
                recorder.runs[run_id]["tags"][key] = value

            def log_batch(self, run_id: str, metrics: Any = (), params: Any = ()) -> None:
                assert len(metrics) <= 1000
                assert len(params) <= 100
                recorder.runs[run_id]["params"] |= dict(params)
                recorder.runs[run_id]["metrics"] += list(metrics)

            def log_artifacts(self, run_id: str, local_dir: str, artifact_path: str = "") -> None:
                recorder.runs[run_id]["files"] |= {
                    f"{artifact_path}/{path.name}".strip("/") for path in Path(local_dir).iterdir()
                }

            def log_artifact(self, run_id: str, local_path: str) -> None:
                recorder.runs[run_id]["files"].add(Path(local_path).name)

            def set_terminated(self, run_id: str, status: str = "FINISHED", end_time: int | None = None) -> None:
                recorder.runs[run_id]["ended"] = status
                recorder.runs[run_id]["times"].append(end_time)

        module: Any = types.ModuleType("mlflow")
        module.MlflowClient = Client
        module.entities = types.SimpleNamespace(
            Param=lambda key, value: (key, value),
            Metric=lambda key, value, timestamp, step: (key, value, step),
        )
        module.exceptions = types.SimpleNamespace(MlflowException=Failure)
        return module

    @staticmethod
    def parts() -> dict[str, types.SimpleNamespace]:
        """Its modules for models."""

        def save_model(path: str, **about: Any) -> None:
            assert set(about) == {"loader_module", "data_path", "signature", "pip_requirements"}
            Path(path).mkdir()
            (Path(path) / "MLmodel").write_text("")

        return {
            "mlflow.pyfunc": types.SimpleNamespace(save_model=save_model),
            "mlflow.types": types.SimpleNamespace(Schema=list, ColSpec=lambda kind, name: (kind, name)),
            "mlflow.models": types.SimpleNamespace(ModelSignature=lambda inputs, outputs: (inputs, outputs)),
        }


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.delenv("MLFLOW_EXPERIMENT_NAME", raising=False)
    recorder = Recorder()
    for name, part in {"mlflow": recorder.module(), **recorder.parts()}.items():
        monkeypatch.setitem(sys.modules, name, part)
    return recorder


def test_runs_of_a_sweep_are_children_of_one(recorder: Recorder, tmp_path: Path) -> None:
    dataset = write_table(tmp_path)
    sweep = tmp_path / "a sweep"
    for seed in (1, 2):
        tracker = build_tracker({"kind": "mlflow", "uri": None}, sweep, tmp_path)
        run_job(make(dataset, seed=seed), InProcessGrid(client_app, CLIENTS), sweep / str(seed), tracker=tracker)
    assert recorder.experiments == {"dpforest": "1"}
    parent, first = recorder.runs["r0"], recorder.runs["r1"]
    assert parent["name"] == "a sweep"
    assert first["ended"] == "FINISHED"
    assert [run["tags"].get("mlflow.parentRunId") for run in recorder.runs.values()] == [None, "r0", "r0"]
    assert first["params"]["strategy.name"] == "one_shot"
    assert first["params"]["privacy.epsilon"] == "2.0"
    assert first["tags"]["guarantee"].startswith("epsilon = 2 (pure) for one record")
    assert {"privacy.json", "config.yaml", "model", "rounds.csv", "pyfunc/MLmodel"} <= first["files"]
    steps = {(name, step) for name, _, step in first["metrics"]}
    assert {("accuracy", 0), ("round/accuracy", 1), ("round/bytes_up", 1)} <= steps
    began, ended = first["times"]
    assert began == int((sweep / "1" / "config.yaml").stat().st_mtime * 1000)
    assert ended == int((sweep / "1" / "metrics.json").stat().st_mtime * 1000)


def test_an_attack_is_logged_with_what_epsilon_allows(recorder: Recorder, tmp_path: Path) -> None:
    line = {"of": "this method", "level": "file", "attack": "a", "whose": "models like it", "area": [0.6, 0.5, 0.7],
            "balanced_accuracy": [0.55, 0.5, 0.6], "true_positives": {}, "members": 1, "others": 1}  # fmt: skip
    allowed = {"area": 0.73, "balanced_accuracy": 0.73, "true_positives": {}}
    attack = {"method": "fext", "epsilon": 1.0, "delta": 0.0, "holds": True, "models": 4, "records": 2, "seconds": 1.0,
              "membership": [line], "allowed": allowed, "score": 0.9, "influence": None, "controls": [], "words": [],
              "reconstruction": {"lines": [], "note": ""}, "attributes": {"lines": [], "note": ""}}  # fmt: skip
    run = write_run(tmp_path / "run", "fext")
    (run / "attack.json").write_text(json.dumps(attack))
    MlflowTracker("file:x", "e", None).log(run)
    (logged,) = recorder.runs.values()
    found = {name: value for name, value, _ in logged["metrics"] if name.startswith("attack/")}
    assert found == {"attack/file/area": 0.6, "attack/file/balanced_accuracy": 0.55, "attack/allowed/area": 0.73,
                     "attack/all other rows/area": 0.6, "attack/all other rows/balanced_accuracy": 0.55}  # fmt: skip


def test_a_tracker_that_fails_spoils_no_run(
    recorder: Recorder, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tracker = build_tracker({"kind": "mlflow", "uri": "http://localhost:1"}, None, tmp_path)
    run_job(make(write_table(tmp_path)), InProcessGrid(client_app, CLIENTS), tmp_path / "run", tracker=tracker)
    assert is_finished(tmp_path / "run")
    assert "run is whole, but not in MLflow at http://localhost:1: no server there" in caplog.text


def test_a_sweep_leaves_its_report_and_failed_runs(recorder: Recorder, tmp_path: Path) -> None:
    table = [f"dataset.{key}={value}" for key, value in write_table(tmp_path).items() if key != "name"]
    folder = tmp_path / "sweep"
    options = [
        "engine.kind=in_process",
        "tracking=mlflow",
        "references=false",
        f"output={folder}",
        "dataset=table",
        *table,
    ]
    assert dpforest(["sweep", *options, "strategy.depth=2,-3"]) == 1
    by_name = {run["name"]: run for run in recorder.runs.values()}
    assert by_name["01_depth-2"]["ended"] == "FINISHED"
    assert by_name["02_depth--3"]["ended"] == "FAILED"
    assert "depth -3 must be" in by_name["02_depth--3"]["tags"]["failure"]
    assert by_name["sweep"]["ended"] == "FAILED"
    assert {"report.html", "results.csv"} <= by_name["sweep"]["files"]
    assert any(name.startswith("figures/") for name in by_name["sweep"]["files"])
    assert len(recorder.runs) == 3


def test_the_environment_names_server_and_experiment(
    recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///there.db")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "mine")
    tracker = build_tracker({"kind": "mlflow", "uri": None}, None, tmp_path)
    assert tracker == MlflowTracker("sqlite:///there.db", "mine")
    named = build_tracker({"kind": "mlflow", "uri": "http://here"}, None, tmp_path)
    assert named is not None
    assert named.uri == "http://here", "the configuration's own word counts more"


def test_tracking_is_off_and_no_part_of_an_experiment(tmp_path: Path) -> None:
    assert build_tracker(compose_config([]).tracking, None, tmp_path) is None
    assert to_experiment(compose_config(["tracking=mlflow"])).to_dict() == to_experiment(compose_config([])).to_dict()


def test_without_mlflow_the_answer_is_how_to_install_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(ConfigurationError, match=r'pip install "dpforest\[mlflow\]"'):
        build_tracker(compose_config(["tracking=mlflow"]).tracking, None, tmp_path)
    with pytest.raises(ConfigurationError, match=r"tracking\.kind 'wandb' must be mlflow"):
        build_tracker({"kind": "wandb"}, None, tmp_path)


@pytest.mark.skipif(not importlib.util.find_spec("mlflow"), reason="MLflow is not installed")
def test_the_real_mlflow_takes_a_sweep_and_loads_its_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import mlflow

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.delenv("MLFLOW_EXPERIMENT_NAME", raising=False)
    table = [f"dataset.{key}={value}" for key, value in write_table(tmp_path).items() if key != "name"]
    folder = tmp_path / "it's <1>"
    output = "output='" + str(folder).replace("'", "\\'") + "'"
    options = ["engine.kind=in_process", "tracking=mlflow", "references=false", output]
    assert dpforest(["sweep", *options, "dataset=table", *table, "strategy.depth=2,-3"]) == 1
    client = mlflow.MlflowClient(tracking_uri=(tmp_path / "mlruns").as_uri())
    found = client.search_runs([client.get_experiment_by_name("dpforest").experiment_id])
    runs = {run.info.run_name: run for run in found}
    assert {name: run.info.status for name, run in runs.items()} == {
        "it's <1>": "FAILED", "01_depth-2": "FINISHED", "02_depth--3": "FAILED"
    }  # fmt: skip
    run = runs["01_depth-2"]
    assert run.data.tags["mlflow.parentRunId"] == runs["it's <1>"].info.run_id
    assert run.info.start_time <= run.info.end_time
    assert 0 < run.data.metrics["accuracy"] <= 1
    assert [metric.step for metric in client.get_metric_history(run.info.run_id, "round/accuracy")] == [1]
    assert "report.html" in {file.path for file in client.list_artifacts(runs["it's <1>"].info.run_id)}
    model = mlflow.pyfunc.load_model(client.download_artifacts(run.info.run_id, "pyfunc", str(tmp_path)))
    forest = load(folder / "01_depth-2" / "model" / "forest.json")
    assert model.metadata.get_input_schema().input_names() == list(forest.schema.columns)
    frame = pd.DataFrame({feature.name: [feature.low, feature.high] for feature in forest.schema.features})
    predicted = model.predict(frame)
    assert predicted.filter(like="probability_").to_numpy() == pytest.approx(
        forest.predict_proba(forest.schema.matrix(frame))
    )
    assert set(predicted["prediction"]) <= set(forest.schema.classes)
