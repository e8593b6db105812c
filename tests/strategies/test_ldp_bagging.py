"""LDP bagged trees: both settings, without Flower around them and in whole runs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import RecordDict
from hand_made import CLIENTS, make, run, write_table
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest
from sklearn.tree import DecisionTreeRegressor

from dpforest.errors import BudgetExceeded, DPForestError, InvalidForest
from dpforest.forest import feature_importances, load
from dpforest.ledger import Budget, Ledger
from dpforest.noise import Noise, Seeded
from dpforest.schema import Feature, Schema
from fl_app.client_app import app as client_app
from fl_app.engine.in_process import InProcessGrid
from fl_app.jobs.record import run_job
from strategies.ldp_bagging import LdpBaggingClient, LdpBaggingServer, LdpBaggingSettings
from strategies.ldp_bagging.noise_report import expected_noise
from strategies.ldp_bagging.published import BASE, IMPORTANCES, NOISE
from strategies.method import ClientTask, ClientUpdate, Task

SCHEMA = Schema((Feature("hr", 30, 220), Feature("acc", -40, 40)), "is_exercise", ("rest", "exercise"), rows=300)
PUBLISHED = {"accounting": "published"}


def task(epsilon: float = 1.0, rounds: int = 3, schema: Schema = SCHEMA, **options: Any) -> Task:
    return Task(schema, LdpBaggingSettings(**options), Budget(epsilon), rounds=rounds, clients=2, seed=0)


def client_task(
    public: Task, client: int = 0, round_: int = 1, ledger: Ledger | None = None, state: RecordDict | None = None
) -> ClientTask:
    noise: Callable[[str], Noise] = lambda purpose: Seeded(np.random.SeedSequence([client, round_]))  # noqa: E731
    return ClientTask(
        **public.__dict__,
        client=client,
        round=round_,
        ledger=ledger or Ledger(public.budget),
        noise=noise,
        rng=lambda purpose: np.random.default_rng([client, round_, len(purpose)]),
        state=RecordDict() if state is None else state,
    )


def rows(n: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.uniform(50, 180, n), rng.uniform(-20, 20, n)]).astype(np.float32)
    return X, ((X[:, 0] > 100) & (rng.random(n) < 0.9)).astype(np.int64)


def all_rounds(public: Task, clients: int = 2, n: int = 300) -> tuple[LdpBaggingServer, list[Ledger]]:
    """Both sides through all rounds, as the app does it."""
    server = LdpBaggingServer(public)
    ledgers = [Ledger(public.budget) for _ in range(clients)]
    states = [RecordDict() for _ in range(clients)]
    for round_ in range(1, public.rounds + 1):
        updates = []
        for client in server.participants(round_, list(range(clients))):
            own = client_task(public, client, round_, ledgers[client], states[client])
            sent = LdpBaggingClient().train(own, *rows(n, client), {})
            updates.append(ClientUpdate(sent.arrays, sent.metrics, client))
            server.check(updates[-1])
        server.aggregate(round_, updates)
    return server, ledgers


@given(
    st.floats(1e-3, 50),
    st.integers(1, 4),
    st.fixed_dictionaries(
        {},
        optional={
            "round_budget": st.sampled_from(["turns", "disjoint", "split"]),
            "depth": st.integers(1, 4) | st.just("auto"),
            "keep": st.sampled_from(["all", "round"]),
            "bins": st.integers(2, 8),
            "leaf_share": st.floats(0.1, 0.9),
        },
    ),
)
@settings(max_examples=20, deadline=None)
def test_the_budget_is_the_total_of_a_client_over_all_rounds(
    epsilon: float, rounds: int, options: dict[str, Any]
) -> None:
    public = task(epsilon, rounds, **options)
    plan = Ledger(public.budget)
    plan.require(LdpBaggingServer(public).planned())
    server, ledgers = all_rounds(public, clients=4, n=60)
    for ledger in ledgers:
        assert ledger.guarantee().holds
        assert ledger.guarantee().epsilon == pytest.approx(epsilon)
    assert server.report()["epsilon_counted"] == pytest.approx(epsilon)
    assert server.unprotected() == []


@pytest.mark.parametrize("way", ["turns", "disjoint", "split"])
def test_a_round_too_many_is_refused_before_a_row_is_read(way: str) -> None:
    public = task(round_budget=way)
    ledger, state = Ledger(public.budget), RecordDict()
    for round_ in range(1, 2 if way == "turns" else 4):
        LdpBaggingClient().train(client_task(public, 0, round_, ledger, state), *rows(), {})
    spent = ledger.entries
    with pytest.raises(BudgetExceeded):
        LdpBaggingClient().train(client_task(public, 0, 3, ledger, state), *rows(), {})
    with pytest.raises(DPForestError, match="round 4 is not in the plan of 3 rounds"):
        LdpBaggingClient().train(client_task(public, 0, 4, ledger, state), *rows(), {})
    assert ledger.entries == spent


def test_rows_keep_their_round() -> None:
    """Otherwise a row could be in two rounds, each of which has spent the whole budget."""
    public = task(round_budget="disjoint")
    ledger, state = Ledger(public.budget), RecordDict()
    LdpBaggingClient().train(client_task(public, 0, 1, ledger, state), *rows(), {})
    before = state["ldp-bagging-parts"]["parts"].numpy()
    LdpBaggingClient().train(client_task(public, 0, 2, ledger, state), *rows(), {})
    np.testing.assert_array_equal(state["ldp-bagging-parts"]["parts"].numpy(), before)
    assert sorted(np.unique(before)) == [0, 1, 2]
    with pytest.raises(DPForestError, match="rows of this client have changed"):
        LdpBaggingClient().train(client_task(public, 0, 3, ledger, state), *rows(200), {})


def test_clients_take_turns() -> None:
    server = LdpBaggingServer(task())
    asked = [server.participants(round_, [0, 1, 2, 5, 7]) for round_ in (1, 2, 3)]
    assert asked == [[0, 5], [1, 7], [2]]
    assert LdpBaggingServer(task(round_budget="split")).participants(2, [0, 1]) == [0, 1]
    assert LdpBaggingServer(task(**PUBLISHED)).participants(2, [0, 1]) == [0, 1]
    one, _ = all_rounds(task(50.0), clients=1)
    assert one.report()["trees"] == 1, "with one client, two rounds ask nobody"


def test_importances_are_the_mean_of_the_clients_and_cost_nothing() -> None:
    server, ledgers = all_rounds(task(30.0, round_budget="split"))
    report = server.report()
    model = server.forest
    assert model is not None
    alone = [feature_importances(model.tree(t)) for t in range(model.n_trees)]
    np.testing.assert_allclose(list(report["importances"].values()), np.mean(alone, axis=0))
    assert report["importances"]["hr"] > 0.5
    assert report["client_contributions"] == [
        {"client_id": client, "num_trees": 3, "num_features": 2} for client in (0, 1)
    ]
    assert all("importance" not in entry.what for ledger in ledgers for entry in ledger.entries)


def test_a_client_without_rows_sends_noise_only() -> None:
    public = task()
    sent = LdpBaggingClient().train(client_task(public), rows(0)[0], rows(0)[1], {})
    server = LdpBaggingServer(public)
    update = ClientUpdate(sent.arrays, sent.metrics, 0)
    server.check(update)
    assert server.aggregate(1, [update]) is not None


# as published


def sklearn_leaves(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An independent tree with the document's criterion, depth and leaf size."""
    tree = DecisionTreeRegressor(max_depth=3, min_samples_leaf=10, random_state=0).fit(X, y)
    return tree.predict(X), tree.feature_importances_


