"""The methods as anybody's ServerApp and ClientApp use them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MessageType, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import Result, Strategy

import baselines
import strategies
from dpforest.errors import DPForestError
from dpforest.forest import load as load_forest
from dpforest.ledger import Ledger
from dpforest.schema import Schema
from fl_app.engine.in_process import InProcessGrid
from strategies import LocalRows, OneShotForest, PrivateClientApp, answer_evaluate, answer_query, answer_train
from strategies.federation.private import PrivateStrategy
from strategies.messages import CONFIG
from strategies.plan import MethodPlan
from strategies.registry import get_method

SCHEMA = Schema.from_dict(
    {
        "target": "kind",
        "classes": ["low", "high"],
        "rows": 200,
        "features": [{"name": "a", "low": 0, "high": 1}, {"name": "b", "low": 0, "high": 1}],
    }
)
CLIENTS = 4
TREES = {"trees": 2, "depth": 3}


def table(client: int, rows: int = 300) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(client).uniform(size=(rows, 2))
    return X, np.where(X[:, 0] > 0.5, "high", "low")


def load(context: Context) -> LocalRows:
    X, y = table(int(context.node_config["partition-id"]))
    return LocalRows(X[:200], y[:200], test_X=X[200:], test_y=y[200:])


def public_rows() -> tuple[np.ndarray, np.ndarray]:
    X, y = table(100)
    return SCHEMA.check_matrix(X)[0], SCHEMA.encode_classes(y)


class RealNodes(InProcessGrid):
    """Nodes in this process that nobody has marked as simulated."""

    simulates = False

    def __init__(self, app: ClientApp, nodes: int = CLIENTS, **own: Any) -> None:
        super().__init__(app, nodes)
        self._contexts = {
            1000 + i: Context(1, 1000 + i, {"partition-id": i, **own}, RecordDict(), {}) for i in range(nodes)
        }

    def contexts(self) -> Iterable[Context]:
        return self._contexts.values()


FORESTS: list[tuple[type[PrivateStrategy[Any]], Mapping[str, Any]]] = [
    (strategies.OneShotForest, TREES),
    (strategies.FextDP, {"public_rows": public_rows}),
    (strategies.PrivateBoosting, {"depth": 2, "delta": 1e-6}),
    (strategies.LDPBagging, {}),
    (strategies.PPFGRF, {}),
]


@pytest.mark.parametrize(("kind", "options"), FORESTS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_forest_method_is_used_as_fedavg(
    kind: type[PrivateStrategy[Any]], options: Mapping[str, Any], tmp_path: Path
) -> None:
    strategy = kind(SCHEMA, epsilon=4.0, **options)
    result = strategy.start(InProcessGrid(PrivateClientApp(load), CLIENTS), num_rounds=1)
    assert isinstance(strategy, Strategy)
    assert isinstance(result, Result)
    assert result.guarantee.holds
    assert 0 < result.guarantee.epsilon <= 4.0
    assert sorted(result.ledgers) == list(range(CLIENTS))
    assert all(isinstance(ledger, Ledger) for ledger in result.ledgers.values())
    assert result.noise == "seeded"
    assert result.metrics["accuracy"] > 0.55
    assert result.evaluate_metrics_clientapp[1]["accuracy"] == result.metrics["accuracy"]
    assert result.forest.predict(table(9)[0]).shape == (300,)
    result.save(tmp_path)
    assert load_forest(tmp_path / "forest.json").n_trees == result.forest.n_trees


def test_users_forests_stay_with_them_and_a_simulation_shows_them(tmp_path: Path) -> None:
    strategy = strategies.PPFPRF(SCHEMA, epsilon=8.0, k=2)
    result = strategy.start(InProcessGrid(PrivateClientApp(load), CLIENTS))
    assert result.guarantee.holds
    result.save(tmp_path)
    assert len(list(tmp_path.glob("client_*.json"))) == CLIENTS


@pytest.mark.parametrize(
    ("name", "budget"), [("FedAvg", {}), ("DPSGD", {"delta": 1e-5}), ("DPFedAvg", {"delta": 1e-5})]
)
def test_a_network_baseline_is_used_as_fedavg(name: str, budget: Mapping[str, Any]) -> None:
    pytest.importorskip("tensorflow")
    kind = getattr(baselines, name)
    grid = InProcessGrid(PrivateClientApp(load), CLIENTS)
    result = kind(SCHEMA, epsilon=8.0, hidden=[4], **budget).start(grid, num_rounds=1)
    assert result.guarantee.holds == bool(budget)
    again = kind(SCHEMA, epsilon=8.0, hidden=[4], **budget).start(grid, result.arrays, num_rounds=1)
    assert set(again.arrays) == set(result.arrays)
    assert "accuracy" in again.metrics
    with pytest.raises(DPForestError, match="no weights"):
        kind(SCHEMA, epsilon=8.0, hidden=[4], **budget).start(grid, ArrayRecord([np.zeros(3)]), num_rounds=1)


def test_the_same_seed_gives_the_same_forest_and_another_one_another() -> None:
    def forest(seed: int) -> list[float]:
        grid = InProcessGrid(PrivateClientApp(load), CLIENTS)
        return OneShotForest(SCHEMA, seed=seed, **TREES).start(grid).forest.value.ravel().tolist()

    assert forest(1) == forest(1)
    assert forest(1) != forest(2)


def test_real_nodes_draw_secure_noise_and_share_metrics_if_their_owners_say_so() -> None:
    def start(**own: Any) -> Any:
        return OneShotForest(SCHEMA, epsilon=1.0, **TREES).start(RealNodes(PrivateClientApp(load), **own))

    first, second = start(**{"share-metrics": "none"}), start(**{"share-metrics": True})
    assert first.noise == second.noise == "secure"
    assert first.forest.value.ravel().tolist() != second.forest.value.ravel().tolist()
    assert not first.metrics
    assert not first.metrics_received
    assert second.metrics["accuracy"] > 0.6
    assert not second.intervals
    by_default = start()
    assert by_default.noised_metrics_received
    assert not by_default.metrics_received
    low, high = by_default.intervals["accuracy"]
    assert low <= by_default.metrics["accuracy"] <= high
    assert by_default.evaluate_metrics_clientapp[1]["accuracy"] == by_default.metrics["accuracy"]
    assert by_default.guarantee.epsilon == pytest.approx(1.0)


def test_a_real_node_keeps_its_ledger_and_refuses_a_second_budget() -> None:
    grid = RealNodes(PrivateClientApp(load))
    OneShotForest(SCHEMA, epsilon=1.0, **TREES).start(grid)
    for context in grid.contexts():
        kept = json.loads(str(context.state.config_records["dpforest"]["ledger"]))
        assert Ledger.from_dict(kept).guarantee().epsilon == pytest.approx(1.0)
    with pytest.raises(RuntimeError, match="already spent a budget"):
        OneShotForest(SCHEMA, epsilon=1.0, **TREES).start(grid)


def test_a_real_node_holds_its_owners_limits_against_anybodys_server() -> None:
    with pytest.raises(RuntimeError, match=r"epsilon 2 is above this node's max-epsilon 1"):
        OneShotForest(SCHEMA, epsilon=2.0, **TREES).start(RealNodes(PrivateClientApp(load)))


def _fails(context: Context) -> LocalRows:
    raise KeyError("row 7 of Jane Doe")


def _nan(context: Context) -> LocalRows:
    return LocalRows([[np.nan, 0.5]], ["low"])


def _strange_class(context: Context) -> LocalRows:
    return LocalRows([[0.5, 0.5]], ["Jane Doe"])


@pytest.mark.parametrize("own", [_fails, _nan, _strange_class])
def test_loading_code_that_fails_shows_no_row_and_ends_the_guarantee(own: Any) -> None:
    grid = RealNodes(PrivateClientApp(own))
    with pytest.raises(RuntimeError, match="see its log") as failed:
        OneShotForest(SCHEMA, epsilon=1.0, **TREES).start(grid)
    assert "Jane" not in str(failed.value)
    assert "row 0" not in str(failed.value)
    for context in grid.contexts():
        kept = json.loads(str(context.state.config_records["dpforest"]["ledger"]))
        assert not Ledger.from_dict(kept).guarantee().holds


def test_rows_may_be_a_data_frame_with_columns_in_any_order() -> None:
    def frame(context: Context) -> LocalRows:
        rows = load(context)
        columns = {"b": rows.X[:, 1], "a": rows.X[:, 0], "unused": 1.0}
        return dataclasses.replace(rows, X=pd.DataFrame(columns))

    def start(own: Any) -> Any:
        return OneShotForest(SCHEMA, **TREES).start(InProcessGrid(PrivateClientApp(own), CLIENTS)).forest

    assert np.array_equal(start(frame).value, start(load).value)


def test_a_client_app_made_by_hand_answers_as_a_real_node() -> None:
    app = ClientApp()

    @app.query()
    def query(message: Message, context: Context) -> Message:
        return answer_query(message, context)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        return answer_train(message, context, load)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        return answer_evaluate(message, context, load)

    result = OneShotForest(SCHEMA, epsilon=1.0, **TREES).start(RealNodes(app, **{"share-metrics": True}))
    assert result.noise == "secure"
    assert result.metrics["accuracy"] > 0.6


def test_the_server_may_evaluate_too() -> None:
    seen = []

    def evaluate(round_: int, arrays: ArrayRecord) -> MetricRecord:
        seen.append((round_, len(arrays)))
        return MetricRecord({"arrays": len(arrays)})

    grid = InProcessGrid(PrivateClientApp(load), CLIENTS)
    result = OneShotForest(SCHEMA, **TREES).start(grid, evaluate_fn=evaluate)
    assert [round_ for round_, _ in seen] == [0, 1]
    assert result.evaluate_metrics_serverapp[1]["arrays"] == len(result.arrays) > 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tree": 3}, r"unknown option 'tree'; did you mean 'trees'\?"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"delta": 2.0}, "delta"),
        ({"seed": -1}, "seed"),
        ({"min_clients": 0}, r"min_clients 0 must be a share above 0"),
        ({"schema": {"target": "kind"}}, r"must be a dpforest.schema.Schema"),
    ],
)
def test_a_bad_value_is_named_before_anything_starts(options: dict[str, Any], words: str) -> None:
    with pytest.raises(DPForestError, match=words):
        OneShotForest(**({"schema": SCHEMA} | options))


def test_a_forest_begins_from_nothing_and_a_run_has_a_round() -> None:
    grid = InProcessGrid(PrivateClientApp(load), CLIENTS)
    strategy = OneShotForest(SCHEMA, **TREES)
    with pytest.raises(DPForestError, match="begins without a model: leave initial_arrays out"):
        strategy.start(grid, ArrayRecord([np.zeros(3)]))
    with pytest.raises(DPForestError, match="rounds"):
        strategy.start(grid, ArrayRecord(), num_rounds=0)


def plan(**changes: Any) -> str:
    text = MethodPlan("one_shot", TREES, SCHEMA, 1.0).to_message()["plan"]
    return json.dumps(json.loads(text) | changes)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{}",
        "[" * 100_000,
        plan(schema=None),
        plan(name=5),
        plan(name="os.system"),
        plan(epsilon="1"),
        plan(epsilon=True),
        plan(epsilon=None),
        plan(epsilon=float("nan")),
        plan(epsilon=-1),
        plan(delta="0"),
        plan(delta=1),
        plan(rounds=0),
        plan(rounds=10**9),
        plan(rounds="1"),
        plan(seed=-1),
        plan(seed=None),
        plan(options=[1]),
        plan(options={"trees": "many"}),
        plan(options={"tree": 1}),
        plan(public_rows="/etc/passwd"),
        plan(noise="seeded"),
        json.dumps({"name": "one_shot"}),
    ],
)
def test_a_hostile_plan_is_answered_and_costs_nothing(text: str) -> None:
    grid = RealNodes(PrivateClientApp(load), 1)
    config = ConfigRecord({"plan": text, "run": "r", "clients": 1, "round": 1})
    (reply,) = grid.send_and_receive([Message(RecordDict({CONFIG: config}), 1000, MessageType.TRAIN)])
    assert not reply.has_error(), "the app itself answers"
    assert "see its log" in str(reply.content.config_records[CONFIG]["error"])
    assert "dpforest" not in next(iter(grid.contexts())).state.config_records


def _strategies() -> list[type[PrivateStrategy[Any]]]:
    kinds = [getattr(package, name) for package in (strategies, baselines) for name in package.__all__]
    return [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, PrivateStrategy)]


def test_no_setting_of_a_method_is_called_like_what_every_strategy_has() -> None:
    shared = {"schema", "epsilon", "delta", "seed", "public_rows", "min_clients"}
    assert len(_strategies()) == 9
    for kind in _strategies():
        own = {field.name for field in dataclasses.fields(get_method(kind.method).settings)}
        assert not own & shared, kind.__name__


def test_a_strategy_may_run_again() -> None:
    strategy = OneShotForest(SCHEMA, **TREES)
    first, second = (strategy.start(InProcessGrid(PrivateClientApp(load), CLIENTS)) for _ in range(2))
    assert np.array_equal(first.forest.value, second.forest.value)
    assert len(first.exchanges) == len(second.exchanges) == 1
    assert first.ledgers[0] is not second.ledgers[0]
