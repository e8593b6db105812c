"""A server that asks for too much: what a node answers, and what it never lets out."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml
from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict
from hand_made import SCHEMA, TREES, make, raw_array, table_rows, write_table
from one_node import ALL_RUNS, ask, error, node, own, spent_nothing

from dpforest.errors import DPForestError
from dpforest.ledger import Ledger
from fl_app.client_app import app
from fl_app.data import build_source, node_data
from fl_app.engine.experiment import ConfigurationError, Experiment
from fl_app.engine.in_process import InProcessGrid
from fl_app.engine.node_state import node_secret
from fl_app.engine.run import run_experiment
from strategies.federation.roster import roster
from strategies.flower_compat import is_simulated
from strategies.messages import ARRAYS, CONFIG, METRICS, RowsChanged
from strategies.node.budget_file import BudgetFile

SECRET = "0.7071067811"  # a cell of the data


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return write_table(tmp_path_factory.mktemp("table"))


@pytest.fixture(autouse=True)
def _identified() -> None:
    InProcessGrid(app, 1)  # gives this process the identity that Flower's messages need


def epsilon_of(reply: RecordDict) -> float:
    return Ledger.from_dict(json.loads(str(reply[CONFIG]["ledger"]))).guarantee().epsilon


def for_nodes(dataset: Mapping[str, Any], **options: Any) -> Experiment:
    """An experiment as a server sends it to real nodes: no file is named in it, the schema is its content."""
    schema = yaml.safe_load(Path(dataset["schema"]).read_text())
    return make({"name": "table", "schema": schema}, **options)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"experiment": None}, "the experiment is not valid JSON"),
        ({"experiment": "{"}, "the experiment is not valid JSON"),
        ({"experiment": "[1]"}, "the experiment is no mapping"),
        ({"experiment": "null"}, "the experiment is no mapping"),
        ({"experiment": "[" * 200_000}, "the experiment is not valid JSON"),
        ({"experiment": b"\x80\x04N."}, "the experiment is not valid JSON"),
        ({"experiment": '{"strategy": 5, "dataset": {}}'}, "strategy 5: expected a group"),
        (
            {"experiment": '{"strategy": {"name": "os.system"}, "dataset": {"name": "watch"}}'},
            "no strategy 'os.system'",
        ),
        ({"experiment": '{"strategy": {"name": "one_shot"}, "dataset": {"name": "x"}}'}, "dataset.name 'x' is unknown"),
        ({"round": 0}, "the message says round=0"),
        ({"round": 10**12}, "the message says round=1000000000000"),
        ({"round": -1}, "the message says round=-1"),
        ({"round": "1"}, "the message says round='1'"),
        ({"round": None}, "the message says round=None"),
        ({"round": True}, "the message says round=True"),
        ({"clients": 0}, "the message says clients=0"),
        ({"clients": None}, "the message says clients=None"),
        ({"clients": 10**9}, "the message says clients=1000000000"),
        ({"clients": 99}, "4 subjects"),
    ],
)
@pytest.mark.parametrize("kind", [MessageType.TRAIN, MessageType.EVALUATE])
def test_malformed_settings_are_answered_with_the_reason(
    dataset: dict[str, Any], config: dict[str, Any], reason: str, kind: str
) -> None:
    context = node(simulated=True)
    assert reason in error(ask(context, make(dataset), kind, **config))
    assert epsilon_of(ask(context, make(dataset))) == pytest.approx(2.0), "the node still works, and has paid nothing"


def test_a_message_without_settings_is_answered() -> None:
    reply = app(Message(RecordDict(), 1000, MessageType.TRAIN), node(simulated=True))
    assert "no settings" in error(reply.content)


@pytest.mark.parametrize("number", [None, -1, "0", 1.0, True])
def test_a_node_without_a_number_takes_no_part(dataset: dict[str, Any], number: Any) -> None:
    context = node(simulated=True)
    context.node_config = {} if number is None else {"partition-id": number}
    assert "partition-id" in error(ask(context, make(dataset)))


@pytest.mark.parametrize(
    "arrays",
    [
        None,
        {},
        {"output": np.array([0])},
        {"output": np.array([99]), "owners": np.array([0])},
        {"output": np.array([np.nan]), "owners": np.array([0])},
        {"output": raw_array(b"\x80\x04N.")},
        {"offsets": np.array([0, 3]), "owners": np.array([0]), "output": np.array([0])},
        {
            "offsets": np.array([0, 3]), "feature": np.array([0, -1, -1]), "threshold": np.array([0.5]),
            "left": np.array([0]), "value": np.full((2, 3), 1 / 3), "weight": np.ones(2), "base": np.zeros(3),
            "owners": np.array([0]), "output": np.array([0]),
        },
    ],
    ids=["none", "empty", "no owners", "output 99", "output NaN", "pickle", "no trees", "cycle"],
)  # fmt: skip
def test_a_garbage_model_is_not_evaluated(dataset: dict[str, Any], arrays: Any) -> None:
    assert error(ask(node(simulated=True), make(dataset), MessageType.EVALUATE, arrays))


def test_a_second_training_message_of_a_run_exceeds_the_budget(dataset: dict[str, Any]) -> None:
    # A simulated node with a file of its own takes the same messages as a real one.
    for context in (node(simulated=True, **own(dataset)), node(**own(dataset))):
        assert epsilon_of(ask(context, for_nodes(dataset), clients=1)) == pytest.approx(2.0)
        for round_ in (1, 2):
            reply = ask(context, for_nodes(dataset), clients=1, round=round_)
            assert error(reply).startswith("BudgetExceeded" if is_simulated(context) else "DPForestError: see its log")


def test_what_fails_after_its_noise_was_drawn_is_paid_for(
    dataset: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whether training fails may follow from a release. A server must not get that answer again for nothing.
    experiment, context = for_nodes(dataset), node(**own(dataset))
    side = experiment.method.client
    learn = side.train  # type: ignore[attr-defined]

    def fail(*arguments: Any) -> None:
        learn(*arguments)
        raise FloatingPointError

    with monkeypatch.context() as patch:
        patch.setattr(side, "train", fail)
        assert error(ask(context, experiment)) == "DPForestError: see its log"
    kept = Ledger.from_dict(json.loads(str(context.state.config_records["dpforest"]["ledger"])))
    paid = Ledger(kept.budget)
    for entry in kept.entries:
        if entry.protected:
            paid.charge(entry)
    assert paid.guarantee().epsilon == pytest.approx(experiment.privacy.epsilon)


def test_a_failure_that_nobody_foresaw_ends_the_guarantee_and_the_run(
    dataset: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have followed from rows, and the server sees it; no second one can be had in the same run."""
    experiment = for_nodes(dataset)
    side = experiment.method.client

    def ask_twice(context: Context, failure: Exception) -> Ledger:
        with monkeypatch.context() as patch:
            patch.setattr(side, "train", lambda *arguments: (_ for _ in ()).throw(failure))
            reply = ask(context, experiment, clients=1)
        assert error(reply) == "DPForestError: see its log"
        kept = Ledger.from_dict(json.loads(str(context.state.config_records["dpforest"]["ledger"])))
        assert reply[CONFIG]["unprotected"] is not kept.guarantee().holds, "whoever reports the run must know"
        return kept

    for unforeseen in (OverflowError(SECRET), MemoryError(), RowsChanged()):
        context = node(**own(dataset))
        guarantee = ask_twice(context, unforeseen).guarantee()
        assert not guarantee.holds
        assert "whether training fails" in str(guarantee)
        for kind in (MessageType.TRAIN, MessageType.EVALUATE):
            settings = own(dataset, **{"share-metrics": True})
            context.node_config = {"partition-id": 0} | settings
            assert "takes no more part in this run" in error(ask(context, experiment, kind, clients=1))
    context = node(**own(dataset))
    assert ask_twice(context, DPForestError("of the message")).guarantee().holds, "what follows from no row"
    assert ARRAYS in ask(context, experiment, clients=1)