def test_without_noise_the_published_tree_is_the_usual_one() -> None:
    X, y = rows(seed=0)
    server, _ = all_rounds(task(math.inf, rounds=1, **PUBLISHED), clients=1)
    model = server.forest
    assert model is not None
    leaves, importances = sklearn_leaves(X, y)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], leaves, atol=1e-6)
    np.testing.assert_allclose(feature_importances(model), importances, atol=1e-6)
    assert server.report()["noise"]["leaf values"]["mean"] == 0


def test_published_noise_is_laplace_of_scale_one_over_epsilon() -> None:
    exact = LdpBaggingClient().train(client_task(task(math.inf, **PUBLISHED)), *rows(), {})
    for epsilon in (0.1, 1.0, 10.0):
        public, drawn = task(epsilon, **PUBLISHED), []
        for client in range(150):
            # The same rows each time, and so the same tree, under another noise.
            sent = LdpBaggingClient().train(client_task(public, client), *rows(), {})
            drawn.append(sent.arrays["value"][:, 1] - exact.arrays["value"][:, 1])
            drawn.append(sent.arrays[IMPORTANCES] - exact.arrays[IMPORTANCES])
            drawn.append(sent.arrays[BASE])
        noise = np.concatenate(drawn)
        assert len(noise) > 1000
        assert kstest(noise, "laplace", args=(0, 1 / epsilon)).pvalue > 1e-4
        assert kstest(noise, "laplace", args=(0, 0.5 / epsilon)).pvalue < 1e-6, "half the noise would be seen"


