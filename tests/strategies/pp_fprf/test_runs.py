"""Whole runs of LRF, PP-FGRF and PP-FPRF through the app, on a made-up table."""

from __future__ import annotations

import csv
import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from flwr.app import ArrayRecord, ConfigRecord
from hand_made import CLIENTS, Interfering, make, run, write_table
from users import SCHEMA, client_task, rows

from dpforest.errors import DPForestError
from dpforest.forest import load
from fl_app.client_app import app as client_app
from fl_app.commands.cli import main as dpforest
from fl_app.config.compose import compose_config, to_experiment
from fl_app.engine.comparisons import add_comparison_runs
from fl_app.engine.in_process import InProcessGrid
from fl_app.jobs.record import run_job
from strategies.messages import BadMessage, RowsChanged, to_arrays_record
from strategies.method import TooFewClients
from strategies.node import answer
from strategies.pp_fprf import PersonalSettings
from strategies.pp_fprf.client import AloneClient, PersonalClient
from strategies.pp_fprf.growth import Group, Growth

SMALL = {"trees": 3, "depth": 4, "features": 2, "min_rows": 5, "voting": "soft"}
PERSONAL = SMALL | {"name": "pp_fprf", "k": 2, "functions": 4, "slices": 1, "comparison_methods": []}
PUBLISHED = {"accounting": "published", "prior": None}


@pytest.fixture
def table(tmp_path: Path) -> dict[str, Any]:
    return write_table(tmp_path)


def personal(table: dict[str, Any], epsilon: float | str = 40.0, **options: Any) -> Any:
    settings = {key: options.pop(key) for key in list(options) if key in PersonalSettings.__dataclass_fields__}
    return make(table, epsilon, strategy=PERSONAL | settings, **options)


def falls_silent(at: int, comes_back: int = 10**6) -> Any:
    def act(message: Any, honest: Any) -> Any:
        if at <= message.content["config"]["round"] < comes_back:
            raise TimeoutError
        return honest()

    return act


def test_every_user_gets_a_forest_of_its_own(table: dict[str, Any]) -> None:
    done = run(personal(table))
    assert done.metrics["accuracy"] > 0.7
    assert not done.failures
    for row in done.clients:
        similar = [int(user) for user in row["similar"].split()]
        assert 1 <= len(similar) <= 2
        assert row["client"] not in similar
        assert row["sessions"] <= 3
        assert row["offered"] == 3 * row["sessions"]
        assert 1 <= row["kept"] <= row["offered"]
        assert row["epsilon_spent"] <= 40 * (1 + 1e-9)
    spent = {client: ledger["epsilon"] for client, ledger in done.privacy["clients"].items()}
    for row in done.clients:
        assert spent[str(row["client"])] == pytest.approx(row["epsilon_spent"])


@pytest.mark.parametrize("slices", [1, 2, 9])
def test_who_takes_part_in_all_planned_sessions_spends_the_budget(table: dict[str, Any], slices: int) -> None:
    done = run(personal(table, slices=slices, min_rows=2, depth=2))
    assert done.privacy["epsilon"] == pytest.approx(40.0)
    assert done.privacy["guarantee"].startswith("epsilon = 40 (pure) for one record")


def test_the_published_run_shows_both_numbers_and_guarantees_nothing(table: dict[str, Any]) -> None:
    done = run(personal(table, epsilon=6.0, min_rows=2, **PUBLISHED))
    assert done.privacy["guarantee"].startswith("guarantee: none (hash values of all training rows; exact numbers")
    levels = done.metrics["levels"]
    for row in done.clients:
        # B = T epsilon; every session costs 3 trees of epsilon 2, of which unused levels are not spent.
        assert row["epsilon_counted"] == pytest.approx(6.0)
        assert row["epsilon_spent"] == pytest.approx(row["sessions"] * 6.0 * (levels + 1) / 5)
    notes = {
        client: entry["note"]
        for client, ledger in done.privacy["clients"].items()
        for entry in ledger["entries"]
        if entry["what"].startswith("sessions of other masters")
    }
    # Every user has two similar ones, so that all sessions together are 4 x 3.
    assert sum(row["sessions"] for row in done.clients) == 12
    foreign = {row["client"]: 3 * (row["sessions"] - 1) for row in done.clients}
    assert sorted(int(note.split(" in ")[1].split()[0]) for note in notes.values()) == sorted(
        n for n in foreign.values() if n
    )