def test_settings_cannot_change_within_a_run(dataset: dict[str, Any]) -> None:
    rules = own(dataset, **{"share-metrics": True, "max-epsilon": 9.0})
    for context in (node(simulated=True, **rules), node(**rules)):
        first = ask(context, for_nodes(dataset, epsilon=1.0), clients=1)
        assert epsilon_of(first) == pytest.approx(1.0)
        changes: list[dict[str, Any]] = [{"epsilon": 9.0}, {"evaluation": {"seed": 1}}, {"seed": 5}]
        for other in (for_nodes(dataset, **change) for change in changes):
            for kind in (MessageType.TRAIN, MessageType.EVALUATE):
                assert "not the one that this run began with" in error(ask(context, other, kind, clients=1))


def test_a_real_node_spends_one_budget_in_a_flower_run(dataset: dict[str, Any]) -> None:
    context = node(**own(dataset))
    assert ARRAYS in ask(context, for_nodes(dataset), clients=1)
    assert "already spent a budget" in error(ask(context, for_nodes(dataset), clients=1, run="run 2"))
    assert "already spent a budget" in error(ask(context, for_nodes(dataset), clients=1, run=None))
    simulated = node(simulated=True)  # where one context serves a whole sweep
    for run in ("run 1", "run 2"):
        assert epsilon_of(ask(simulated, make(dataset), run=run)) == pytest.approx(2.0)


