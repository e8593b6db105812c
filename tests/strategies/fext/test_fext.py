"""FEXT-DP: budgets over rounds, the filter, what stays when nothing passes, attacks, and bad input."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import RecordDict
from hypothesis import given, settings
from hypothesis import strategies as st

from dpforest.errors import BudgetExceeded, DPForestError, InvalidForest
from dpforest.forest import concatenate, pack
from dpforest.growers.regression import TARGET_UNIT
from dpforest.ledger import Budget, Ledger
from dpforest.noise import Noise, Seeded
from dpforest.schema import Feature, Schema
from strategies.fext.client import BAD, FextClient
from strategies.fext.rounds import score_mechanism
from strategies.fext.scores import PublicRows, client_sums, combine_client_sums
from strategies.fext.server import FextServer
from strategies.fext.settings import FextSettings
from strategies.forests import read_model
from strategies.method import Arrays, ClientTask, ClientUpdate, Task

FEATURES = (Feature("a", 0, 1), Feature("b", 0, 1))
TARGETS = Schema(FEATURES, target_range=(0.0, 100.0), target_unit="Wh", rows=400)
CLASSES = Schema(FEATURES, classes=("x", "y", "z"), rows=400)
TREES = {"depth": 3, "shared_below": None, "leaf_share": 0.5}


def rows(schema: Schema, n: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(seed).random((n, 2)).astype(np.float32)
    if schema.is_classification:
        return X, np.minimum(X[:, 0] * 3, 2).astype(np.int64)
    return X, np.where(X[:, 0] > 0.5, 80.0, 20.0)


class Federation:
    """A server and its clients, driven as the app does it, without messages."""

    def __init__(
        self,
        schema: Schema = TARGETS,
        epsilon: float = 10.0,
        rounds: int = 2,
        clients: int = 4,
        public: tuple[np.ndarray, np.ndarray] | None = None,
        seed: int = 0,
        **options: Any,
    ) -> None:
        self.clients = list(range(clients))
        self.simulated = True
        load = (lambda: public) if public is not None else None
        self.task = Task(
            schema, FextSettings(**TREES | options), Budget(epsilon), rounds, clients, seed, public_rows=load
        )
        self.server = FextServer(self.task)
        self.ledgers = [Ledger(self.task.budget) for _ in self.clients]
        self.states = [RecordDict() for _ in self.clients]
        self.model: Arrays = self.server.initial_arrays()
        self.facts: list[dict[str, Any]] = []

    def client_task(self, client: int, exchange: int) -> ClientTask:
        def entropy(purpose: str) -> list[int]:
            return [self.task.seed, client, exchange, len(purpose)]

        noise: Callable[[str], Noise] = lambda purpose: Seeded(np.random.SeedSequence(entropy(purpose)))  # noqa: E731
        public = {**self.task.__dict__, "public_rows": None}
        return ClientTask(
            **public,
            client=client,
            round=exchange,
            ledger=self.ledgers[client],
            noise=noise,
            rng=lambda purpose: np.random.default_rng(entropy(purpose)),
            state=self.states[client],
            config=self.server.config(exchange, client),
            simulated=self.simulated,
        )

    def exchange(self, number: int) -> None:
        updates = []
        for client in self.server.participants(number, self.clients):
            own = self.server.arrays_for(number, client)
            data = rows(self.task.schema, seed=client + 1)
            arrays = self.model if own is None else own
            update = FextClient().train(self.client_task(client, number), *data, arrays)
            received = ClientUpdate(update.arrays, update.metrics, client)
            self.server.check(received)
            updates.append(received)
        self.model = self.server.aggregate(number, updates) or self.model
        self.facts.append(self.server.round_facts())

    def run(self) -> Federation:
        for number in range(1, self.server.exchanges + 1):
            self.exchange(number)
            if self.server.finished:
                break
        return self

    @property
    def forest(self) -> Any:
        return read_model(self.model, self.task.schema)


def public(schema: Schema, n: int = 200) -> tuple[np.ndarray, np.ndarray]:
    return rows(schema, n, seed=99)


@pytest.mark.parametrize("schema", [TARGETS, CLASSES], ids=["targets", "classes"])
@pytest.mark.parametrize("round_budget", ["split", "disjoint", "first_round_only"])
@pytest.mark.parametrize("filter_by", ["public", "clients"])
def test_every_client_spends_exactly_the_total_budget(schema: Schema, round_budget: Any, filter_by: Any) -> None:
    run = Federation(schema, rounds=3, public=public(schema), round_budget=round_budget, filter_by=filter_by).run()
    for ledger in run.ledgers:
        assert ledger.guarantee().epsilon == pytest.approx(10.0)
    planned = Ledger(run.task.budget)
    planned.require(run.server.planned())
    for entry in run.server.planned():
        planned.charge(entry)
    assert planned.guarantee().epsilon == pytest.approx(10.0)
    assert len(run.facts) == (1 if round_budget == "first_round_only" else 3) * (2 if filter_by == "clients" else 1)


@given(
    epsilon=st.floats(1e-2, 50),
    rounds=st.integers(1, 5),
    options=st.fixed_dictionaries(
        {},
        optional={
            "round_budget": st.sampled_from(["split", "disjoint", "first_round_only"]),
            "filter_by": st.sampled_from(["public", "clients"]),
            "score_share": st.floats(0.01, 0.9),
            "trees": st.integers(1, 3),
            "depth": st.integers(1, 4) | st.just("auto"),
            "leaf_share": st.floats(0.1, 0.9) | st.just("auto"),
        },
    ),
    schema=st.sampled_from([TARGETS, CLASSES]),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_any_plan_costs_at_most_the_budget(
    epsilon: float, rounds: int, options: dict[str, Any], schema: Schema
) -> None:
    run = Federation(schema, epsilon, rounds, public=public(schema, 20), **options)
    ledger = Ledger(run.task.budget)
    for entry in run.server.planned():
        ledger.charge(entry)
    assert ledger.guarantee().epsilon == pytest.approx(epsilon)


def test_disjoint_rounds_use_each_row_once() -> None:
    run = Federation(rounds=3, public=public(TARGETS), round_budget="disjoint", own_model="ignore").run()
    parts = run.states[0]["fext-parts"]["parts"].numpy()
    assert sorted(np.unique(parts)) == [0, 1, 2]
    assert min(np.bincount(parts)) > 90


def test_a_server_that_asks_again_gets_no_second_budget() -> None:
    run = Federation(rounds=1, public=public(TARGETS))
    run.exchange(1)
    with pytest.raises(BudgetExceeded):
        run.exchange(1)
    with pytest.raises(DPForestError, match="not in the plan"):
        run.exchange(2)


@pytest.mark.parametrize("schema", [TARGETS, CLASSES], ids=["targets", "classes"])
def test_it_learns(schema: Schema) -> None:
    run = Federation(schema, public=public(schema)).run()
    X, y = rows(schema, 500, seed=7)
    predicted = FextClient().predict(run.client_task(0, 2), X, run.model)
    if schema.is_classification:
        assert (predicted.argmax(axis=1) == y).mean() > 0.85
    else:
        assert 1 - ((predicted - y) ** 2).mean() / y.var() > 0.8


def test_keep_all_accumulates_and_keep_round_replaces() -> None:
    everything = Federation(rounds=3, public=public(TARGETS), k=None).run()
    assert everything.forest.n_trees == 12
    assert everything.forest.owners == ("0", "1", "2", "3") * 3
    assert Federation(rounds=3, public=public(TARGETS), k=None, keep="round").run().forest.n_trees == 4


def test_the_set_keeps_the_best_trees_if_it_is_limited() -> None:
    run = Federation(rounds=3, public=public(TARGETS), k=None, most_trees=5).run()
    assert run.forest.n_trees == 5
    assert run.facts[-1]["best_tree"] <= 1


def test_trees_below_k_are_named_and_left_out() -> None:
    run = Federation(rounds=1, public=public(TARGETS), k=0.5, attack="constant", attack_share=0.25)
    run.run()
    (bad,) = run.server.report()["bad_clients"]
    assert run.facts[0]["trees_kept"] == 3
    assert run.facts[0]["rejected"].startswith(f"client {bad}: ")
    assert run.facts[0]["kept"].count("client ") == 3
    assert str(bad) not in run.forest.owners


def test_when_nothing_passes_the_constant_of_before_stays_and_it_is_said(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        run = Federation(rounds=2, public=public(TARGETS), k=1.0, own_model="ignore").run()
        assert "round 2: no tree reaches k = 1.000; the constant prediction stays" in caplog.text
        assert run.server.report()["rounds_without_a_kept_tree"] == [1, 2]
    assert "no tree reached k = 1.000 in any round; the best had r2 0." in caplog.text
    assert [facts["trees_kept"] for facts in run.facts] == [0, 0]
    predicted = FextClient().predict(run.client_task(0, 2), rows(TARGETS)[0], run.model)
    np.testing.assert_allclose(predicted, public(TARGETS)[1].mean(), rtol=1e-5)


def test_when_nothing_passes_later_the_set_of_before_stays() -> None:
    run = Federation(rounds=2, public=public(TARGETS), k=0.5)
    run.exchange(1)
    before = run.forest
    run.server.settings = FextSettings(**TREES, k=1.0)  # type: ignore[arg-type]
    run.exchange(2)
    assert run.facts[-1]["set_changed"] is False
    np.testing.assert_array_equal(run.forest.value, before.value)


def test_without_public_rows_and_filter_the_first_model_is_the_middle_of_the_range() -> None:
    run = Federation(k=None)
    assert run.forest.value.tolist() == [[50.0]]
    assert Federation(CLASSES, k=None).forest.value[0] == pytest.approx([1 / 3] * 3)


def test_patience_stops_a_run_that_does_not_improve() -> None:
    run = Federation(rounds=10, epsilon=np.inf, public=public(TARGETS), patience=2, calibrate=False, own_model="ignore")
    run.run()
    assert run.server.finished
    assert len(run.facts) < 10
    assert "no better r2 of the set since round" in run.server.report()["stopped"]


# --- the clients' own choice, which stays local ---


def test_a_client_of_another_kind_predicts_with_its_own_trees() -> None:
    run = Federation(rounds=1, public=public(TARGETS), own_share=0.2)
    X, y = rows(TARGETS, 400, seed=1)
    mirrored = 100 - y
    update = FextClient().train(run.client_task(0, 1), X, mirrored, run.model)
    run.server.check(ClientUpdate(update.arrays, update.metrics, 0))
    for client in (1, 2, 3):
        update = FextClient().train(run.client_task(client, 1), *rows(TARGETS, seed=client + 1), run.model)
        run.server.check(ClientUpdate(update.arrays, update.metrics, client))
    model = run.server.aggregate(1, [ClientUpdate(update.arrays, client=c) for c in range(4)])
    assert model is not None
    own = FextClient().predict(run.client_task(0, 1), X, model)
    of_others = FextClient().predict(run.client_task(1, 1), X, model)
    assert ((own - mirrored) ** 2).mean() < 300 < ((of_others - mirrored) ** 2).mean()
    assert ((of_others - y) ** 2).mean() < 300
    assert not update.metrics, "which of the two a client uses is said to nobody"


def test_on_a_real_node_no_training_row_decides_what_test_metrics_show() -> None:
    # Otherwise a server with share-metrics could ask which of two models the rows set aside prefer, again and again.
    run = Federation(rounds=1, public=public(TARGETS), own_share=0.5, epsilon=np.inf)
    run.simulated = False
    X, y = rows(TARGETS, 400, seed=1)
    update = FextClient().train(run.client_task(0, 1), X, 100 - y, run.model)
    assert not any(name.startswith("fext-") for name in run.states[0])
    assert update.arrays["weight"].sum() == pytest.approx(400), "no row is set aside for nothing"
    np.testing.assert_array_equal(FextClient().predict(run.client_task(0, 1), X, run.model), run.forest.predict(X))


def test_rows_set_aside_grow_no_tree() -> None:
    run = Federation(rounds=1, public=public(TARGETS), own_share=0.5, epsilon=np.inf)
    run.exchange(1)
    aside = run.states[0]["fext-parts"]["parts"].numpy() < 0
    assert 100 < aside.sum() < 300
    # Without noise, the tree's weight is the number of rows that grew it.
    kept = read_model({k: a.numpy() for k, a in run.states[0]["fext-own"].items()}, TARGETS)
    assert kept.weight[0] == (~aside).sum()


# --- scores ---


@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 100)), min_size=0, max_size=12),
    st.tuples(st.floats(0, 1), st.floats(0, 100)),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_one_record_changes_a_clients_sums_no_more_than_their_sensitivity(
    some: list[tuple[float, float]], more: tuple[float, float]
) -> None:
    for schema in (TARGETS, CLASSES):
        forest = candidates(schema)

        def sums(table: list[tuple[float, float]], schema: Schema = schema, forest: Any = forest) -> np.ndarray:
            X = np.array([[a, a] for a, _ in table]).reshape(-1, 2)
            y = np.array([t for _, t in table])
            return client_sums(forest, X, (y % 3).astype(int) if schema.is_classification else y)

        change = np.abs(sums([*some, more]) - sums(some)).sum()
        assert change <= score_mechanism(1.0, forest.n_trees, schema.is_classification).sensitivity


def candidates(schema: Schema) -> Any:
    return Federation(schema, rounds=1, k=None, own_model="ignore").run().forest


def test_scores_of_clients_without_noise_are_those_of_their_rows_together() -> None:
    forest = candidates(TARGETS)
    data = {client: rows(TARGETS, seed=20 + client) for client in range(4)}
    sums = {client: client_sums(forest, X, y) for client, (X, y) in data.items()}
    scores, constant = combine_client_sums(sums, [0, 1, 2, 3], TARGETS, "r2")
    for tree in range(4):
        X = np.concatenate([data[c][0] for c in range(4) if c != tree])
        y = np.concatenate([data[c][1] for c in range(4) if c != tree])
        expected = 1 - ((forest.tree(tree).predict(X) - y) ** 2).mean() / y.var()
        assert scores[tree] == pytest.approx(expected, abs=0.01)
    assert constant == 0.0


def test_a_client_cannot_praise_its_own_tree() -> None:
    sums = {0: np.array([100, 100, 0]), 1: np.array([100, 10, 90])}
    scores, _ = combine_client_sums(sums, [0, 1], Schema(FEATURES, classes=("x", "y")), "accuracy")
    assert scores == [0.1, 0.0]


def test_public_scores_by_hand() -> None:
    X = np.array([[0.1, 0], [0.2, 0], [0.8, 0], [0.9, 0]])
    y = np.array([20.0, 20.0, 80.0, 80.0])
    run = Federation(rounds=1, k=None, own_model="ignore", epsilon=np.inf, depth=1).run()
    tree = run.forest.tree(0)
    assert PublicRows(X, y, TARGETS, "pearson").score(tree) == pytest.approx(1.0)
    predicted = tree.predict(X)
    assert PublicRows(X, y, TARGETS, "negative_mse").score(tree) == pytest.approx(-((predicted - y) ** 2).mean())
    assert PublicRows(X, y, TARGETS, "negative_mse").constant_score() == -900
    assert PublicRows(X, y, TARGETS, "r2").score(tree) == pytest.approx(1 - ((predicted - y) ** 2).mean() / 900)


def test_calibration_finds_the_straight_line_and_clips_to_the_range() -> None:
    run = Federation(rounds=1, k=None, own_model="ignore", epsilon=np.inf, depth=1).run()
    X, _ = rows(TARGETS, 200, seed=5)
    y = 30 + 0.2 * (run.forest.predict(X) - 30)
    mended = PublicRows(X, y, TARGETS, "r2").calibrated(run.forest)
    np.testing.assert_allclose(mended.predict(X), y, atol=1e-6)
    noise_only = np.random.default_rng(0).uniform(0, 100, size=200)
    flat = PublicRows(X, noise_only, TARGETS, "r2").calibrated(run.forest)
    assert flat.predict(X).std() < 6


def test_calibration_never_makes_a_set_worse_than_the_mean() -> None:
    # Leaves far out, whose stretching is cut off at one end of the range only.
    run = Federation(rounds=1, k=None, epsilon=np.inf, own_model="ignore", depth=1).run()
    wild = concatenate([run.forest.tree(0)] * 2)
    wild.value[wild.is_leaf] = np.array([0.0, 100.0, 100.0, 0.5])[:, None]
    X, _ = rows(TARGETS, 200, seed=5)
    y = np.clip(2 + 40 * (wild.predict(X) - 50), 0, 100) / 10
    public = PublicRows(X, y, TARGETS, "r2")
    assert public.score(public.calibrated(wild)) >= 0


# --- attacks ---


@pytest.mark.parametrize("schema", [TARGETS, CLASSES], ids=["targets", "classes"])
@pytest.mark.parametrize("attack", ["label_flip", "random_leaves", "constant"])
def test_the_filter_takes_out_what_bad_clients_send(schema: Schema, attack: Any) -> None:
    run = Federation(schema, rounds=1, clients=5, public=public(schema), k=0.7, attack=attack, attack_share=0.4).run()
    bad = {str(client) for client in run.server.report()["bad_clients"]}
    assert len(bad) == 2
    assert set(run.forest.owners) == {"0", "1", "2", "3", "4"} - bad


def test_a_share_of_no_bad_clients_is_the_clean_run() -> None:
    clean = Federation(rounds=1, public=public(TARGETS)).run()
    run = Federation(rounds=1, public=public(TARGETS), attack="label_flip", attack_share=0.0).run()
    assert "bad_clients" not in run.server.report()
    np.testing.assert_array_equal(run.forest.value, clean.forest.value)


def test_only_clients_that_are_named_bad_are() -> None:
    run = Federation(rounds=1, clients=10, public=public(TARGETS), attack="label_flip", attack_share=0.3)
    run.server.participants(1, run.clients)
    assert sum(bool(run.server.config(1, client).get(BAD)) for client in run.clients) == 3


# --- the published setting ---


def test_the_published_setting_guarantees_nothing_and_shows_a_record() -> None:
    run = Federation(accounting="published", depth="auto", k=None, rounds=2, epsilon=1.0, own_model="ignore").run()
    guarantee = run.ledgers[0].guarantee()
    assert not guarantee.holds
    assert len(guarantee.reasons) == 4
    assert run.server.planned() == []
    assert len(run.server.unprotected()) == 4


def test_a_published_tree_of_noisy_targets_prints_a_record() -> None:
    run = Federation(accounting="published", depth="auto", k=None, rounds=1, own_model="ignore")
    X, _ = rows(TARGETS, 50)
    y = np.random.default_rng(0).uniform(0, 100, size=50)
    update = FextClient().train(run.client_task(0, 1), X, y, run.model)
    received = ClientUpdate(update.arrays, client=0)
    run.server.check(received)
    run.server.aggregate(1, [received])
    assert "about 1 record: one record, its exact target" in run.server.report()["a_record_that_a_tree_prints"]


# --- bad input, all refused before anything is trained ---


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 1.5, "score": "r2"}, "k 1.5 must be at most 1, the range of the score r2"),
        ({"k": -0.1, "score": "accuracy"}, "k -0.1 must be from 0 to 1"),
        ({"k": 0.1, "score": "negative_mse"}, "at most 0"),
        ({"k": 2, "score": "pearson"}, "from -1 to 1"),
        ({"k": "high"}, "k 'high' must be a number, auto, or null"),
        ({"min_leaf": None}, "min_leaf None must be a whole number from 1"),
        ({"score": "rmse"}, "score 'rmse' must be one of"),
        ({"keep": "some"}, "keep 'some' must be one of"),
        ({"round_budget": "all"}, "round_budget 'all'"),
        ({"patience": 0}, "patience 0 must be a whole number from 1"),
        ({"attack": "label_flip"}, "give both, or none"),
        ({"attack_share": 0.3}, "give both, or none"),
        ({"attack": "constant", "attack_share": 1.2}, "attack_share 1.2 must be a number from 0 to 1"),
        ({"k": True}, "k True must be a number"),
        ({"k": math.nan}, "k nan must be a number"),
        ({"own_share": 1.0}, "own_share 1.0 must be a number between 0 and 1"),
        ({"round_budget": "disjoint", "tree_rows": "disjoint"}, "tree_rows=split_budget"),
        ({"accounting": "published", "filter_by": "clients"}, "no budget for client scores"),
        ({"rows": 0}, "rows 0"),
        ({"depth": 99}, "depth 99"),
        ({"target_clip": (1,)}, "two finite numbers"),
        ({"target_clip": 5}, "target_clip 5 must be two finite numbers"),
    ],
)
def test_bad_settings_are_refused_at_the_door(options: dict[str, Any], message: str) -> None:
    with pytest.raises(DPForestError, match=message):
        FextSettings(**options)


@pytest.mark.parametrize(
    ("schema", "options", "message"),
    [
        (TARGETS, {}, "set evaluation.public_share above 0, or strategy.filter_by=clients"),
        (TARGETS, {"k": None, "patience": 2}, "strategy.patience needs public rows"),
        (TARGETS, {"public": (np.zeros((1, 2)), np.zeros(1))}, "public rows: 1, but a test of trees takes 2 or more"),
        (TARGETS, {"public": (np.zeros((5, 2)), np.full(5, 7.0))}, "all 5 public targets are 7"),
        (TARGETS, {"public": public(TARGETS), "k": 1.5}, "k 1.5 must be at most 1"),
        (CLASSES, {"public": public(CLASSES), "k": 1.5}, "k 1.5 must be from 0 to 1"),
        (CLASSES, {"public": public(CLASSES), "score": "r2"}, "score r2 does not fit"),
        (TARGETS, {"public": public(TARGETS), "score": "accuracy"}, "score accuracy does not fit"),
        (TARGETS, {"score": "pearson", "filter_by": "clients"}, "pearson needs public rows"),
        (TARGETS, {"filter_by": "clients", "clients": 1}, "needs two clients or more"),
        (TARGETS, {"k": None, "target_clip": (0, 200)}, "inside the schema's target_range"),
    ],
)
def test_what_cannot_work_is_refused_before_training(schema: Schema, options: dict[str, Any], message: str) -> None:
    with pytest.raises(DPForestError, match=message):
        Federation(schema, **options)


def test_a_constant_target_is_learnt_as_such() -> None:
    constant = Federation(rounds=1, k=None, epsilon=np.inf, own_model="ignore", clients=1)
    update = FextClient().train(constant.client_task(0, 1), rows(TARGETS)[0], np.full(400, 30.0), {})
    received = ClientUpdate(update.arrays, client=0)
    constant.server.check(received)
    model = constant.server.aggregate(1, [received])
    assert model is not None
    np.testing.assert_allclose(read_model(model, TARGETS).predict(rows(TARGETS)[0]), 30, atol=0.5)


def test_targets_outside_the_range_count_as_its_ends() -> None:
    run = Federation(rounds=1, k=None, epsilon=np.inf, own_model="ignore")
    X, y = rows(TARGETS)
    wild = FextClient().train(run.client_task(0, 1), X, np.where(y > 50, 1e9, -1e9), {})
    tame = FextClient().train(run.client_task(0, 1), X, np.where(y > 50, 100.0, 0.0), {})
    np.testing.assert_array_equal(wild.arrays["value"], tame.arrays["value"])


def test_trees_and_scores_that_are_not_sound_are_refused() -> None:
    run = Federation(rounds=1, filter_by="clients")
    update = FextClient().train(run.client_task(0, 1), *rows(TARGETS), {})
    for name, value in {
        "value": np.full_like(update.arrays["value"], 1e6),
        "threshold": np.full_like(update.arrays["threshold"], np.nan),
        "offsets": np.array([0, 1, 15]),
    }.items():
        with pytest.raises(InvalidForest):
            run.server.check(ClientUpdate({**update.arrays, name: value}, client=0))
    deeper = Federation(rounds=1, depth=4, k=None)
    larger = FextClient().train(deeper.client_task(0, 1), *rows(TARGETS), {})
    with pytest.raises(InvalidForest, match="31 nodes in 1 trees; allowed: 15 nodes"):
        run.server.check(ClientUpdate(larger.arrays, client=0))
    run = Federation(rounds=1, filter_by="clients")
    run.exchange(1)
    run.server.participants(2, run.clients)
    for scores in (
        np.zeros(3, dtype=np.int64),
        np.full(7, np.inf),
        np.zeros((7, 1), dtype=np.int64),
        np.full(7, np.iinfo(np.int64).min),
    ):
        with pytest.raises(DPForestError, match="scores have shape"):
            run.server.check(ClientUpdate({"scores": scores}, client=0))


def test_what_a_client_sends_out_of_turn_is_refused() -> None:
    # Scores of the right shape where trees are asked for would leave the server without the trees of this client.
    scores = ClientUpdate({"scores": np.zeros(7, dtype=np.int64)}, client=0)
    run = Federation(rounds=2, public=public(TARGETS))
    run.exchange(1)
    run.server.participants(2, run.clients)
    with pytest.raises(InvalidForest, match="is missing"):
        run.server.check(scores)
    run = Federation(rounds=2, filter_by="clients")
    trees = FextClient().train(run.client_task(0, 1), *rows(TARGETS), {})
    run.ledgers[0] = Ledger(run.task.budget)
    for number in (1, 2):
        run.exchange(number)
    run.server.participants(3, run.clients)
    with pytest.raises(InvalidForest, match="is missing"):
        run.server.check(scores)
    run.exchange(3)
    run.server.participants(4, run.clients)
    with pytest.raises(DPForestError, match="scores have shape"):
        run.server.check(ClientUpdate(trees.arrays, client=0))


def test_a_client_refuses_candidates_that_are_no_trees_and_keeps_its_budget() -> None:
    run = Federation(rounds=1, filter_by="clients")
    run.exchange(1)
    before = len(run.ledgers[0].entries)
    broken = {**pack(run.server.candidates), "left": np.zeros(1, dtype=np.int32)}  # type: ignore[arg-type]
    with pytest.raises(InvalidForest):
        FextClient().train(run.client_task(0, 2), *rows(TARGETS), broken)
    assert len(run.ledgers[0].entries) == before


def test_the_model_is_saved_with_rules_and_a_picture(tmp_path: Path) -> None:
    run = Federation(public=public(TARGETS)).run()
    run.server.save(tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {"forest.json", "rules.txt", "tree.svg"}
    assert "Wh, about" in (tmp_path / "rules.txt").read_text()
    report = run.server.report()
    assert sum(report["importances"].values()) == pytest.approx(1.0)
    assert report["trees_kept_by_client"]


def test_of_many_importances_the_log_names_the_largest(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strategies.fext.server.IMPORTANCES_LOGGED", 1)
    server = Federation(TARGETS, k=None).server
    monkeypatch.setattr("strategies.fext.server.feature_importances", lambda forest: np.array([0.2, 0.8]))
    with caplog.at_level("INFO"):
        importances = server.report()["importances"]
    assert list(importances.values()) == [0.2, 0.8]
    assert f"{TARGETS.feature_names[1]} 80.0 %, and 1 more in metrics.json" in caplog.text


def test_units_of_scores() -> None:
    assert score_mechanism(1.0, 20, True).sensitivity == 21
    assert score_mechanism(1.0, 20, False).sensitivity == 23 * TARGET_UNIT
