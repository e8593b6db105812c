"""Clients that fail, fall silent or send rubbish: each costs its own contribution, by name, and the run goes on."""

from __future__ import annotations

import io
import json
import logging
import pickle
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict
from flwr.common.constant import SUPERLINK_NODE_ID, ErrorCode
from hand_made import (
    CLIENTS,
    TREES,
    Act,
    Interfering,
    MeddlingGrid,
    make,
    raw_array,
    run,
    with_arrays,
    with_config,
    with_content,
    write_table,
)

from dpforest.errors import DPForestError
from dpforest.ledger import total_epsilon
from fl_app.client_app import app as client_app
from fl_app.engine.experiment import Experiment
from fl_app.engine.in_process import InProcessGrid
from fl_app.engine.run import run_experiment
from fl_app.jobs.record import run_job
from fl_app.results.text import run_table
from strategies.federation.roster import roster
from strategies.messages import ARRAYS, CONFIG, METRICS, error_content
from strategies.method import TooFewClients
from strategies.node.consent import Refused

BAD = 2


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return write_table(tmp_path_factory.mktemp("table"))


@pytest.fixture(scope="module")
def honest(dataset: dict[str, Any]) -> dict[str, float]:
    """Metrics of the run that client 2 takes no part in."""
    return run(make(dataset), app=Interfering({BAD: _silent})).metrics


def _raise(message: Message, honest: Callable[[], Message]) -> Message:
    raise RuntimeError("out of order")


def _silent(message: Message, honest: Callable[[], Message]) -> Message:
    raise TimeoutError


def npy(array: np.ndarray, allow_pickle: bool = False) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=allow_pickle)
    return file.getvalue()


def npz() -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, bomb=np.zeros(1_000_000))
    return file.getvalue()


def header_only(shape: tuple[int, ...]) -> bytes:
    """An npy header that announces an array, and nothing behind it."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<i4", "fortran_order": False, "shape": shape})
    return file.getvalue()


def tree(**changes: np.ndarray) -> Act:
    """A tree of depth 1 in place of the client's own, sound except for the changes."""
    sound = {
        "offsets": np.array([0, 3]),
        "feature": np.array([0, -1, -1], np.int8),
        "threshold": np.array([0.5], np.float32),
        "left": np.array([1], np.int32),
        "value": np.array([[5, 1, 0], [0, 4, 5]], np.int16),
        "weight": np.empty(0, np.float32),
        "base": np.zeros(3),
    }
    return with_arrays(**(sound | changes))


def ledger(**changes: Any) -> Act:
    """The client's own ledger with top-level values changed."""

    def act(message: Message, honest: Callable[[], Message]) -> Message:
        reply = honest()
        plain = json.loads(str(reply.content[CONFIG]["ledger"])) | changes
        reply.content[CONFIG] = ConfigRecord(dict(reply.content[CONFIG]) | {"ledger": json.dumps(plain)})
        return reply

    return act


def entry(**changes: Any) -> Act:
    """A ledger of one entry."""
    plain = {
        "what": "x", "mechanism": "m", "epsilon": 1.0, "mu": 0.0, "times": 1, "rows": "all", "sampling": 1.0,
        "fixed_size": False, "protected": True, "note": "",
    }  # fmt: skip
    return ledger(entries=[plain | changes])


def metrics(**values: Any) -> Act:
    def act(message: Message, honest: Callable[[], Message]) -> Message:
        reply = honest()
        reply.content[METRICS] = MetricRecord(values)
        return reply

    return act


def bytes_that_run(tmp: str) -> bytes:
    class Run:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path(tmp).touch, ())

    return pickle.dumps(Run())