def test_the_noise_report_is_about_the_noise_that_was_drawn() -> None:
    exact = LdpBaggingClient().train(client_task(task(math.inf, **PUBLISHED)), *rows(), {})
    sent = LdpBaggingClient().train(client_task(task(2.0, **PUBLISHED)), *rows(), {})
    size = np.abs(sent.arrays[IMPORTANCES] - exact.arrays[IMPORTANCES])
    original = exact.arrays[IMPORTANCES]
    known = original != 0
    expected = [2, size.sum(), size.max(), (size[known] / original[known]).sum(), known.sum()]
    np.testing.assert_allclose(sent.arrays[NOISE][1], expected, rtol=1e-6)
    server, _ = all_rounds(task(2.0, **PUBLISHED))
    facts = server.report()["noise"]["leaf values"]
    assert facts["expected_mean"] == 0.5
    assert facts["document_mean"] == pytest.approx(0.01892 / 2)
    assert (
        "Laplace(sensitivity / epsilon) has mean 0.5, the document prints 0.00946, which is not it" in server.progress()
    )


def test_the_published_ledger_says_what_is_not_covered() -> None:
    server, ledgers = all_rounds(task(1.0, **PUBLISHED))
    for ledger in ledgers:
        assert not ledger.guarantee().holds
        assert [entry.what for entry in ledger.entries] == server.unprotected()
        assert "splits are chosen on the raw rows" in str(ledger.guarantee())
        assert any("covered at epsilon a round" in entry.note for entry in ledger.entries)
    assert server.planned() == []
    assert server.report()["epsilon_counted"] == 3.0
    assert "the document counts epsilon 3 so far, 1 a round; guaranteed is none" in server.progress()


def test_leaf_values_can_be_clipped_before_the_mean() -> None:
    noised, _ = all_rounds(task(0.5, **PUBLISHED))
    clipped, _ = all_rounds(task(0.5, **PUBLISHED, leaf_values="clipped"))
    assert noised.forest is not None
    assert clipped.forest is not None
    leaf = noised.forest.is_leaf
    assert noised.forest.value[leaf].min() < 0
    np.testing.assert_allclose(clipped.forest.value[leaf], np.clip(noised.forest.value[leaf], 0, 1))


def test_the_last_round_alone() -> None:
    server, _ = all_rounds(task(1.0, **PUBLISHED, keep="round"))
    assert server.report()["trees"] == 2
    assert all_rounds(task(1.0, **PUBLISHED))[0].report()["trees"] == 6


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (IMPORTANCES, np.array([1.0, np.nan]), "'importances' is float64 of shape .2,., expected finite numbers"),
        (IMPORTANCES, np.ones(3), "expected finite numbers of shape .2,."),
        (IMPORTANCES, None, "'importances' is missing"),
        (BASE, np.ones(1, dtype=np.int64), "'base_prediction' is int64"),
        (NOISE, -np.ones((3, 5)), "must not be negative"),
        ("milliseconds", np.full(3, 1e30), "nor times endless"),
        ("value", np.full((1, 2), np.nan, dtype=np.float32), "do not fit|NaN"),
        ("left", np.zeros(1, dtype=np.int32), "do not fit|parent"),
    ],
)
def test_unsound_updates_are_refused(name: str, value: np.ndarray | None, message: str) -> None:
    public = task(**PUBLISHED)
    sent = LdpBaggingClient().train(client_task(public), *rows(), {})
    arrays = {key: array for key, array in sent.arrays.items() if key != name}
    if value is not None:
        arrays[name] = value
    with pytest.raises((DPForestError, InvalidForest), match=message):
        LdpBaggingServer(public).check(ClientUpdate(arrays, {}, 0))