def test_seeded_noise_is_for_simulations_only(dataset: dict[str, Any]) -> None:
    experiment = for_nodes(dataset, privacy={"noise": "seeded"})

    def leaves(context: Context) -> list[int]:
        return ask(context, experiment, clients=1)[ARRAYS]["value"].numpy().ravel().tolist()  # type: ignore[no-any-return]

    played = own(dataset)
    assert leaves(node(simulated=True, **played)) == leaves(node(simulated=True, **played))
    real = [leaves(node(**played)) for _ in range(4)]
    assert len({tuple(values) for values in real}) > 1, "nobody can replay the noise of a real node"


def test_what_a_message_or_a_setting_says_does_not_make_a_node_simulated(
    dataset: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    context = node()
    ask(context, make(dataset), **{"in-process": True})
    assert not is_simulated(context)
    assert not is_simulated(node(**{"in-process": True, "num-partitions": 2}))
    # Nor does a Ray that the owner's own code has started in the process of a real node.
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: True))
    assert not is_simulated(node())
    assert is_simulated(node(simulated=True))


@pytest.mark.parametrize(
    ("settings", "options", "reason"),
    [
        ({"max-epsilon": 1.0}, {"epsilon": 1.5}, "epsilon 1.5 is above this node's max-epsilon 1"),
        ({"max-epsilon": 1}, {"epsilon": "inf"}, "epsilon inf is above"),
        ({}, {"epsilon": "inf"}, "epsilon inf is above"),
        ({"max-epsilon": float("nan")}, {"epsilon": 0.1}, "max-epsilon nan"),
        (
            {},
            {"privacy": {"delta": 0.5}},
            "delta 0.5 is above this node's max-delta 1e-10; its owner can say rows=",
        ),
        ({"max-delta": 0.0}, {"privacy": {"delta": 1e-9}}, "max-delta 0"),
        ({}, {"strategy": {"name": "centralized"}}, "does not take part in strategy centralized"),
        ({"strategies": "standalone, centralized"}, {}, "does not take part in strategy one_shot"),
    ],
)
def test_limits_of_the_owner_hold(
    dataset: dict[str, Any], settings: dict[str, Any], options: dict[str, Any], reason: str
) -> None:
    assert reason in error(ask(node(**own(dataset, **settings)), for_nodes(dataset, **options), clients=1))


def test_an_owner_can_allow_more(dataset: dict[str, Any]) -> None:
    # It has no budget, so whatever epsilon the message says, its name is what allows it.
    context = node(**own(dataset, strategies="centralized"))
    reply = ask(context, for_nodes(dataset, strategy={"name": "centralized"}, epsilon="inf"), clients=1)
    assert "all training rows" in str(reply[CONFIG]["ledger"])
    assert ARRAYS in reply
    assert ARRAYS in ask(node(**own(dataset, strategies="one_shot")), for_nodes(dataset), clients=1)