HOSTILE: dict[str, tuple[Act, str]] = {
    "raises": (_raise, "out of order"),
    "silent": (_silent, "no answer in time"),
    "says no": (with_content(RecordDict({CONFIG: ConfigRecord({"client": BAD, "error": "my reasons"})})), "my reasons"),
    "empty": (with_content(RecordDict()), "no settings"),
    "settings under another kind": (with_content(RecordDict({CONFIG: MetricRecord({"x": 1})})), "no settings"),
    "arrays under another kind": (
        lambda message, honest: _put(honest(), ARRAYS, ConfigRecord({"offsets": [0, 1]})),
        "'offsets' is missing",
    ),
    "no arrays": (lambda message, honest: _put(honest(), ARRAYS, ArrayRecord()), "'offsets' is missing"),
    "array missing": (with_arrays(threshold=None), "'threshold' is missing"),
    "text array": (with_arrays(threshold=np.array(["a", "b"])), "expected plain numbers"),
    "complex array": (with_arrays(threshold=np.array([1j])), "expected plain numbers"),
    "pickled array": (
        with_arrays(threshold=raw_array(npy(np.array([{}, None]), allow_pickle=True), "object", (2,))),
        "'threshold' cannot be read",
    ),
    "bare pickle": (with_arrays(threshold=raw_array(bytes_that_run("/tmp/never"))), "'threshold' cannot be read"),
    "zip of arrays": (with_arrays(threshold=raw_array(npz())), "'threshold' is no single array"),
    "noise": (with_arrays(threshold=raw_array(b"\x00\xff" * 40)), "'threshold' cannot be read"),
    "no bytes": (with_arrays(threshold=raw_array(b"")), "'threshold' cannot be read"),
    "cut off": (with_arrays(left=raw_array(npy(np.arange(7))[:-3])), "'left' cannot be read"),
    "promised terabytes": (with_arrays(left=raw_array(header_only((2**42,)), "int32")), "'left' cannot be read"),
    "promised 10 million nodes": (
        with_arrays(feature=raw_array(header_only((10_000_000,)), "int32", (10_000_000,))),
        "'feature' cannot be read",
    ),
    "9 dimensions": (with_arrays(left=np.zeros((1,) * 9, np.int32)), "9 dimensions"),
    "wrong shape": (with_arrays(value=np.zeros((2, 5), np.int8)), "do not fit"),
    "matrix of thresholds": (with_arrays(threshold=np.zeros((7, 2), np.float32)), "'threshold' has 2 dimensions"),
    "float counts": (tree(value=np.full((2, 3), 0.5, np.float32)), "'value' has 2 dimensions of float32"),
    "own children": (tree(left=np.array([0], np.int32)), "no cycles"),
    "children of nobody": (tree(left=np.array([2], np.int32)), "children must come after their parent"),
    "children far away": (tree(left=np.array([2**31 - 1], np.int32)), "children must come after their parent"),
    "negative children": (tree(left=np.array([-5], np.int32)), "children"),
    "NaN threshold": (tree(threshold=np.array([np.nan], np.float32)), "threshold holds NaN"),
    "infinite threshold": (tree(threshold=np.array([-np.inf], np.float32)), "threshold holds NaN"),
    "feature that does not exist": (tree(feature=np.array([9, -1, -1], np.int8)), "feature 9 does not exist"),
    "feature beyond 64 bits": (tree(feature=np.array([2**64 - 1, 0, 0], np.uint64)), "do not fit"),
    "no tree": (tree(offsets=np.array([0])), "in 0 trees"),
    "many trees": (tree(offsets=np.arange(5000)), "in 4999 trees"),
    "falling offsets": (tree(offsets=np.array([3, 0])), "offsets must rise"),
    "NaN base": (tree(base=np.array([0, 0, np.nan])), "base holds NaN"),
    "too deep": (
        tree(
            offsets=np.array([0, 9]),
            feature=np.array([0, 0, -1, 0, -1, 0, -1, -1, -1], np.int8),
            threshold=np.zeros(4, np.float32),
            left=np.array([1, 3, 5, 7], np.int32),
            value=np.ones((5, 3), np.int8),
        ),
        "depth 4; at most 3",
    ),
    "no ledger": (with_config(ledger=None), "no readable ledger"),
    "ledger is no JSON": (with_config(ledger="epsilon: 1"), "no readable ledger"),
    "ledger is bytes": (with_config(ledger=b"{}"), "no readable ledger"),
    "ledger is a list of numbers": (with_config(ledger=[1, 2]), "no readable ledger"),
    "ledger is a number": (with_config(ledger="5"), "no readable ledger"),
    "deeply nested ledger": (with_config(ledger="[" * 200_000), "no readable ledger"),
    "ledger of another budget": (ledger(budget={"epsilon": 0.01, "delta": 0}), "another budget"),
    "ledger of another unit": (ledger(unit="one byte"), "another budget, unit"),
    "ledger without entries": (ledger(entries=None), "no readable ledger"),
    "negative epsilon": (entry(epsilon=-1.0), "no readable ledger"),
    "epsilon beyond floats": (entry(epsilon=10**400), "no readable ledger"),
    "infinitely often": (entry(times=float("inf")), "no readable ledger"),
    "metrics in place of numbers": (with_config(client=[1.5], ledger=True), "no readable ledger"),
}


def _put(reply: Message, name: str, record: Any) -> Message:
    del reply.content[name]
    reply.content[name] = record
    return reply


@pytest.mark.parametrize("name", HOSTILE)
def test_a_bad_update_costs_its_client_only(dataset: dict[str, Any], honest: dict[str, float], name: str) -> None:
    act, reason = HOSTILE[name]
    done = run(make(dataset), app=Interfering({BAD: act}))
    (failure,) = done.failures
    assert (failure.round, failure.client) == (1, BAD)
    assert reason in failure.reason
    assert done.metrics["confusion"] == honest["confusion"]
    assert done.metrics["failures"] == 1
    assert [row["failures"] for row in done.clients] == [0, 0, 1, 0]
    assert done.rounds[0]["answered"] == 3
    assert done.rounds[0]["asked"] == CLIENTS