def test_a_deeper_tree_than_asked_for_is_refused() -> None:
    for options in ({}, PUBLISHED):
        deep, shallow = task(50.0, depth=4, **options), task(50.0, depth=2, **options)
        sent = LdpBaggingClient().train(client_task(deep), *rows(), {})
        with pytest.raises(InvalidForest, match=r"nodes|depth"):
            LdpBaggingServer(shallow).check(ClientUpdate(sent.arrays, {}, 0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"accounting": "loose"}, "accounting 'loose' must be one of tight, published"),
        ({"depth": 0}, "depth 0 must be a whole number from 1 to 12"),
        ({"depth": "auto", "accounting": "published"}, "give a number, 3 in the document"),
        ({"min_leaf": 0}, "min_leaf 0 must be"),
        ({"rows": 0}, "rows 0 must be"),
        ({"bins": 1}, "bins 1 must be"),
        ({"round_budget": "all"}, "round_budget 'all' must be one of turns, disjoint, split"),
        ({"leaf_share": 1.0}, "leaf_share 1.0 must lie between"),
    ],
)
def test_bad_settings_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(DPForestError, match=message):
        LdpBaggingSettings(**options)


def test_targets_that_do_not_fit_are_refused() -> None:
    three = Schema(SCHEMA.features, classes=("a", "b", "c"))
    with pytest.raises(DPForestError, match="hold one probability, and 'target' has 3 classes: use accounting=tight"):
        LdpBaggingServer(task(schema=three, **PUBLISHED))
    LdpBaggingServer(task(schema=three))
    number = Schema(SCHEMA.features, target="energy", target_range=(0, 1))
    with pytest.raises(DPForestError, match="'energy' is a number: use strategy=fext"):
        LdpBaggingServer(task(schema=number))


def test_expected_noise_of_discrete_laplace() -> None:
    drawn = np.abs(Seeded(0).discrete_laplace(1 / 0.4, 200_000))
    assert expected_noise(0.4) == pytest.approx(drawn.mean(), rel=0.02)
    assert expected_noise(math.inf) == 0


# whole runs


def two_classes(folder: Path) -> dict[str, Any]:
    dataset = write_table(folder)
    schema = json.loads(json.dumps({"target": "kind", "classes": ["other", "high"], "rows": 100, "features": [
        {"name": "a", "low": 0, "high": 1}, {"name": "b", "low": 0, "high": 1}]}))  # fmt: skip
    table = (folder / "table.csv").read_text().replace("low", "other").replace("middle", "other")
    (folder / "table.csv").write_text(table)
    return dataset | {"schema": schema}


@pytest.mark.parametrize("accounting", ["tight", "published"])
def test_a_run_reports_the_metrics_of_the_document_in_every_round(accounting: str, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    dataset = two_classes(tmp_path / "data")
    strategy = {"name": "ldp_bagging", "accounting": accounting}
    experiment = make(dataset, 20.0, strategy=strategy)
    done = run_job(experiment, InProcessGrid(client_app, CLIENTS), tmp_path / "run")
    assert [row["round"] for row in done.rounds] == [1, 2, 3]
    for row in done.rounds:
        assert {"accuracy", "precision", "recall", "f1", "roc_auc", "log_loss", "confusion"} <= set(row)
    assert done.metrics["accuracy"] > 0.9
    assert done.metrics["importances"]["a"] > done.metrics["importances"]["b"]
    holds = done.privacy["guarantee"].startswith("epsilon = 20 (pure)")
    assert holds == (accounting == "tight")
    forest = load(tmp_path / "run" / "model" / "forest.json")
    assert forest.n_trees == (4 if accounting == "tight" else 12)
    np.testing.assert_allclose(feature_importances(forest), list(done.metrics["importances"].values()), rtol=1e-6)
    privacy = forest.provenance["privacy"]
    assert privacy["guarantee"] == done.privacy["guarantee"]
    clients = {client["id"]: client["trees"] for client in forest.provenance["clients"]}
    assert sum(clients.values()) == forest.n_trees
    assert set(forest.owners) == set(clients)
    assert not set(forest.owners) & {"0", "1", "2", "3"}, "names are opaque"
    again = run(experiment)
    same = {k: v for k, v in again.metrics.items() if k != "seconds"}
    assert json.dumps(same) == json.dumps({k: v for k, v in done.metrics.items() if k != "seconds"})