@pytest.mark.parametrize("settings", [{"slices": 1}, {"slices": 3}, PUBLISHED], ids=["one", "three", "published"])
def test_what_is_shown_as_spent_is_what_the_ledger_says(table: dict[str, Any], settings: dict) -> None:
    """Also where some trees end before others."""
    options = {"min_rows": 60, "depth": 6} | settings
    done = run(personal(table, **options))
    spent = []
    for row in done.clients:
        entries = done.privacy["clients"][str(row["client"])]["entries"]
        parts: dict[str, float] = {}
        for entry in entries:
            parts[entry["rows"]] = parts.get(entry["rows"], 0.0) + entry["epsilon"] * entry["times"]
        foreign = [float(entry["note"].split()[1]) for entry in entries if entry["note"].startswith("epsilon")]
        total = parts.pop("all", 0.0) + max(parts.values(), default=0.0) + sum(foreign)
        assert row["epsilon_spent"] == pytest.approx(total, rel=1e-3 if foreign else 1e-9)
        spent.append(total / row["sessions"])
    assert max(spent) < 40, "some tree ended early"


@pytest.mark.parametrize(("settings", "most"), [({}, 4 + 3), (PUBLISHED, 2 * 4 + 3)])
@pytest.mark.parametrize("trees", [1, 6])
def test_exchanges_do_not_depend_on_trees(table: dict[str, Any], settings: dict, most: int, trees: int) -> None:
    done = run(personal(table, trees=trees, **settings))
    assert len(done.rounds) <= most