def test_a_max_epsilon_also_holds_in_a_simulation(dataset: dict[str, Any]) -> None:
    assert "max-epsilon" in error(ask(node(simulated=True, **{"max-epsilon": 1.0}), make(dataset)))


def test_metrics_leave_a_real_node_only_if_its_owner_says_so(dataset: dict[str, Any]) -> None:
    stay = for_nodes(dataset, strategy={"name": "standalone"} | {k: v for k, v in TREES.items() if k != "name"})
    for wish, shares in (("none", False), (False, False), (True, True), ("clear", True)):
        context = node(**own(dataset, **{"share-metrics": wish}))
        assert ask(context, stay, clients=1)[CONFIG]["client"] == 0
        reply = ask(context, stay, MessageType.EVALUATE, clients=1)
        if shares:
            assert 40 < sum(reply[METRICS]["confusion"]) < 110, "about a fifth of the owner's 360 rows"
        else:
            assert "does not share metrics" in error(reply)


def test_no_metrics_of_a_model_that_holds_training_rows_in_clear(dataset: dict[str, Any]) -> None:
    """LRF is said to cost nothing, so whether test rows are shared or not, nothing may follow from its leaves."""
    alone = for_nodes(dataset, strategy={"name": "lrf", "trees": 3, "depth": 4})
    context = node(**own(dataset, **{"share-metrics": True}))
    for has_model in (False, True):  # which may follow from rows, too
        reply = ask(context, alone, MessageType.EVALUATE, clients=1)
        assert "no metrics of it are shared" in error(reply)
        assert METRICS not in reply
        if not has_model:
            assert epsilon_of(ask(context, alone, clients=1)) == 0


def test_a_real_node_opens_no_file_that_a_server_names(dataset: dict[str, Any]) -> None:
    named = make(dataset).to_json()
    assert "opens no file that a server names" in error(ask(node(**own(dataset)), named, clients=1))
    schema = json.loads(for_nodes(dataset).to_json())
    schema["dataset"]["schema"] = str(dataset["schema"])
    assert "opens no file that a server names" in error(ask(node(**own(dataset)), json.dumps(schema), clients=1))


def test_a_node_splits_its_rows_by_their_content(dataset: dict[str, Any], tmp_path: Path) -> None:
    """One record more leaves all others on their side, so the guarantee holds for the node's whole table."""
    more = write_table(tmp_path, change="c0,0.123456,0.654321,low")
    source = for_nodes(dataset).source
    before, after = (node_data(source, table["path"], 0, 1, b"secret") for table in (dataset, more))
    assert len(after.train) + len(after.test) == len(before.train) + len(before.test) + 1 == 361
    for side in ("train", "test"):
        old, new = ({tuple(row) for row in getattr(data, side).X.tolist()} for data in (before, after))
        assert old <= new, side


def test_a_test_row_of_one_run_is_a_test_row_of_all(dataset: dict[str, Any]) -> None:
    """A server that asks for other columns in another order in each run saw every row after thirty of them."""
    rng, shown = np.random.default_rng(0), []
    for _ in range(6):
        schema = SCHEMA | {"features": [SCHEMA["features"][i] for i in rng.permutation(2)[: rng.integers(1, 3)]]}
        experiment = make({"name": "table", "schema": schema}, strategy=TREES | {"name": "standalone"})
        context = node(**own(dataset, **{"share-metrics": True}))
        ask(context, experiment, clients=1)
        confusion = np.reshape(ask(context, experiment, MessageType.EVALUATE, clients=1)[METRICS]["confusion"], (3, 3))
        shown.append(confusion.sum(axis=1).tolist())
    assert all(classes == shown[0] for classes in shown)