@pytest.mark.parametrize("kind", ["train", "evaluate"])
@pytest.mark.parametrize("nothing", ["", b"", []], ids=repr)
def test_settings_that_hold_nothing_end_no_run(dataset: dict[str, Any], kind: str, nothing: Any) -> None:
    """Flower counts the bytes of no such settings."""
    done = run(make(dataset), app=Interfering({BAD: with_config(more=nothing)}, kind))
    untroubled = run(make(dataset))
    assert not done.failures
    assert done.metrics["confusion"] == untroubled.metrics["confusion"]
    more = len("more") if kind == "train" else 0  # evaluation is not part of what training costs
    assert done.metrics["bytes_up"] == untroubled.metrics["bytes_up"] + more


def test_no_bytes_of_a_client_are_run(dataset: dict[str, Any], tmp_path: Path) -> None:
    mark = tmp_path / "was here"
    run(make(dataset), app=Interfering({BAD: with_arrays(threshold=raw_array(bytes_that_run(str(mark))))}))
    assert not mark.exists()


def test_ten_million_real_nodes_are_refused_without_copies_of_them(dataset: dict[str, Any]) -> None:
    size = 10_000_000
    forest = tree(feature=np.zeros(size, np.int8), left=np.ones(1, np.int32))
    tracemalloc.start()
    try:
        done = run(make(dataset), app=Interfering({BAD: forest}))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert "10000000 nodes in 1 trees; allowed: 15 nodes" in done.failures[0].reason
    assert peak < 8 * size  # the message itself a few times over, but no arrays of 8 bytes a node


@pytest.mark.parametrize("rows", [float("nan"), float("inf"), -5.0, 1e300])
def test_a_noised_row_count_is_not_believed(dataset: dict[str, Any], rows: float) -> None:
    strategy = TREES | {"rows": "noised", "depth": "auto"}
    done = run(make(dataset, strategy=strategy), app=Interfering({BAD: metrics(rows=rows)}))
    assert [failure.client for failure in done.failures] == [BAD]


def test_a_row_count_that_nobody_asked_for_buys_no_larger_trees(dataset: dict[str, Any]) -> None:
    strategy = TREES | {"depth": "auto", "trees": "auto"}
    done = run(make(dataset, strategy=strategy), app=Interfering({BAD: metrics(rows=1e9)}))
    assert not done.failures


def test_an_unprotected_client_spoils_the_guarantee_and_nothing_else(dataset: dict[str, Any]) -> None:
    done = run(make(dataset), app=Interfering({BAD: entry(what="my rows", protected=False, epsilon=0.0)}))
    assert not done.failures
    assert done.privacy["epsilon"] == "inf"
    assert "my rows" in done.privacy["guarantee"]


def more(**changes: Any) -> Act:
    """The client's own ledger, with every entry changed."""

    def act(message: Message, honest: Callable[[], Message]) -> Message:
        reply = honest()
        entries = json.loads(str(reply.content[CONFIG]["ledger"]))["entries"]
        return ledger(entries=[each | changes for each in entries])(message, lambda: reply)

    return act


def lines(count: int, **changes: Any) -> Act:
    """A ledger of many entries, each of another cost."""
    plain = {
        "what": "x", "mechanism": "m", "epsilon": 0.0, "mu": 0.0, "times": 1, "rows": "all", "sampling": 1.0,
        "fixed_size": False, "protected": True, "note": "",
    } | changes  # fmt: skip
    return ledger(entries=[plain | {"mu": plain["mu"] and plain["mu"] + i / count} for i in range(count)])


NO_PART_OF_THE_PLAN: dict[str, tuple[Act, str]] = {
    "Gaussian noise, which has no pure epsilon": (entry(epsilon=0.0, mu=1.0), "no part of the plan: 'x'"),
    "sampled with other noise each time": (lines(200, mu=1.0, sampling=0.01), "200 lines, and the plan"),
    "few that take long": (lines(3, mu=19.0, sampling=1e-4), "no part of the plan"),
    "a million times": (more(times=10**6), "no part of the plan"),
    "more often than can be counted": (more(times=10**12), "no readable ledger"),
    "400 digits": (more(times=10**400), "no readable ledger"),
    "a part of a time": (more(times=1.5), "no readable ledger"),
    "50,000 lines": (lines(50_000, epsilon=1e-9), "50000 lines"),
    "50,000 lines without protection": (lines(50_000, protected=False), "50000 times"),
    "another cost": (more(epsilon=0.01), "no part of the plan"),
    "another mechanism": (more(mechanism="Laplace"), "no part of the plan"),
    "another part of the rows": (more(rows="2 slices/0"), "no part of the plan"),
}


