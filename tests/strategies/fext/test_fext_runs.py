"""Whole runs of FEXT-DP through the app, on a made-up table of targets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from flwr.app import RecordDict
from hand_made import CLIENTS, Act, Interfering, make, run, table_rows, with_arrays, with_content

from dpforest.errors import DPForestError
from fl_app.client_app import app as client_app
from fl_app.commands.cli import main as dpforest
from fl_app.config.compose import compose_config, to_experiment
from fl_app.engine.in_process import InProcessGrid
from fl_app.jobs.record import run_job
from fl_app.report.figures.catalogue import write_all
from fl_app.report.figures.rounds import stability_rows
from fl_app.report.gather import gather
from fl_app.results.rows import distinct_columns
from strategies.fext.client import SCORES
from strategies.messages import ARRAYS, to_arrays_record

TREES = {"name": "fext", "depth": 3, "shared_below": None, "leaf_share": 0.5, "calibrate": False}


@pytest.fixture
def table(tmp_path: Path) -> dict[str, Any]:
    X, _ = table_rows(200 * CLIENTS)
    lines = ["client,a,b,use"]
    lines += [f"c{i % CLIENTS},{a:.6f},{b:.6f},{20 + 60 * (a > 0.5):.1f}" for i, (a, b) in enumerate(X)]
    (tmp_path / "table.csv").write_text("\n".join(lines) + "\n")
    features = [{"name": "a", "low": 0, "high": 1}, {"name": "b", "low": 0, "high": 1}]
    schema = {"target": "use", "target_range": [0, 100], "target_unit": "Wh", "rows": 200, "features": features}
    (tmp_path / "schema.yaml").write_text(yaml.safe_dump(schema))
    return {
        "name": "table",
        "path": str(tmp_path / "table.csv"),
        "schema": str(tmp_path / "schema.yaml"),
        "client_column": "client",
    }


def fext(table: dict[str, Any], epsilon: float | str = 20.0, public_share: float = 0.25, **options: Any) -> Any:
    settings = {key: options.pop(key) for key in list(options) if key not in ("rounds", "seed", "partition")}
    return make(table, epsilon, strategy=TREES | settings, evaluation={"public_share": public_share}, **options)


@pytest.mark.parametrize("filter_by", ["public", "clients"])
def test_a_run_reports_rounds_trees_importances_and_its_total_epsilon(table: dict[str, Any], filter_by: str) -> None:
    finished = run(fext(table, rounds=2, filter_by=filter_by, k=0.3))
    assert finished.metrics["r2"] > 0.8
    assert finished.privacy["epsilon"] == pytest.approx(20.0)
    assert finished.metrics["importances"]["a"] > 0.8
    ends = [row for row in finished.rounds if "trees_kept" in row]
    assert len(ends) == 2
    assert all(row["mse"] >= 0 and row["trees_kept"] + row["trees_rejected"] == CLIENTS for row in ends)


def test_a_filter_without_public_rows_is_refused_before_anything_is_sent(table: dict[str, Any]) -> None:
    with pytest.raises(DPForestError, match=r"set evaluation\.public_share above 0, or strategy\.filter_by=clients"):
        run(fext(table, public_share=0.0))


def test_public_rows_reach_the_server_only(table: dict[str, Any]) -> None:
    experiment = fext(table)
    assert experiment.task(CLIENTS).public_rows is None
    load = experiment.server_task(CLIENTS).public_rows
    assert load is not None
    X, y = load()
    assert X.shape == (len(y), 2)
    assert len(y) == CLIENTS * 10


def test_a_plan_without_noise_says_so(table: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        run(fext(table, "inf"))
    planned = [message for message in caplog.messages if "each client releases" in message]
    assert planned
    assert all("no noise" in message and "inf" not in message for message in planned)


def test_a_run_says_that_public_rows_are_outside_the_guarantee(table: dict[str, Any]) -> None:
    said = run(fext(table, public_share=0.25)).privacy["note"]
    assert said == "0.25 of the test rows are declared public: the server may see them in clear, outside the guarantee"
    assert run(fext(table, public_share=0.0, k=None)).privacy["note"] == ""


def test_all_clients_rejected_in_every_round(table: dict[str, Any]) -> None:
    finished = run(fext(table, rounds=2, k=1.0, own_model="ignore"))
    assert finished.metrics["rounds_without_a_kept_tree"] == [1, 2]
    assert finished.metrics["trees"] == 0
    assert np.isfinite(finished.metrics["mse"])


@pytest.mark.parametrize("filter_by", ["public", "clients"])
@pytest.mark.parametrize(
    "act",
    [
        with_arrays(left=np.zeros(7, dtype=np.int32)),
        with_arrays(value=None),
        with_arrays(value=np.full((8, 1), np.nan, dtype=np.float32)),
        with_content(RecordDict({ARRAYS: to_arrays_record({SCORES: np.zeros(CLIENTS + 2, dtype=np.int64)})})),
        with_arrays(scores=np.zeros(CLIENTS + 2, dtype=np.int64), feature=None),
    ],
    ids=["cycle", "no leaves", "NaN", "no ledger", "scores for trees"],
)
def test_a_client_whose_trees_are_not_sound_costs_its_own_only(table: dict[str, Any], filter_by: str, act: Act) -> None:
    finished = run(fext(table, rounds=2, filter_by=filter_by, k=0.3), app=Interfering({2: act}))
    assert {failure.client for failure in finished.failures} == {2}
    assert set(finished.metrics["trees_kept_by_client"]) <= {"0", "1", "3"}
    assert finished.metrics["r2"] > 0.8


def test_a_run_without_rounds_is_refused(table: dict[str, Any]) -> None:
    with pytest.raises(DPForestError, match="rounds 0 must be a whole number from 1"):
        fext(table, rounds=0)


def test_the_published_run_says_that_it_guarantees_nothing(table: dict[str, Any]) -> None:
    settings = {"name": "fext", "accounting": "published", "k": None, "own_model": "ignore"}
    finished = run(make(table, 1.0, strategy=settings, rounds=1))
    assert finished.privacy["guarantee"].startswith("guarantee: none (thresholds are values of records")


def test_comparing_runs_draws_rounds_and_importances_and_measures_stability(
    table: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = tmp_path / "sweep"
    for number, (epsilon, seed) in enumerate([(5.0, 0), (5.0, 1), ("inf", 0), ("inf", 1)]):
        run_job(
            fext(table, epsilon, rounds=2, seed=seed, k=None), InProcessGrid(client_app, CLIENTS), sweep / str(number)
        )
    (section,) = gather([sweep]).sections
    found = {row["epsilon"]: row for row in stability_rows(section)}
    assert found[5.0]["runs"] == 2
    assert -1 <= found[5.0]["spearman"] <= 1
    assert found[5.0]["overlap"] == found[5.0]["overlap_to_no_privacy"] == 1.0, "there are two features only"
    assert found[float("inf")]["spearman"] == pytest.approx(1.0)
    assert dpforest(["compare", str(sweep), "--figures", str(tmp_path / "figures")]) == 0
    assert "rank corr." in capsys.readouterr().out
    written = {file.name for file in (tmp_path / "figures").iterdir()}
    expected = {f"{kind}-table-row-split.svg" for kind in ("rounds", "importance", "importance-map")}
    assert expected | {"importance_stability.csv"} <= written


def test_comparing_runs_draws_bad_clients_and_rows(table: dict[str, Any], tmp_path: Path) -> None:
    sweep = tmp_path / "sweep"
    for number, (share, k) in enumerate([(0.0, "auto"), (0.5, "auto"), (0.0, None), (0.5, None)]):
        experiment = fext(table, k=k, attack="label_flip", attack_share=share)
        run_job(experiment, InProcessGrid(client_app, CLIENTS), sweep / str(number))
    for clients in (2, CLIENTS):
        experiment = fext(table, partition={"kind": "iid", "clients": clients})
        run_job(experiment, InProcessGrid(client_app, clients), tmp_path / "rows" / str(clients))
    (family,) = gather([sweep]).families
    attacked = {run.option("k"): run.metrics["r2"] for run in family.runs if run.option("attack_share")}
    assert attacked["auto"] > 0.8
    assert attacked[None] < 0.5
    assert [path.name for path in write_all(family, tmp_path)] == [
        "attack-table-row-split.svg",
        "attack-table-row-split.png",
    ]
    (family,) = gather([tmp_path / "rows"]).families
    assert [run.metrics["public_rows"] for run in family.runs] == [400, 200]
    assert distinct_columns([run.row for run in family.runs]) == ["asked_clients"]
    assert [path.name for path in write_all(family, tmp_path)] == [
        "rows-table-row-split.svg",
        "rows-table-row-split.png",
    ]


@pytest.mark.parametrize("experiment", ["fext_dp_rows", "fext_poisoning"])
def test_the_experiments_on_rows_and_bad_clients_compose(experiment: str) -> None:
    composed = to_experiment(compose_config([f"experiment={experiment}"]))
    assert composed.settings.accounting == "tight"
    assert composed.evaluation.public_share == 0.25


@pytest.mark.parametrize("experiment", ["fext_dp", "fext_dp_tight"])
def test_the_experiments_of_the_paper_compose(experiment: str) -> None:
    composed = to_experiment(compose_config([f"experiment={experiment}"]))
    assert composed.method.name == "fext"
    assert composed.total_rounds == 40
    assert composed.partition.clients == 20
    published = experiment == "fext_dp"
    assert composed.settings.accounting == ("published" if published else "tight")
    assert composed.evaluation.public_share == (0 if published else 0.25)


def test_a_users_public_share_wins_over_the_strategys() -> None:
    composed = to_experiment(compose_config(["strategy=fext", "evaluation.public_share=0.1"]))
    assert composed.evaluation.public_share == 0.1


def test_appliances_come_with_twenty_clients_unless_said_otherwise() -> None:
    def partition(*overrides: str) -> tuple[str, int | None]:
        composed = to_experiment(compose_config(["strategy=fext", "dataset=appliances", *overrides])).partition
        return composed.kind, composed.clients

    assert partition() == ("iid", 20)
    assert partition("partition=time_blocks") == ("time_blocks", 20)
    assert partition("partition.clients=7") == ("iid", 7)