def test_overlapping_windows_are_refused_on_a_node(tmp_path: Path) -> None:
    """A sample in 8 records costs 8 x epsilon, of which neither the ledger nor the owner's limits know."""
    windows = {"name": "watch", "length": 48, "step": 6, "overlap": "count"}
    context = node(**{"max-epsilon": 2.0, "budget-file": str(tmp_path / "spent.json")})
    assert "a raw sample would be in up to 8 records and cost 8 x epsilon" in error(ask(context, make(windows)))
    assert spent_nothing(tmp_path / "spent.json")


def test_a_node_that_cannot_keep_its_secret_takes_no_part(dataset: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    kept = {"state-folder": str(tmp_path / "file"), "budget-file": str(tmp_path / "spent.json")}
    said = error(ask(node(**own(dataset, **kept)), for_nodes(dataset), clients=1))
    assert "this node cannot keep its state" in said
    assert str(tmp_path) not in said
    assert spent_nothing(tmp_path / "spent.json")


def test_no_copy_of_a_nodes_rows_is_made(
    dataset: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPFOREST_CACHE", str(tmp_path / "cache"))
    assert ARRAYS in ask(node(**own(dataset)), for_nodes(dataset), clients=1)
    assert not (tmp_path / "cache").exists()


def test_rows_that_do_not_fit_a_servers_schema_are_left_out_in_silence(dataset: dict[str, Any], tmp_path: Path) -> None:
    """An error would tell the server, outside the ledger, that there is such a row."""
    odd = write_table(tmp_path, change=f"c0,{SECRET}x,0.5,low")
    assert ARRAYS in ask(node(**own(odd)), for_nodes(odd), clients=1)
    (tmp_path / "narrow.yaml").write_text(yaml.safe_dump(SCHEMA | {"classes": ["low", "middle"]}))
    narrow = for_nodes(dataset | {"schema": str(tmp_path / "narrow.yaml")})
    assert ARRAYS in ask(node(**own(dataset)), narrow, clients=1)


def test_a_budget_file_adds_up_over_runs(dataset: dict[str, Any], tmp_path: Path) -> None:
    file = BudgetFile(tmp_path / "spent.db")
    rules = own(dataset, **{"max-epsilon": 5.0, "budget-file": str(tmp_path / "spent.db")})
    for _ in range(2):  # a new context is a new Flower run
        assert ARRAYS in ask(node(**rules), for_nodes(dataset), clients=1)
    assert error(ask(node(**rules), for_nodes(dataset), clients=1)) == f"Refused: {ALL_RUNS}"
    assert [run.epsilon for run in file.runs()] == [2.0, 2.0]
    for _ in range(2):  # no guarantee, and so no epsilon: written down, and allowed by its name alone
        bare = for_nodes(dataset, strategy={"name": "centralized"}, epsilon=9.0)
        assert ARRAYS in ask(node(**rules, strategies="centralized"), bare, clients=1)
    assert [(run.strategy, run.epsilon) for run in file.runs()[2:]] == [("centralized", None)] * 2
    assert ARRAYS in ask(node(**rules), for_nodes(dataset, epsilon=1.0), clients=1), "5 in all"
    (tmp_path / "spent.db").write_text("no database")
    assert "cannot keep its budget-file" in error(ask(node(**rules), for_nodes(dataset), clients=1))


def test_errors_show_no_data_of_a_real_node(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    bad_cell = write_table(tmp_path, change=f"c0,{SECRET}x,0.5,low")
    assert SECRET in error(ask(node(simulated=True), make(bad_cell))), "a simulation says what is wrong"
    (tmp_path / "table.csv").write_text(f"client,{SECRET},kind\nc0,1,low\n")
    caplog.clear()
    for kind in (MessageType.TRAIN, MessageType.EVALUATE):
        context = node(**own(bad_cell, **{"share-metrics": True}))
        assert error(ask(context, for_nodes(bad_cell), kind, clients=1)) == "DPForestError: see its log"
        assert SECRET in caplog.text, "the owner reads it"
        assert SECRET not in str(context.state)


def test_a_node_cannot_be_asked_many_questions_until_one_works(dataset: dict[str, Any], tmp_path: Path) -> None:
    # Whether all classes are among those that a server names shows in whether training works.
    (tmp_path / "narrow.yaml").write_text(yaml.safe_dump(SCHEMA | {"classes": ["low", "middle"]}))
    first = for_nodes(dataset | {"schema": str(tmp_path / "narrow.yaml")})
    second, context = for_nodes(dataset), node(**own(dataset))
    assert ARRAYS in ask(context, first, clients=1)
    assert "not the one that this run began with" in error(ask(context, second, clients=1))
    assert "already spent a budget" in error(ask(context, second, clients=1, run="run 2"))


def test_what_only_nodes_have_is_not_public_to_the_server(dataset: dict[str, Any]) -> None:
    """FEXT-DP's default: before it was said where the rows are to be given, which on nodes leads nowhere."""
    experiment = for_nodes(dataset, strategy={"name": "fext"}, evaluation={"public_share": 0.25})
    with pytest.raises(ConfigurationError, match=r"only nodes have rows: set evaluation.public_share=0 \(with"):
        experiment.server_task(2)
    assert for_nodes(dataset, strategy={"name": "fext"}).server_task(2).public_rows is None


def test_an_introduction_tells_public_facts_only() -> None:
    message = Message(RecordDict({CONFIG: ConfigRecord({"ask": "everything"})}), 1000, MessageType.QUERY)
    reply = app(message, node(**{"data-path": "/home/me", "max-epsilon": 1.0}))
    assert dict(reply.content[CONFIG]) == {"partition-id": 0}
    assert set(reply.content) == {CONFIG}


def test_a_node_without_a_number_is_named_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    class Grid(InProcessGrid):
        def __init__(self) -> None:
            super().__init__(app, 3)
            self._contexts[1001].node_config = {"data-path": "/home/me"}

    assert roster(Grid(), [1000, 1001, 1002], 1) == {0: 1000, 2: 1002}
    assert "this node's partition-id is None; set it in the node configuration" in caplog.text
    assert "1 of 3 nodes gave no partition-id of use, or are gone: they take no part" in caplog.text
    assert "/home/me" not in caplog.text


@pytest.mark.parametrize("trust", ["local", "shared"])
@pytest.mark.parametrize("matching", ["none", "for tests only", "all"])
def test_boosting_on_nodes_shows_nobody_whether_there_are_rows(trust: str, matching: str, tmp_path: Path) -> None:
    """A category is a filter that the server chooses: whether a row is left must not decide whether a node answers."""
    names = {"none": "mallory", "for tests only": "alice", "all": "alice"}
    schema = SCHEMA | {"features": [*SCHEMA["features"], {"name": "name", "categories": ["alice", "nobody"]}]}
    source = build_source("table", {"schema": schema})
    X, y = table_rows(60)

    def table(client: int, name: str) -> str:
        lines = [f"{a:.6f},{b:.6f},{name},{SCHEMA['classes'][k]}" for (a, b), k in zip(X, y, strict=True)]
        path = tmp_path / f"{client}.csv"
        if client == 0 and matching == "for tests only":
            for line in lines:
                path.write_text(f"a,b,name,kind\n{line}\n")
                if len(node_data(source, str(path), 0, 1, node_secret({})).test):
                    return str(path)
        path.write_text("\n".join(["a,b,name,kind", *lines]) + "\n")
        return str(path)

    paths = [table(client, names[matching] if client == 0 else "alice") for client in range(3)]

    def on_nodes(message: Message, context: Context) -> Message:
        client = int(context.node_config["partition-id"])
        rules = {"max-epsilon": 2.0, "max-delta": 1e-5, "strategies": "boost", "data-path": paths[client]}
        config = {"partition-id": client} | rules
        return app(message, Context(1, context.node_id, config, context.state, {}))

    privacy = {"delta": 1e-6, "trust": trust}
    experiment = make({"name": "table", "schema": schema}, strategy={"name": "boost"}, privacy=privacy, rounds=1)
    done = run_experiment(experiment, InProcessGrid(on_nodes, 3))
    assert not done.failures
    assert done.privacy["epsilon"] == pytest.approx(2.0, rel=1e-3)