@pytest.mark.parametrize("name", NO_PART_OF_THE_PLAN)
def test_a_ledger_that_is_no_part_of_the_plan_is_refused_and_never_composed(
    dataset: dict[str, Any], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    act, reason = NO_PART_OF_THE_PLAN[name]
    composed: list[Any] = []
    total = total_epsilon

    def noting(entries: Any, delta: float) -> float:
        composed.extend(entries := list(entries))
        return total(entries, delta)

    monkeypatch.setattr("dpforest.ledger.ledger.total_epsilon", noting)
    done = run(make(dataset), app=Interfering({BAD: act}))
    assert [f.client for f in done.failures] == [BAD]
    assert reason in done.failures[0].reason
    assert all(each.what != "x" for each in composed)
    assert len(json.dumps(done.privacy)) < 20_000
    if "readable" not in reason:
        assert done.privacy["guarantee"].startswith(f"guarantee: none (what client {BAD} sent: its ledger was refused")


def test_clients_may_round_costs_otherwise_and_write_notes_of_their_own(dataset: dict[str, Any]) -> None:
    def nudge(message: Message, honest: Callable[[], Message]) -> Message:
        reply = honest()
        plain = json.loads(str(reply.content[CONFIG]["ledger"]))
        entries = [each | {"epsilon": each["epsilon"] * (1 + 1e-15), "note": "mine"} for each in plain["entries"]]
        return ledger(entries=entries)(message, lambda: reply)

    done = run(make(dataset), app=Interfering({BAD: nudge}))
    assert not done.failures
    assert done.privacy["epsilon"] == pytest.approx(2.0)


@pytest.mark.parametrize("lost", [1, 2])
def test_what_a_client_paid_for_a_lost_answer_counts(dataset: dict[str, Any], lost: int) -> None:
    def lose(message: Message, honest: Callable[[], Message]) -> Message:
        reply = honest()
        if message.content[CONFIG]["round"] == lost:
            raise TimeoutError
        return reply

    strategy = {"name": "ldp_bagging", "round_budget": "split"}
    done = run(make(dataset, strategy=strategy, rounds=2), app=Interfering({BAD: lose}))
    liar, other = (done.privacy["clients"][client] for client in (str(BAD), "0"))
    assert (liar["epsilon"], liar["guarantee"]) == (other["epsilon"], other["guarantee"])
    notes = [entry["note"] for entry in liar["entries"]]
    # Its next answer brings the whole ledger; after the last one there is none.
    assert all(note.startswith("asked, no answer: counted as spent") == (lost == 2) for note in notes)


def test_a_client_that_forgets_what_it_spent_is_taken_to_have_spent_the_plan(dataset: dict[str, Any]) -> None:
    def forget(message: Message, honest: Callable[[], Message]) -> Message:
        reply = honest()
        if message.content[CONFIG]["round"] == 2:  # as a node that has lost its state
            ledger = json.loads(str(reply.content[CONFIG]["ledger"]))
            ledger["entries"] = [entry for entry in ledger["entries"] if entry["what"].startswith("round 2")]
            return with_config(ledger=json.dumps(ledger))(message, lambda: reply)
        return reply

    strategy = {"name": "ldp_bagging", "round_budget": "split"}
    done = run(make(dataset, strategy=strategy, rounds=2), app=Interfering({BAD: forget}))
    assert [(f.round, f.client) for f in done.failures] == [(2, BAD)]
    assert "lacks what it has released" in done.failures[0].reason
    liar, other = (done.privacy["clients"][client] for client in (str(BAD), "0"))
    assert liar["epsilon"] == other["epsilon"]


JUDGEMENTS: dict[str, tuple[Act, str]] = {
    "raises": (_raise, "out of order"),
    "silent": (_silent, "no answer to the evaluation"),
    "empty": (with_content(RecordDict()), "no settings"),
    "no metrics": (lambda m, honest: _put(honest(), METRICS, ConfigRecord()), "no metrics"),
    "other metrics": (metrics(accuracy=1.0), "the evaluation reports"),
    "moments": (metrics(moments=[1.0] * 6, errors=[0.0, 0.0]), "the evaluation reports"),
    "NaN": (metrics(confusion=[float("nan")] * 9, log_loss=[0.0]), "NaN"),
    "infinity": (metrics(confusion=[1.0] * 9, log_loss=[float("inf")]), "NaN or infinity"),
    "too short": (metrics(confusion=[1.0] * 4, log_loss=[0.0]), "the evaluation reports"),
    "nothing": (metrics(confusion=[], log_loss=[]), "the evaluation reports"),
    "negative": (metrics(confusion=[-5.0] + [9.0] * 8, log_loss=[0.0]), "fewer than none"),
    "no rows": (metrics(confusion=[0.0] * 9, log_loss=[0.0]), "no test rows"),
    "beyond adding": (metrics(confusion=[1.7e308] * 9, log_loss=[0.0]), "test rows; whole numbers up to 1e+12"),
    "1e300 rows": (metrics(confusion=[1e300] + [0.0] * 8, log_loss=[0.0]), "counts 1e+300 test rows"),
    "parts of rows": (metrics(confusion=[0.5] * 9, log_loss=[0.0]), "whole numbers"),
    "log loss below 0": (metrics(confusion=[1.0] * 9, log_loss=[-1e300]), "the log loss -1e+300"),
    "owners no JSON": (with_config(by_owner="{"), "accuracies by owner"),
    "owners a list": (with_config(by_owner="[1]"), "accuracies by owner"),
    "owners nested": (with_config(by_owner="[" * 200_000), "accuracies by owner"),
    "owners unknown": (with_config(by_owner='{"all": {"77": 1.0}}'), "name clients that do not train"),
    "owners above one": (with_config(by_owner='{"all": {"0": 7.0}}'), "not between 0 and 1"),
    "owners NaN": (with_config(by_owner='{"all": {"0": NaN}}'), "not between 0 and 1"),
}


@pytest.mark.parametrize("name", JUDGEMENTS)
def test_a_bad_judgement_costs_its_client_only(dataset: dict[str, Any], name: str) -> None:
    act, reason = JUDGEMENTS[name]
    done = run(make(dataset, memorization=[5]), app=Interfering({BAD: act}, "evaluate"))
    (failure,) = done.failures
    assert failure.client == BAD
    assert reason in failure.reason
    assert done.metrics["test_rows"] == 3 * 18
    assert 0 <= done.metrics["memorization_rate"]["5"] <= 1
    assert "accuracy" not in done.clients[BAD]
    assert "accuracy" in done.clients[0]


def test_moments_that_no_targets_have_cost_their_client_only(tmp_path: Path) -> None:
    schema = {"target": "b", "target_range": [0, 1], "features": [{"name": "a", "low": 0, "high": 1}]}
    experiment = make(write_table(tmp_path, schema=schema), strategy={"name": "centralized", "trees": 3})
    act = metrics(moments=[12.0, 1e200, 1e200, 1.0, 1.0, 1.0], errors=[1.0, 1.0])
    done = run(experiment, app=Interfering({BAD: act}, "evaluate"))
    assert [failure.client for failure in done.failures] == [BAD]
    assert "cannot be those of 12 targets" in done.failures[0].reason
    assert 0 <= done.metrics["mse"] <= 1
    json.loads(json.dumps(done.metrics, allow_nan=False))


def test_a_run_whose_test_targets_are_all_the_same_has_no_r2_and_valid_json(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    schema = {"target": "b", "target_range": [2, 3], "features": [{"name": "a", "low": 0, "high": 1}]}
    experiment = make(write_table(tmp_path, schema=schema), strategy={"name": "centralized", "trees": 3})
    output = tmp_path / "run"
    run_job(experiment, InProcessGrid(client_app, CLIENTS), output)
    written = json.loads((output / "metrics.json").read_text(), parse_constant=lambda name: pytest.fail(name))
    assert "mse" in written
    assert not {"r2", "worst_client"} & set(written)
    assert "no r2: it is not defined for these test rows" in caplog.text
    assert (output / "model" / "forest.json").is_file()


def test_a_finished_model_is_not_lost_to_a_fact_about_it(
    dataset: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> Any:
        raise ZeroDivisionError("no such number")

    for name in ("report", "client_facts"):
        monkeypatch.setattr(f"strategies.one_shot.server.OneShotServer.{name}", fail)
    monkeypatch.setattr("strategies.metrics.summarize", fail)
    run_job(make(dataset), InProcessGrid(client_app, CLIENTS), tmp_path / "run")
    assert (tmp_path / "run" / "model" / "forest.json").is_file()
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["test_rows"] == 4 * 18
    assert "facts about the run are left out: ZeroDivisionError: no such number" in caplog.text
    assert "no test metrics: ZeroDivisionError: no such number" in caplog.text


def test_a_model_is_saved_whatever_its_features_and_classes_are_called(tmp_path: Path) -> None:
    names = (r"$\bad{$", "\x1b[2J")
    features = [{"name": name, "low": 0, "high": 1} for name in names]
    schema = {"target": "kind", "classes": [r"$\bad{$", "middle", "high"], "features": features, "rows": 100}
    settings = write_table(tmp_path, schema=schema)
    table = Path(settings["path"])
    table.write_text(table.read_text().replace("a,b", ",".join(names)).replace("low", r"$\bad{$"))
    fext = {"name": "fext", "filter_by": "clients"}
    run_job(make(settings, strategy=fext), InProcessGrid(client_app, CLIENTS), tmp_path / "run")
    assert {"forest.json", "rules.txt", "tree.svg"} <= {path.name for path in (tmp_path / "run" / "model").iterdir()}
    assert "accuracy" in json.loads((tmp_path / "run" / "metrics.json").read_text())


def test_accuracies_by_owner_may_be_withheld(dataset: dict[str, Any]) -> None:
    done = run(make(dataset, memorization=[5]), app=Interfering({BAD: with_config(by_owner=None)}, "evaluate"))
    assert not done.failures
    assert set(done.metrics["owner_accuracy"]) == {"0", "1", "2", "3"}


def test_below_min_clients_the_run_ends_with_the_reasons(dataset: dict[str, Any]) -> None:
    app = Interfering({0: _raise, 1: _silent, BAD: tree(threshold=np.array([np.nan], np.float32))})
    with pytest.raises(TooFewClients, match="1 of 4 clients gave a sound answer, 2 are needed") as caught:
        run(make(dataset), app=app)
    for reason in ("client 0: ", "out of order", "client 1: no answer in time", "client 2: threshold holds NaN"):
        assert reason in str(caught.value)
    assert run(make(dataset, min_clients=0.25), app=app).rounds[0]["answered"] == 1
    with pytest.raises(TooFewClients, match=r"\(client 0, 1, 2, 3: no answer in time\); fix the clients"):
        run(make(dataset), app=Interfering(dict.fromkeys(range(CLIENTS), _silent)))


def refuse(message: Message, honest: Callable[[], Message]) -> Message:
    return Message(error_content(0, Refused("this node allows no such thing"), refused=True), reply_to=message)


def test_who_refuses_is_asked_and_not_fixed(dataset: dict[str, Any]) -> None:
    with pytest.raises(TooFewClients, match="ask the owners of those that refuse") as caught:
        run(make(dataset), app=Interfering(dict.fromkeys(range(3), refuse)))
    assert "fix the clients" not in str(caught.value)
    with pytest.raises(TooFewClients, match=r"ask the owners .*, and fix the others or lower min_clients"):
        run(make(dataset), app=Interfering({0: refuse, 1: refuse, BAD: _raise}))


def test_who_did_not_train_is_said_once_and_why(dataset: dict[str, Any]) -> None:
    done = run(make(dataset), app=Interfering({0: refuse}))
    assert done.metrics["trained"] == CLIENTS - 1
    assert done.metrics["left_out"] == {"0": "Refused: this node allows no such thing"}
    untroubled = run(make(dataset)).metrics
    assert (untroubled["trained"], "left_out" in untroubled) == (CLIENTS, False)


def test_when_nobody_can_evaluate_the_run_still_ends(dataset: dict[str, Any]) -> None:
    done = run(make(dataset), app=Interfering(dict.fromkeys(range(CLIENTS), _raise), "evaluate"))
    assert "accuracy" not in done.metrics
    assert len(done.failures) == CLIENTS


def _as_from(reply: Message, node: int) -> Message:
    reply.metadata.__dict__["_src_node_id"] = node
    return reply


def test_replies_of_unknown_nodes_and_second_replies_are_dropped(
    dataset: dict[str, Any], honest: dict[str, float], caplog: pytest.LogCaptureFixture
) -> None:
    experiment = make(dataset)
    everyone = run(experiment).metrics["confusion"]
    twice = run_experiment(experiment, MeddlingGrid(CLIENTS, lambda replies: replies + replies[::-1]))
    assert twice.metrics["confusion"] == everyone
    assert not twice.failures

    def stranger(replies: list[Message]) -> list[Message]:
        return [*replies[:BAD], _as_from(replies[BAD], 666), *replies[BAD + 1 :]]

    done = run_experiment(experiment, MeddlingGrid(CLIENTS, stranger))
    assert done.metrics["confusion"] == honest["confusion"]
    assert [(f.client, f.reason) for f in done.failures] == [(BAD, "no answer in time")]
    assert "reply of node 666 is dropped" in caplog.text


def test_what_the_superlink_answers_for_a_node_that_is_gone_is_no_stray_reply(
    dataset: dict[str, Any], honest: dict[str, float], caplog: pytest.LogCaptureFixture
) -> None:
    """Flower 1.42 sends an error of its own node id, which does not say whom it is about."""

    def answer_for_it(replies: list[Message]) -> list[Message]:
        gone = replies[BAD]
        error = Message(Error(ErrorCode.NODE_UNAVAILABLE, "Node unavailable"), reply_to=gone)
        error.metadata.__dict__["_src_node_id"] = SUPERLINK_NODE_ID
        return [*replies[:BAD], error, *replies[BAD + 1 :]]

    done = run_experiment(make(dataset), MeddlingGrid(CLIENTS, answer_for_it))
    assert done.metrics["confusion"] == honest["confusion"]
    assert [(f.client, f.reason) for f in done.failures] == [(BAD, "no answer in time")]
    assert "is dropped" not in caplog.text


def test_order_of_replies_does_not_matter(dataset: dict[str, Any]) -> None:
    experiment = make(dataset)
    forth, back = (run_experiment(experiment, MeddlingGrid(CLIENTS, lambda r, s=step: r[::s])) for step in (1, -1))
    np.testing.assert_array_equal(forth.side.forest.value, back.side.forest.value)  # type: ignore[attr-defined]


def test_metrics_agree_to_the_last_digit_whatever_the_order_of_replies(tmp_path: Path) -> None:
    clients = 7  # sums of so many depend on their order
    experiment = make(write_table(tmp_path, clients))
    timed = {"seconds", "train_seconds", "evaluation_seconds"}

    def numbers(order: Callable[[list[Message]], list[Message]], kind: str) -> list[dict[str, Any]]:
        done = run_experiment(experiment, MeddlingGrid(clients, order, kind))
        rows = [done.metrics, *done.rounds, *done.clients]
        return [{name: value for name, value in row.items() if name not in timed} for row in rows]

    first = numbers(lambda replies: replies, "train")
    for step in (3, 5):
        for kind in ("train", "evaluate"):
            assert numbers(lambda replies, s=step: [replies[i * s % clients] for i in range(clients)], kind) == first


def test_nodes_that_introduce_themselves_badly_are_left_out(dataset: dict[str, Any]) -> None:
    def introduce(number: Any) -> Act:
        return with_content(RecordDict({CONFIG: ConfigRecord({"partition-id": number})}))

    for number in (float("inf"), 1.0, [1], "1", b"1", True, -1, CLIENTS, 10**18):
        grid = InProcessGrid(Interfering({BAD: introduce(number)}, "query"), CLIENTS)  # type: ignore[arg-type]
        assert roster(grid, list(grid.get_node_ids()), 1) == {0: 1000, 1: 1001, 3: 1003}
    grid = InProcessGrid(Interfering({BAD: introduce(0)}, "query"), CLIENTS)  # type: ignore[arg-type]
    assert roster(grid, list(grid.get_node_ids()), 1) == {1: 1001, 3: 1003}, "a number that two nodes claim is nobody's"
    grid = InProcessGrid(Interfering(dict.fromkeys(range(CLIENTS), _silent), "query"), CLIENTS)  # type: ignore[arg-type]
    with pytest.raises(DPForestError, match="no node introduced itself"):
        roster(grid, list(grid.get_node_ids()), 1)


@pytest.mark.parametrize("number", [None, 0, -1, 57, 10**18, "x"])
@pytest.mark.parametrize("clients", [4, None])
def test_a_lie_about_who_one_is_costs_nobody_else_the_run(
    dataset: dict[str, Any], number: Any, clients: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    """Of two that say one number, nobody can know which lies: neither takes part."""
    act = _raise if number is None else with_content(RecordDict({CONFIG: ConfigRecord({"partition-id": number})}))
    grid = InProcessGrid(Interfering({BAD: act}, "query"), CLIENTS)  # type: ignore[arg-type]
    done = run_experiment(make(dataset, partition={} if clients is None else {"clients": clients}), grid)
    lost = {0, BAD} if number == 0 else {BAD}
    assert set(done.privacy["clients"]) == {str(client) for client in range(CLIENTS) if client not in lost}
    assert done.privacy["holds"]
    assert not done.failures
    for client in lost:
        assert f"no node plays client {client}, which is to train: the run goes on without it" in caplog.text


def test_too_few_that_say_who_they_are_are_said(dataset: dict[str, Any]) -> None:
    grid = InProcessGrid(Interfering(dict.fromkeys((0, 1, 2), _raise), "query"), CLIENTS)  # type: ignore[arg-type]
    with pytest.raises(DPForestError, match=r"1 of 4 clients that train \(3\), and 2 are needed"):
        run_experiment(make(dataset, partition={"clients": 4}), grid)
    few = InProcessGrid(Interfering({}), 2)
    with pytest.raises(DPForestError, match="makes 4 clients, but no node plays client 2"):
        run_experiment(make(dataset, partition={"clients": 4}), few)


def test_clients_that_share_no_metrics_have_not_failed_and_are_not_asked_again(
    dataset: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """The default of a real node, where every question starts a process: a normal run shows no warning for it."""
    asked: list[int] = []

    def refuse(message: Message, honest: Callable[[], Message]) -> Message:
        asked.append(message.metadata.dst_node_id)
        return Message(error_content(0, Refused("no metrics from here"), refused=True), reply_to=message)

    bagging = {"name": "ldp_bagging", "depth": 2, "round_budget": "split"}
    experiment = make(dataset, strategy=bagging, rounds=3)
    with caplog.at_level(logging.INFO):
        done = run(experiment, app=Interfering({0: refuse, BAD: refuse}, "evaluate"))
    assert sorted(asked) == [1000, 1000 + BAD]
    assert done.failures == []
    assert done.metrics["test_rows"] == sum(row.get("test_rows", 0) for row in done.clients) > 0
    assert [row["client"] for row in done.clients if "accuracy" not in row] == [0, BAD]
    assert caplog.text.count(f"no test metrics of client 0, {BAD}: Refused: no metrics from here") == 1
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert "in clear for the researcher" in done.privacy["evaluation"]


def test_a_run_without_any_metrics_says_so(dataset: dict[str, Any]) -> None:
    def refuse(message: Message, honest: Callable[[], Message]) -> Message:
        return Message(error_content(0, Refused("no"), refused=True), reply_to=message)

    done = run(make(dataset), app=Interfering(dict.fromkeys(range(CLIENTS), refuse), "evaluate"))
    assert done.privacy["evaluation"].startswith("no client reported test metrics; they would not be part of")
    assert "none: no test metrics came" in run_table(done.metrics, done.privacy)


def test_metrics_that_came_count_as_reported_though_they_are_of_no_use(dataset: dict[str, Any]) -> None:
    def spoil(message: Message, honest: Callable[[], Message]) -> Message:
        reply = honest()
        reply.content[METRICS]["log_loss"] = [float("nan")]
        return reply

    done = run(make(dataset), app=Interfering(dict.fromkeys(range(CLIENTS), spoil), "evaluate"))
    assert "accuracy" not in done.metrics
    assert done.privacy["evaluation"].startswith("test metrics were reported in clear")


def test_metrics_of_an_early_round_count_as_reported(dataset: dict[str, Any]) -> None:
    answered: set[int] = set()

    def once(message: Message, honest: Callable[[], Message]) -> Message:
        node = message.metadata.dst_node_id
        if node in answered:
            return Message(error_content(0, Refused("no more"), refused=True), reply_to=message)
        answered.add(node)
        return honest()

    bagging = {"name": "ldp_bagging", "depth": 2, "round_budget": "split"}
    experiment = make(dataset, strategy=bagging, rounds=3)
    done = run(experiment, app=Interfering(dict.fromkeys(range(CLIENTS), once), "evaluate"))
    assert "accuracy" in done.rounds[0]
    assert "accuracy" not in done.metrics
    assert done.privacy["evaluation"].startswith("test metrics were reported in clear")


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        ("evaluate", {"refused": True, "error": "\x1b]0;owned\x07\x1b[2J gone\nround 1: all is well\u202e" * 10_000}),
        ("evaluate", {"refused": "yes", "error": "\x1b[2J\r\nround 1: all is well"}),
        ("evaluate", {"refused": True}),
        ("train", {"refused": True, "error": "\x1b[2J\nround 1: all is well"}),
        ("train", {"refused": True, "ledger": '{"budget": {"epsilon": "\\u001b[2J"}}'}),
        ("train", {"refused": True}),
    ],
)
def test_a_refusal_poisons_no_log_and_hides_no_failure(
    dataset: dict[str, Any], caplog: pytest.LogCaptureFixture, kind: str, answer: dict[str, Any]
) -> None:
    def refuse(message: Message, honest: Callable[[], Message]) -> Message:
        return Message(RecordDict({CONFIG: ConfigRecord(answer)}), reply_to=message)

    with caplog.at_level(logging.INFO):
        done = run(make(dataset), app=Interfering({BAD: refuse}, kind))
    said = [record.getMessage() for record in caplog.records if record.name == "strategies.federation.strategy"]
    assert all(line.isprintable() and len(line) < 600 for line in said)
    owner_decides = kind == "evaluate" and answer["refused"] is True
    assert [failure.client for failure in done.failures] == ([] if owner_decides else [BAD])


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"y": np.full(72, 9)}, "a target is outside the schema"),
        ({"y": np.full(72, -1)}, "a target is outside the schema"),
        ({"y": np.full(72, np.nan)}, "a target is outside the schema"),
        ({"y": np.array(5)}, "wrong shape"),
        ({"X": np.zeros(72)}, "wrong shape"),
        ({"X": np.full((72, 2), np.nan)}, "nan"),
        ({"X": None}, "wrong shape"),
    ],
)
def test_rows_sent_to_the_centralized_baseline_are_checked(
    dataset: dict[str, Any], arrays: dict[str, Any], reason: str
) -> None:
    experiment: Experiment = make(dataset, strategy={"name": "centralized", "trees": 3})
    done = run(experiment, app=Interfering({BAD: with_arrays(**arrays)}))
    assert [failure.client for failure in done.failures] == [BAD]
    assert reason in done.failures[0].reason