def test_the_same_seed_gives_the_same_numbers(table: dict[str, Any]) -> None:
    first, again, other = (run(personal(table, seed=seed)).clients for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_golden_run(table: dict[str, Any]) -> None:
    """Pins the numbers of one seed; a change here changes what everybody's seeds mean."""
    tight = run(personal(table, epsilon=60.0, seed=3))
    assert [row["kept"] for row in tight.clients] == [9, 9, 7, 5]
    assert tight.metrics["confusion"] == [[22, 2, 0], [4, 19, 1], [0, 2, 22]]
    published = run(personal(table, epsilon="inf", seed=3, **PUBLISHED))
    assert published.metrics["confusion"] == [[22, 2, 0], [0, 22, 2], [0, 1, 23]]


def test_all_together_and_alone(table: dict[str, Any]) -> None:
    alone = run(make(table, 1.0, strategy=SMALL | {"name": "lrf", "trees": 15}))
    assert alone.metrics["accuracy"] > 0.85
    assert alone.privacy["epsilon"] == 0
    together = run(make(table, 300.0, strategy=SMALL | {"name": "pp_fgrf", "trees": 15}))
    assert together.metrics["accuracy"] > 0.7
    assert together.privacy["epsilon"] <= 300.0 * (1 + 1e-9)
    published = SMALL | {"name": "pp_fgrf", "trees": 15, "accounting": "published"}
    plain = run(make(table, "inf", strategy=published))
    assert plain.metrics["accuracy"] > 0.85
    assert plain.metrics["trees"] == 15


def test_the_run_compares_and_each_model_can_be_used_alone(table: dict[str, Any], tmp_path: Path) -> None:
    logging.getLogger("fl_app").setLevel(logging.INFO)  # as both doors do
    folder = tmp_path / "run"
    experiment = personal(table, comparison_methods=["lrf", "pp_fgrf"], partition={"kind": "user_types", "share": 0.5})
    done = run_job(experiment, InProcessGrid(client_app, CLIENTS), folder)
    with (folder / "clients.csv").open() as file:
        clients = list(csv.DictReader(file))
    log = (folder / "run.log").read_text()
    for name in ("accuracy_lrf", "accuracy_pp_fgrf", "similar", "offered", "kept", "epsilon_spent", "type"):
        assert all(row[name] for row in clients), name
        assert name in log
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["comparison_methods"]["lrf"]["guarantee"].startswith("epsilon = 0")
    assert sorted(metrics["similar_users"]) == ["0", "1", "2", "3"]
    for client in range(CLIENTS):
        forest = load(folder / "model" / f"client_{client:03d}.json")
        test = experiment.client_data(client, CLIENTS).test
        assert (forest.predict(test.X) == test.y).mean() == pytest.approx(float(clients[client]["accuracy"]))
        assert forest.n_trees == done.clients[client]["kept"]


def test_comparing_draws_what_varies_and_each_user(
    table: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = tmp_path / "sweep"
    partition = {"kind": "user_types", "share": 0.5}
    points = [{"k": 2}, {"k": 2, "seed": 1}, {"k": 1}, {"k": 2, "epsilon": 80.0}, {"k": 2, "epsilon": "inf"}]
    points.append({"k": 2, "trees": 6, "epsilon": 80.0})  # the same budget a tree
    for number, point in enumerate(points):
        experiment = personal(table, **({"epsilon": 40.0} | point), comparison_methods=["lrf"], partition=partition)
        run_job(experiment, InProcessGrid(client_app, CLIENTS), sweep / str(number))
    assert dpforest(["compare", str(sweep), "--figures", str(tmp_path / "figures")]) == 0
    output = capsys.readouterr().out
    assert "users of" in output
    line = next(line for line in output.splitlines() if line.split()[:7] == ["table", "2", "3", "4", "40", "2", "lrf"])
    with (sweep / "0" / "clients.csv").open() as first, (sweep / "1" / "clients.csv").open() as second:
        scores = [float(row["accuracy_lrf"]) for file in (first, second) for row in csv.DictReader(file)]
    assert line.endswith(f"{np.mean(scores):.3f}")
    names = {file.name for file in (tmp_path / "figures").iterdir()}
    varied = {f"users-{key}-table.png" for key in ("k", "trees", "epsilon", "each")}
    assert varied | {"users-k-table.svg", "users-each-table.csv"} <= names
    assert "users-depth-table.png" not in names
    picture = (tmp_path / "figures" / "users-k-table.svg").read_text(encoding="utf-8")
    assert ">table, trees 3, depth 4, epsilon 40<" in picture
    assert ">record; server and other clients not trusted" in picture


def test_a_user_without_a_score_is_drawn_without_it(
    table: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "sweep" / "0"
    run_job(personal(table, comparison_methods=["lrf"]), InProcessGrid(client_app, CLIENTS), folder)
    with (folder / "clients.csv").open(newline="") as file:
        users = list(csv.DictReader(file))
    users[1]["accuracy_lrf"] = ""
    with (folder / "clients.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(users[0]))
        writer.writeheader()
        writer.writerows(users)
    assert dpforest(["compare", str(tmp_path / "sweep"), "--figures", str(tmp_path / "figures")]) == 0
    scores = [float(user["accuracy_lrf"]) for user in users if user["accuracy_lrf"]]
    assert f"{np.mean(scores):.3f}" in capsys.readouterr().out


def test_real_nodes_are_not_asked_for_a_comparison_that_they_would_refuse(table: dict[str, Any]) -> None:
    done = run(personal(table, comparison_methods=["lrf"]))
    schema = yaml.safe_load(Path(table["schema"]).read_text())
    done.experiment = personal({"name": "table", "schema": schema}, comparison_methods=["lrf"])
    asked = []
    grid = InProcessGrid(lambda message, context: asked.append(message), CLIENTS)  # type: ignore[arg-type]
    add_comparison_runs(done, grid, {c: 1000 + c for c in range(CLIENTS)})
    assert asked == []
    assert "comparison_methods" not in done.metrics


@pytest.mark.parametrize("k", [4, 9])
def test_as_many_similar_users_as_there_are_is_refused(table: dict[str, Any], k: int) -> None:
    with pytest.raises(DPForestError, match=f"k {k} must be below the number of users 4, .* use 1 to 3"):
        run(personal(table, k=k))


def test_one_user_is_asked_to_grow_alone(tmp_path: Path) -> None:
    with pytest.raises(DPForestError, match="one user has nobody to grow trees with: use strategy=lrf"):
        run(personal(write_table(tmp_path, clients=1), k=1), nodes=1)


def test_no_hash_function_is_refused(table: dict[str, Any]) -> None:
    with pytest.raises(DPForestError, match="functions 0 must be a whole number from 1"):
        personal(table, functions=0)


@pytest.mark.parametrize("settings", [{}, PUBLISHED], ids=["tight", "published"])
def test_users_without_a_class_and_without_validation_rows(table: dict[str, Any], settings: dict) -> None:
    partition = {"kind": "user_types", "share": 0.05, "class_share": 0.34}
    done = run(personal(table, partition=partition, validation_share=0.0, **settings))
    assert not done.failures
    # Without validation rows there is nothing to choose by.
    assert all(row["kept"] == row["offered"] for row in done.clients)


@pytest.mark.parametrize("at", [2, 3, 4, 6])
def test_a_collaborator_that_disappears(table: dict[str, Any], at: int, caplog: pytest.LogCaptureFixture) -> None:
    """Exchange 1 is the similarity; 2 and 3 are a level's proposals and votes."""
    caplog.set_level(logging.WARNING)
    app = Interfering({1: falls_silent(at)})
    done = run(personal(table, epsilon=6.0, depth=3, min_rows=2, **PUBLISHED), app=app)
    assert "client 1 did not answer: the trees of masters " in caplog.text
    assert {failure.client for failure in done.failures} == {1}
    rows_of = {row["client"]: row for row in done.clients}
    assert all(rows_of[client]["accuracy"] > 0.3 for client in (0, 2, 3))
    assert "accuracy" not in rows_of[1], "it was not there when trees were given out"
    entries = done.privacy["clients"]["1"]["entries"]
    planned = [entry["note"] for entry in entries if entry["protected"]]
    assert all(note.startswith("asked, no answer: counted as spent") for note in planned)
    heard = {2: 0, 3: 0, 4: 3, 6: 6}[at]  # three trees of its own, a vote each a level
    asked = {2: 0, 3: 3, 4: 3, 6: 6}[at]  # it may have paid for the vote that was lost
    # A vote of one of the 3 levels costs a quarter of a tree's epsilon of 2.
    assert rows_of[1]["epsilon_spent"] == pytest.approx(asked * rows_of[1]["sessions"] * 2 / 4)
    notes = [entry["note"] for entry in entries if entry["what"].startswith("sessions of other")]
    assert "asked, no answer: counted as spent" in notes
    foreign = [float(note.split()[1]) for note in notes if note.startswith("epsilon")]
    assert sum(foreign) == pytest.approx(heard * (rows_of[1]["sessions"] - 1) * 2 / 4, rel=1e-3)


def spoiled_in(exchange: int) -> Any:
    """An honest answer, whose votes are lost on the way."""

    def act(message: Any, honest: Any) -> Any:
        reply = honest()
        if message.content["config"]["round"] == exchange:
            reply.content["arrays"] = ArrayRecord({})
        return reply

    return act


@pytest.mark.parametrize("act", [falls_silent(1), falls_silent(2), falls_silent(4), spoiled_in(2), spoiled_in(4)])
def test_what_is_shown_as_spent_holds_for_a_user_whose_answer_is_lost(table: dict[str, Any], act: Any) -> None:
    """Exchange 1 is the similarity; 2, 3, 4, ... are the votes of the levels."""
    done = run(personal(table), app=Interfering({1: act}))
    assert {failure.client for failure in done.failures} == {1}
    for row in done.clients:
        assert row["epsilon_spent"] == pytest.approx(done.privacy["clients"][str(row["client"])]["epsilon"])


@pytest.mark.parametrize("name", ["lrf", "pp_fprf"])
@pytest.mark.parametrize("forest", [{"x": np.zeros(2)}, {"output": np.array([1]), "owners": np.zeros((2, 2))}])
def test_a_rotten_forest_of_its_own_costs_its_user_only(table: dict[str, Any], name: str, forest: dict) -> None:
    def rotten(message: Any, honest: Any) -> Any:
        reply = honest()
        reply.content["arrays"] = to_arrays_record(forest)
        return reply

    experiment = personal(table) if name == "pp_fprf" else make(table, strategy=SMALL | {"name": name})
    done = run(experiment, app=Interfering({1: rotten}, "evaluate"))
    assert {failure.client for failure in done.failures} == {1}
    assert "accuracy" not in done.clients[1]
    assert all("accuracy" in done.clients[client] and done.clients[client]["kept"] for client in (0, 2, 3))


def test_a_user_that_comes_back_is_given_trees(table: dict[str, Any]) -> None:
    exchanges = len(run(personal(table)).rounds)
    done = run(personal(table), app=Interfering({1: falls_silent(4, comes_back=exchanges)}))
    assert done.clients[1]["kept"] >= 1
    assert done.clients[1]["accuracy"] > 0.3


def test_without_enough_users_the_run_ends(table: dict[str, Any]) -> None:
    app = Interfering({client: falls_silent(3) for client in range(3)})
    with pytest.raises(TooFewClients, match="1 of 4 clients gave a sound answer"):
        run(personal(table), app=app)


def test_two_masters_that_choose_each_other(tmp_path: Path) -> None:
    done = run(personal(write_table(tmp_path, clients=2), k=1), nodes=2)
    assert [row["similar"] for row in done.clients] == ["1", "0"]
    assert [row["sessions"] for row in done.clients] == [2, 2]
    assert done.privacy["epsilon"] == pytest.approx(40, rel=0.3)


def test_a_state_of_another_run_is_refused() -> None:
    task = client_task(phase="hash")
    PersonalClient().train(task, *rows(20), {})
    other = client_task(phase="hash")
    other.config["run"] = "other"  # type: ignore[index]
    other.state.update(task.state)
    with pytest.raises(BadMessage, match="belongs to another run"):
        PersonalClient().train(other, *rows(20), {})


def test_rows_that_changed_during_a_run_are_refused() -> None:
    task = client_task(phase="hash")
    PersonalClient().train(task, *rows(20), {})
    with pytest.raises(RowsChanged, match="rows of this client have changed"):
        PersonalClient().train(task, *rows(21), {})


def test_a_user_without_a_forest_says_so() -> None:
    with pytest.raises(BadMessage, match="no forest of its own"):
        AloneClient().predict(client_task(), rows(3)[0], {})


@pytest.mark.parametrize("phase", ["propose", "elsewhere", None])
def test_a_phase_that_does_not_exist_is_refused(phase: str | None) -> None:
    task = client_task(phase=phase)
    output = Growth([Group(0, (0,))], SCHEMA, task.settings, 5, False).message(0)
    with pytest.raises(BadMessage, match=r"phase=|no values of rows"):
        PersonalClient().train(task, *rows(20), output)


def test_a_real_node_shows_nobody_its_model(table: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    own_model = answer.model_to_send
    monkeypatch.setattr(answer, "model_to_send", lambda side, task, shows: own_model(side, task, shows=False))
    done = run(personal(table))
    assert all("kept" not in row for row in done.clients)
    # Its exact counts would show in metrics on rows that a server knows.
    assert all("accuracy" not in row for row in done.clients)
    assert done.privacy["evaluation"].startswith("no client reported test metrics")
    assert not done.failures, "it has done what its owner wants"


def test_a_regression_is_refused(tmp_path: Path) -> None:
    schema = {"target": "a", "target_range": [0, 1], "features": [{"name": "b", "low": 0, "high": 1}], "rows": 10}
    (tmp_path / "schema.yaml").write_text(yaml.safe_dump(schema))
    dataset = write_table(tmp_path, schema=schema)
    with pytest.raises(DPForestError, match="vote for classes; use strategy=fext"):
        run(personal(dataset))


@pytest.mark.parametrize("strategy", ["lrf", "pp_fgrf", "pp_fgrf_published", "pp_fprf", "pp_fprf_published"])
def test_the_configured_strategies_compose(strategy: str) -> None:
    composed = to_experiment(compose_config([f"strategy={strategy}", "strategy.trees=7"]))
    assert composed.method.name == strategy.removesuffix("_published")
    assert composed.settings.trees == 7
    assert composed.protection.by_client_alone == (not strategy.endswith("_published"))


def test_the_papers_experiment_varies_one_thing_at_a_time() -> None:
    base = to_experiment(compose_config(["experiment=liu2022", "seed=3"]))
    assert (base.settings.k, base.settings.trees, base.settings.depth, base.privacy.epsilon) == (7, 20, 15, 20)
    assert (base.settings.published, base.partition.kind, base.partition.seed) == (True, "user_types", 3)
    other = to_experiment(compose_config(["experiment=liu2022", "case=liu2022_wisdm", "vary={depth:3}"]))
    assert (other.source.name, other.settings.depth, other.settings.k) == ("wisdm", 3, 7)


def test_a_state_record_is_plain(table: dict[str, Any]) -> None:
    task = client_task(PersonalSettings(trees=2), phase="hash")
    PersonalClient().train(task, *rows(20), {})
    assert all(isinstance(record, ArrayRecord | ConfigRecord) for record in task.state.values())


def test_a_model_that_is_shown_is_no_traffic(table: dict[str, Any]) -> None:
    done = run(make(table, 1.0, strategy=SMALL | {"name": "lrf", "trees": 15}))
    assert all(row["kept"] == 15 and row["bytes_up"] < 1000 for row in done.clients)
    assert "own models" in done.privacy["evaluation"]


@pytest.mark.parametrize("name", ["lrf", "pp_fprf"])
def test_forests_of_ones_own_have_no_memorization_rate(table: dict[str, Any], name: str) -> None:
    strategy = SMALL | {"name": "lrf"} if name == "lrf" else PERSONAL
    done = run(make(table, 40.0, strategy=strategy, memorization=[5]))
    assert not done.failures
    assert done.metrics["memorization_rate"] == {}, "no number, so none in the file"
