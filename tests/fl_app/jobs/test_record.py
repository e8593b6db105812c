"""The main job: one experiment, one run folder, the same numbers for the same seed."""

from __future__ import annotations

import csv
import json
import logging
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hand_made import CLIENTS, TREES, make, run, write_table

from dpforest.errors import BudgetExceeded, DPForestError
from dpforest.forest import load
from dpforest.guarantee import NO_SERVER, RECORD_UNIT
from dpforest.ledger import Entry
from dpforest.mechanisms import DiscreteLaplaceCounts
from dpforest.settings import Settings
from fl_app.client_app import app as client_app
from fl_app.config.compose import compose_config, to_experiment
from fl_app.data import DataError
from fl_app.engine.in_process import InProcessGrid
from fl_app.jobs.record import run_job
from fl_app.report.page import write_report
from fl_app.results.finished import read_run
from fl_app.results.ledger_check import check_ledgers
from fl_app.results.run_folder import OutputError, find_runs
from strategies import registry
from strategies.method import (
    Arrays,
    ClientSide,
    ClientTask,
    ClientUpdate,
    Method,
    Protection,
    Public,
    Released,
    ServerSide,
    Update,
)
from strategies.metrics import memorization_rate

FILES = {
    "config.yaml",
    "metrics.json",
    "rounds.csv",
    "clients.csv",
    "privacy.json",
    "run.log",
    "model",
    "statement.html",
}


@pytest.fixture(scope="module")
def watch(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A run folder of the default job on the smartwatch data, and its `Run`."""
    folder = tmp_path_factory.mktemp("runs") / "watch"
    overrides = ["seed=3", "memorization=[5]"]
    experiment = to_experiment(compose_config(overrides))
    logging.getLogger("fl_app").setLevel(logging.INFO)  # as both doors do
    return folder, run_job(experiment, InProcessGrid(client_app, 10), folder, overrides=overrides)


def test_the_run_folder_has_everything(watch: tuple[Path, Any]) -> None:
    folder, _ = watch
    assert {path.name for path in folder.iterdir()} == FILES
    config = yaml.safe_load((folder / "config.yaml").read_text())
    assert config["overrides"] == ["seed=3", "memorization=[5]"]
    assert config["seed"] == 3
    with (folder / "clients.csv").open() as file:
        clients = list(csv.DictReader(file))
    assert [row["client"] for row in clients] == [str(i) for i in range(10)]
    assert all(int(row["bytes_up"]) > 0 and float(row["accuracy"]) <= 1 for row in clients)
    with (folder / "rounds.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert (row["round"], row["answered"], row["asked"]) == ("1", "10", "10")
    assert "balanced accuracy" in (folder / "run.log").read_text()
    assert find_runs([folder.parent]) == [folder]
    assert read_run(folder).metrics["seconds"] > 0


def test_the_model_in_the_folder_is_the_one_that_was_evaluated(watch: tuple[Path, Any]) -> None:
    folder, done = watch
    forest = load(folder / "model" / "forest.json")
    assert len(set(forest.owners)) == 10
    assert {client["id"] for client in forest.provenance["clients"]} == set(forest.owners)
    assert not set(forest.owners) & set(map(str, range(10))), "names are opaque"
    assert forest.provenance["privacy"]["guarantee"] == done.privacy["guarantee"]
    source = done.experiment.source
    X = np.concatenate([source.load(subject).X for subject in source.subjects()])
    np.testing.assert_allclose(forest.predict_proba(X), done.side.forest.predict_proba(X), atol=1e-6)


def test_metrics_fit_together(watch: tuple[Path, Any]) -> None:
    folder, done = watch
    metrics = json.loads((folder / "metrics.json").read_text())
    confusion = np.array(metrics["confusion"])
    assert metrics["test_rows"] == confusion.sum() == sum(row["test_rows"] for row in done.clients)
    assert metrics["accuracy"] == pytest.approx(np.trace(confusion) / confusion.sum())
    assert 1 / 7 < metrics["worst_client"] <= metrics["accuracy"] <= metrics["best_client"] <= 1
    assert metrics["clients"] == 10
    assert metrics["failures"] == 0
    assert metrics["rounds"] == 1
    assert metrics["bytes_up"] > 1000
    assert metrics["bytes_down"] > 1000
    assert sum(metrics["importances"].values()) == pytest.approx(1)
    assert 0 <= metrics["memorization_rate"]["5"] <= 1
    assert set(metrics["owner_accuracy"]) == {str(i) for i in range(10)}


def test_every_client_spent_the_budget_and_no_more(watch: tuple[Path, Any]) -> None:
    folder, _ = watch
    privacy = json.loads((folder / "privacy.json").read_text())
    assert privacy["epsilon"] == pytest.approx(1)
    assert privacy["delta"] == 0
    assert privacy["unit"] == RECORD_UNIT
    assert privacy["record"].startswith("one window")
    assert set(privacy["clients"]) == {str(i) for i in range(10)}
    for ledger in privacy["clients"].values():
        # The growers split epsilon over depths: the shares of all entries add up by plain composition.
        assert sum(entry["epsilon"] * entry["times"] for entry in ledger["entries"]) == pytest.approx(1)
    assert privacy["noise"].startswith("seeded")


def test_its_statement_and_its_ledgers_say_the_same(watch: tuple[Path, Any]) -> None:
    folder, _ = watch
    page = (folder / "statement.html").read_text(encoding="utf-8")
    assert "epsilon at most 1 (pure, delta 0), for one record" in page
    assert "Run watch: method one_shot" in page
    assert "An hour of recording: at most 3,601 records" in page
    check = check_ledgers(folder)
    assert check.holds
    assert all(claim.difference == pytest.approx(0, abs=1e-9) for claim in check.claims)


@pytest.mark.parametrize(
    ("error", "is_kept"), [(DPForestError("odd numbers"), True), (OSError(28, "No space left"), False)]
)
def test_a_statement_that_cannot_be_made_costs_no_run_but_a_full_disk_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception, is_kept: bool
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("fl_app.report.statement.write_statement", fail)
    folder = tmp_path / "run"
    experiment = to_experiment(compose_config(["strategy.trees=1"]))
    if is_kept:
        run_job(experiment, InProcessGrid(client_app, 10), folder)
        assert "no statement: odd numbers" in caplog.text
        assert {path.name for path in folder.iterdir()} == FILES - {"statement.html"}
    else:
        with pytest.raises(OutputError, match="No space left"):
            run_job(experiment, InProcessGrid(client_app, 10), folder)
        assert find_runs([tmp_path]) == []


def test_golden_run(tmp_path: Path) -> None:
    """Pins the numbers of one seed; a change here changes what everybody's seeds mean."""
    done = run(make(write_table(tmp_path), seed=8, epsilon=0.2))
    assert done.metrics["confusion"] == [[21, 1, 2], [14, 7, 3], [2, 10, 12]]
    assert done.metrics["log_loss"] == pytest.approx(0.9342004967188637, rel=1e-6)


def test_same_seed_same_numbers_other_seed_other_numbers(tmp_path: Path) -> None:
    dataset = write_table(tmp_path)
    first, again, other = (run(make(dataset, seed=seed)).metrics for seed in (1, 1, 2))
    different = {name for name in first if first[name] != again[name]}
    assert different <= {"seconds"}
    assert first["log_loss"] != other["log_loss"]


@pytest.mark.parametrize(
    "strategy",
    [
        TREES | {"selection": "exponential"},
        TREES | {"candidates": "random", "thresholds": 3, "candidate_bounds": {"a": [0.2, 0.8]}},
        TREES | {"trees": 3, "tree_rows": "disjoint", "voting": "hard"},
        TREES | {"trees": 2, "smoothing": "shrink", "shared_below": 1},
        TREES | {"rows": "noised", "depth": "auto", "depth_growth": "auto", "smoothing": "auto"},
        TREES | {"selection": "noisy_counts", "gini": "weighted"},
        {"name": "standalone"} | {k: v for k, v in TREES.items() if k != "name"},
    ],
    ids=["exponential", "random", "disjoint", "shared", "noised rows", "noisy counts", "standalone"],
)
def test_every_setting_spends_exactly_the_budget(tmp_path: Path, strategy: dict[str, Any]) -> None:
    done = run(make(write_table(tmp_path), strategy=strategy, epsilon=4.0))
    assert done.privacy["epsilon"] == pytest.approx(4.0)
    assert not done.failures
    assert done.metrics["accuracy"] > 0.4  # a third would be chance


def test_published_setting_charges_every_node(tmp_path: Path) -> None:
    published = TREES | {
        "accounting": "published",
        "selection": "noisy_counts",
        "candidates": "random",
        "smoothing": "none",
        "voting": "hard",
    }
    done = run(make(write_table(tmp_path), strategy=published, epsilon=50.0))
    (entry,) = done.privacy["clients"]["0"]["entries"]
    # Favero et al. 2024, algorithm 1, line 1: 2^d F queries of epsilon / (2^d F) each, here 2^3 x 2.
    assert (entry["times"], entry["epsilon"]) == (16, pytest.approx(50 / 16))
    assert done.privacy["epsilon"] == pytest.approx(50)


def test_without_privacy_the_same_code_says_that_nothing_is_guaranteed(tmp_path: Path) -> None:
    done = run(make(write_table(tmp_path), strategy=TREES | {"bins": 9}, epsilon="inf"))
    assert done.privacy["epsilon"] == "inf"
    assert "none" in done.privacy["guarantee"]
    assert done.metrics["accuracy"] == 1.0  # the three classes are thirds of one feature, and 9 bins have their bounds
    json.dumps(done.metrics, allow_nan=False), json.dumps(done.privacy, allow_nan=False)


def test_held_out_subjects_take_no_part_in_training(tmp_path: Path) -> None:
    done = run(make(write_table(tmp_path), evaluation={"split": "subject", "held_out": 1}))
    assert done.metrics["clients"] == 3
    assert done.metrics["test_rows"] == 90
    assert [row["trains"] for row in done.clients].count(False) == 1
    (evaluates,) = [row for row in done.clients if not row["trains"]]
    assert evaluates["test_rows"] == 90
    assert str(evaluates["client"]) not in done.privacy["clients"]


def test_whole_recordings_are_held_out() -> None:
    dataset = {"name": "watch"}
    done = run(make(dataset, evaluation={"split": "recording"}), 10)
    assert not done.failures
    assert done.metrics["test_rows"] > 0
    assert all("accuracy" in row for row in done.clients)


@pytest.mark.parametrize("kind", ["iid", "dirichlet", "quantity"])
def test_rows_can_be_divided_again(tmp_path: Path, kind: str) -> None:
    dataset = write_table(tmp_path)
    done = run(make(dataset, partition={"kind": kind, "clients": 6, "alpha": 5.0}), 6)
    assert done.metrics["clients"] == 6
    assert not done.failures
    assert 66 <= done.metrics["test_rows"] <= 78  # a fifth of 360, rounded in each client


def test_with_fewer_nodes_than_subjects_a_node_holds_several(tmp_path: Path) -> None:
    done = run(make(write_table(tmp_path)), nodes=2)
    assert done.metrics["clients"] == 2
    assert done.metrics["test_rows"] == 72


def test_more_clients_than_subjects_is_refused_with_the_number_to_use(tmp_path: Path) -> None:
    experiment = make(write_table(tmp_path), partition={"clients": 5})
    with pytest.raises(DataError, match="5 clients are more than the 4 subjects of table: use 4"):
        run(experiment, 5)


def test_more_clients_than_nodes_is_refused_with_the_number_to_use(tmp_path: Path) -> None:
    experiment = make(write_table(tmp_path), partition={"kind": "iid", "clients": 5})
    with pytest.raises(DPForestError, match=r"num-supernodes=5.*partition\.clients=3"):
        run(experiment, 3)


def test_memorization_rate_is_that_of_the_accuracies(tmp_path: Path) -> None:
    experiment = make(write_table(tmp_path), memorization=[8], epsilon=50.0)
    done = run(experiment)
    forest, task = done.side.forest, experiment.task(CLIENTS)

    # By hand: each client's tree alone on the rows that each client drew for the question.
    accuracy: dict[int, dict[int, float]] = {}
    total: dict[int, int] = dict.fromkeys(range(CLIENTS), 0)
    for client in range(CLIENTS):
        test = experiment.client_data(client, CLIENTS).test
        leaves = forest.apply(test.X)
        right = {o: np.argmax(forest.value[leaves[:, o]], axis=1) == test.y for o in range(CLIENTS)}
        total = {o: total[o] + int(right[o].sum()) for o in range(CLIENTS)}
        seed = np.random.SeedSequence(task.seed, spawn_key=(client, 1, zlib.crc32(b"memorization")))
        chosen = np.random.default_rng(seed).permutation(len(test.y))[:8]
        accuracy[client] = {o: float(right[o][chosen].mean()) for o in range(CLIENTS)}
    assert done.metrics["memorization_rate"] == {"8": memorization_rate(accuracy)}
    rows = done.metrics["test_rows"]
    assert done.metrics["owner_accuracy"] == pytest.approx({str(o): total[o] / rows for o in range(CLIENTS)})


def test_memorization_needs_classes(tmp_path: Path) -> None:
    schema = {"target": "b", "target_range": [0, 1], "features": [{"name": "a", "low": 0, "high": 1}]}
    strategy = {"name": "centralized", "trees": 2}
    experiment = make(write_table(tmp_path, schema=schema), strategy=strategy, memorization=[5])
    with pytest.raises(DPForestError, match="memorization"):
        run(experiment)


def test_a_plan_beyond_the_budget_is_refused_before_anyone_is_asked(tmp_path: Path) -> None:
    experiment = make(write_table(tmp_path), rounds=1)

    class Greedy(type(experiment.method.server(experiment.task(CLIENTS)))):  # type: ignore[misc]
        def planned(self) -> list[Entry]:
            return super().planned() * 2

    trained: list[int] = []
    one_shot = experiment.method
    registry.register(Method("greedy", one_shot.settings, Greedy, one_shot.client, one_shot.protections))
    greedy = make(experiment.dataset, strategy=TREES | {"name": "greedy"})
    with pytest.raises(BudgetExceeded, match="the budget is 2"):
        run(greedy, app=lambda message, context: trained.append(1) or client_app(message, context))
    assert len(trained) == CLIENTS  # their introductions, and nothing else


# A method that exists only here: every client sends noised class counts, and the model is the most frequent class.


@dataclass(frozen=True)
class _Settings(Settings):
    share: float = 1.0


class _CountingClient(ClientSide):
    def train(self, task: ClientTask, X: np.ndarray, y: np.ndarray, arrays: Arrays) -> Update:
        counts = DiscreteLaplaceCounts(task.budget.epsilon * task.settings.share / task.rounds)
        exact = np.bincount(y, minlength=task.schema.n_outputs)
        entry = counts.entry("class counts")
        noised = counts.release(exact, entry, task.ledger, task.noise("counts"))
        return Update(Released(task.ledger, {"counts": noised}), Public({}, {"said": task.round}))

    def predict(self, task: ClientTask, X: np.ndarray, arrays: Arrays) -> np.ndarray:
        return np.tile(arrays["share"], (len(X), 1))


class _CountingServer(ServerSide):
    total: np.ndarray | int = 0

    def planned(self) -> list[Entry]:
        each = self.task.budget.epsilon * self.task.settings.share / self.task.rounds
        return [DiscreteLaplaceCounts(each).entry("class counts", times=self.task.rounds)]

    def aggregate(self, exchange: int, updates: list[ClientUpdate]) -> Arrays:
        assert all(update.metrics["said"] == exchange for update in updates)
        self.total = self.total + np.sum([update.arrays["counts"] for update in updates], axis=0)
        return {"share": np.maximum(self.total, 1) / np.maximum(self.total, 1).sum()}

    def save(self, folder: Path) -> None:
        (folder / "counts.json").write_text(json.dumps(self.total.tolist()))  # type: ignore[union-attr]


def test_a_method_needs_no_change_of_the_app(tmp_path: Path) -> None:
    registry.register(
        Method(
            "only_in_a_test",
            _Settings,
            _CountingServer,
            _CountingClient,
            (Protection(RECORD_UNIT, NO_SERVER),),
            default_rounds=3,
        )
    )
    dataset = write_table(tmp_path)
    experiment = make(dataset, strategy={"name": "only_in_a_test", "share": 0.5}, epsilon=12.0)
    done = run_job(experiment, InProcessGrid(client_app, CLIENTS), tmp_path / "run")
    assert done.privacy["epsilon"] == pytest.approx(6.0)
    assert len(done.rounds) == 3
    counts = json.loads((tmp_path / "run" / "model" / "counts.json").read_text())
    assert counts == pytest.approx([3 * 288 / 3] * 3, abs=40)
    assert done.metrics["accuracy"] == pytest.approx(1 / 3, abs=0.05)
    write_report([tmp_path / "run"])
    (answer,) = (tmp_path / "run").rglob("answer.svg")
    assert "only_in_a_test" in answer.read_text(encoding="utf-8")
    with pytest.raises(DPForestError, match="did you mean 'share'"):
        make(dataset, strategy={"name": "only_in_a_test", "shares": 0.5})
