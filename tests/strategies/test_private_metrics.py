"""Private test metrics: their noise, what one record moves, what a node answers, and what a researcher is shown."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict
from hand_made import SCHEMA, Interfering, make, run, write_table
from one_node import ask, error, node, own

from dpforest.errors import BudgetExceeded, DPForestError
from dpforest.ledger import TEST_ROWS, Budget, Entry, Ledger, gaussian_mu, rows_slice, total_epsilon
from dpforest.ledger.groups import group_guarantee
from dpforest.ledger.recount import recount
from dpforest.mechanisms import DiscreteGaussianSums, DiscreteLaplaceCounts
from dpforest.noise import Noise, Secure, Seeded
from dpforest.schema import Schema
from fl_app.client_app import app
from fl_app.engine.experiment import Experiment
from fl_app.engine.in_process import InProcessGrid
from fl_app.engine.run import run_experiment
from fl_app.results.shapes import check_metrics
from fl_app.results.text import run_table
from strategies import LocalRows, OneShotForest, PrivateBoosting, PrivateClientApp
from strategies.flower_compat import identify_this_process
from strategies.messages import ARRAYS, AT_END, CONFIG, METRICS, read_update
from strategies.method import ClientSide, Update
from strategies.metrics import classification_sums, noised_summary, regression_sums, summarize
from strategies.node.budget_file import BudgetFile
from strategies.private_metrics import LAST, NOISED, WHAT, PrivateSums, predict_each, shared_sums
from strategies.secure_aggregation import SumCollector

FEATURE = [{"name": "x", "low": 0, "high": 1}]
THREE = Schema.from_dict({"target": "kind", "classes": ["a", "b", "c"], "features": FEATURE})
PULSE = Schema.from_dict({"target": "pulse", "target_range": [40, 200], "features": FEATURE})


def three_classes(rng: np.random.Generator, rows: int = 600) -> tuple[np.ndarray, np.ndarray]:
    """Classes, and probabilities that are right in about four of five rows."""
    y = rng.choice(3, size=rows, p=[0.5, 0.3, 0.2])
    said = np.where(rng.uniform(size=rows) < 0.7, y, rng.choice(3, size=rows))
    return y, np.eye(3)[said]


def pulses(rng: np.random.Generator, rows: int = 3000) -> tuple[np.ndarray, np.ndarray]:
    y = np.clip(rng.normal(110, 35, rows), 40, 200)
    return y, y + rng.normal(0, 15, rows)


@pytest.mark.parametrize(("schema", "table"), [(THREE, three_classes), (PULSE, pulses)], ids=["classes", "target"])
def test_the_noise_is_what_the_ledger_says(schema: Schema, table: Any) -> None:
    """Half of it would have a quarter of the variance: far outside of this band."""
    release = PrivateSums(schema, 0.8)
    exact = release.exact(*table(np.random.default_rng(0), 50))
    rows = 1 if schema.is_classification else 1 << 20
    assert release.entry.epsilon == 0.8
    assert release.entry.scale == pytest.approx(rows / 0.8)
    seeds = np.random.SeedSequence(5).spawn(800)
    ledgers = [Ledger(Budget(0.8)) for _ in seeds]
    noise = np.array(
        [
            release.mechanism.release(exact, release.entry, ledger, Seeded(seed)) - exact
            for seed, ledger in zip(seeds, ledgers, strict=True)
        ]
    )
    assert (noise**2).mean() / release.mechanism.variance == pytest.approx(1, abs=0.15)
    if schema.is_classification:  # the odds of neighbouring counts are those of the guarantee
        shares = [(noise == value).mean() for value in (0, 1, 2)]
        for near, far in itertools.pairwise(shares):
            assert near / far == pytest.approx(math.exp(0.8), rel=0.15)


@pytest.mark.parametrize("schema", [THREE, PULSE], ids=["classes", "target"])
def test_no_record_moves_the_sums_further_than_was_paid_for(schema: Schema) -> None:
    release, rng = PrivateSums(schema, 1.0), np.random.default_rng(1)
    if schema.is_classification:
        y, predicted = three_classes(rng, 60)
        predicted[:3] = np.nan, np.inf, -np.inf
    else:
        y = rng.choice([40.0, 200.0, 120.0, -1e300, 1e300], size=60)
        predicted = rng.choice([40.0, 200.0, np.nan, np.inf, -np.inf, 1e300], size=60)
    whole, none = release.exact(y, predicted), release.exact(y[:0], predicted[:0])
    assert whole.dtype == none.dtype == np.int64
    assert none.tolist() == [0] * release.size
    for row in range(len(y)):
        less = release.exact(np.delete(y, row), np.delete(predicted, row, axis=0))
        assert 0 < np.abs(whole - less).sum() <= release.mechanism.sensitivity


@pytest.mark.parametrize("noise", [Seeded(3), Secure()], ids=["seeded", "secure"])
@pytest.mark.parametrize("shares", [2, 9])
def test_shares_of_noise_are_together_that_of_one(noise: Noise, shares: int) -> None:
    """Of half of it the variance would be a quarter, and the odds of neighbouring counts squared."""
    epsilon, draws = 0.8, 4000
    release = PrivateSums(THREE, epsilon, shares)
    assert release.entry.epsilon == epsilon
    assert f"noise of {shares} parties" in release.entry.note
    exact, ledger = np.zeros(draws, dtype=np.int64), Ledger(Budget(epsilon))
    paid = release.mechanism.charge(release.entry, ledger)
    drawn = [noise.discrete_laplace_share(1 / epsilon, shares, draws) for _ in range(shares - 1)]
    total = paid.draw(exact, noise) + np.sum(drawn, axis=0)
    of_one = DiscreteLaplaceCounts(epsilon).variance
    assert release.mechanism.variance == pytest.approx(of_one / shares)
    assert (total.astype(float) ** 2).mean() / of_one == pytest.approx(1, abs=0.25)
    shares_of = [np.isin(total, (-value, value)).mean() / (1 if value == 0 else 2) for value in (0, 1, 2)]
    for near, far in itertools.pairwise(shares_of):
        assert near / far == pytest.approx(math.exp(epsilon), rel=0.25)


def test_a_sum_of_shares_for_a_target_is_noised_once() -> None:
    release, one = PrivateSums(PULSE, 1.0, 4), PrivateSums(PULSE, 1.0)
    seeds = np.random.SeedSequence(7).spawn(4)
    y, predicted = pulses(np.random.default_rng(2), 4000)
    total = sum(release.exact(y[i::4], predicted[i::4]) for i in range(4))
    noise = np.sum(
        [Seeded(seed).discrete_laplace_share(release.mechanism.scale, 4, (4000, 5)) for seed in seeds], axis=0
    )
    rows_of = noise / release.unit
    assert (rows_of**2).mean() == pytest.approx(one.mechanism.variance / one.unit**2, rel=0.15)
    shared = noised_summary(release.sums(total), release.possible(release.sums(total), 4))[0]
    alone = noised_summary(one.sums(one.exact(y, predicted)), one.possible(one.sums(one.exact(y, predicted)), 1))[0]
    for name, value in alone.items():
        assert shared[name] == pytest.approx(value, rel=0.01, abs=0.01)


def test_test_rows_cost_a_record_no_more_than_training() -> None:
    ledger = Ledger(Budget(1.0, 1e-6))
    training = DiscreteGaussianSums.for_mu(gaussian_mu(1.0, 1e-6), 100)
    release = PrivateSums(THREE, 1.0)
    training.charge(training.entry("sums"), ledger)
    release.mechanism.charge(release.entry, ledger)
    assert ledger.guarantee().epsilon == pytest.approx(1.0)
    with pytest.raises(BudgetExceeded):
        release.mechanism.charge(release.entry, ledger)
    with pytest.raises(BudgetExceeded):
        DiscreteLaplaceCounts(0.1).charge(DiscreteLaplaceCounts(0.1).entry("more of training"), ledger)


def test_the_worse_of_both_parts_counts() -> None:
    def of(epsilon: float, rows: str) -> Entry:
        return Entry("counts", "discrete Laplace", epsilon=epsilon, rows=rows)

    training = [of(0.3, "all"), of(0.2, rows_slice("2 slices", 0)), of(0.1, rows_slice("2 slices", 1))]
    assert total_epsilon([*training, of(0.4, TEST_ROWS)], 0.0) == pytest.approx(0.5)
    assert total_epsilon([*training, of(0.4, TEST_ROWS), of(0.4, TEST_ROWS)], 0.0) == pytest.approx(0.8)


def noise_alone(release: PrivateSums, seed: np.random.SeedSequence, shape: tuple[int, ...]) -> np.ndarray:
    paid = release.mechanism.charge(release.entry, Ledger(Budget(math.inf, 1e-5)))
    return paid.draw(np.zeros(shape, np.int64), Seeded(seed))


@pytest.mark.parametrize(
    ("schema", "table", "in_clear"),
    [(THREE, three_classes, classification_sums), (PULSE, pulses, regression_sums)],
    ids=["classes", "target"],
)
@pytest.mark.parametrize("clients", [1, 4])
def test_the_interval_has_the_exact_metric_about_as_often_as_it_says(
    schema: Schema, table: Any, in_clear: Any, clients: int
) -> None:
    release, rng = PrivateSums(schema, 1.0), np.random.default_rng(clients)
    covered: dict[str, list[bool]] = {}
    for seed in np.random.SeedSequence(clients).spawn(60):
        y, predicted = table(rng)
        bounded = predicted if schema.is_classification else np.clip(predicted, 40, 200)
        exact = summarize(in_clear(y, bounded))
        noise = noise_alone(release, seed, (clients, release.size)).sum(axis=0)
        sums = release.sums(release.exact(y, predicted) + noise)
        metrics, intervals = noised_summary(sums, release.possible(sums, clients))
        for name, (low, high) in intervals.items():
            assert low <= metrics[name] <= high
            covered.setdefault(name, []).append(low <= exact[name] <= high)
    expected = {"accuracy", "balanced_accuracy", "macro_f1"} if schema.is_classification else {"mse", "mae", "r2"}
    assert set(covered) == expected
    for name, hits in covered.items():
        assert len(hits) == 60, name
        assert np.mean(hits) >= 0.85, name  # .95 is said; fewer than 51 of 60 have a chance of one in a thousand


def test_noise_alone_is_not_taken_for_a_metric() -> None:
    for schema in (THREE, PULSE):
        release = PrivateSums(schema, 1.0)
        for seed in range(20):
            sums = release.sums(noise_alone(release, np.random.SeedSequence(seed), (release.size,)))
            assert noised_summary(sums, release.possible(sums, 1)) == ({}, {})


def test_sums_in_clear_can_be_added_to_noised_ones() -> None:
    rng = np.random.default_rng(3)
    for schema, table, in_clear in ((THREE, three_classes, classification_sums), (PULSE, pulses, regression_sums)):
        release, (y, predicted) = PrivateSums(schema, math.inf), table(rng)
        predicted = predicted if schema.is_classification else np.clip(predicted, 40, 200)
        mine, theirs = release.sums(release.exact(y, predicted)), release.sums_in_clear(in_clear(y, predicted))
        assert mine.keys() == theirs.keys()
        for name, values in mine.items():
            assert values == pytest.approx(theirs[name], rel=1e-3)


@pytest.mark.parametrize("values", [None, [1.0] * 9, [1] * 8, [1] * 10, [1 << 61] * 9, [[1]] * 9])
def test_a_client_cannot_send_another_form(values: Any) -> None:
    with pytest.raises(DPForestError, match="private evaluation"):
        PrivateSums(THREE, 1.0).read(values)


# --- a node


@pytest.fixture(autouse=True)
def process() -> None:
    identify_this_process()


@pytest.fixture
def dataset(tmp_path: Path) -> dict[str, Any]:
    return write_table(tmp_path)


def for_nodes(dataset: dict[str, Any], **options: Any) -> Experiment:
    """As a server asks that has no rows of its own."""
    return make({"name": "table", "schema": SCHEMA}, **options)


def trained(context: Context, experiment: Experiment) -> tuple[RecordDict, dict[str, np.ndarray]]:
    """A node's answer to training, and a model made of it."""
    reply = ask(context, experiment, clients=1)
    side = experiment.method.server(experiment.task(1))
    update, _ = read_update(Message(reply, 1, MessageType.TRAIN), 0)
    side.check(update)
    model = side.aggregate(1, [update])
    assert model is not None
    return reply, dict(model)


def evaluate(context: Context, experiment: Experiment, model: Any, **config: Any) -> RecordDict:
    return ask(context, experiment, MessageType.EVALUATE, model, **({"clients": 1, LAST: True} | config))


def entries(context: Context) -> list[Entry]:
    kept = json.loads(str(context.state.config_records["dpforest"]["ledger"]))
    return list(Ledger.from_dict(kept).entries)


@pytest.mark.parametrize("wish", [None, "private", "clear", True, "none", False, "yes"])
def test_an_owner_says_how_metrics_are_shared(dataset: dict[str, Any], wish: Any) -> None:
    context = node(**own(dataset, **({} if wish is None else {"share-metrics": wish})))
    experiment = for_nodes(dataset)
    if wish == "yes":
        assert "'yes' must be one of private, none, clear" in error(ask(context, experiment, clients=1))
        return
    _, model = trained(context, experiment)
    reply = evaluate(context, experiment, model)
    if wish in ("none", False):
        assert "does not share metrics" in error(reply)
    elif wish in ("clear", True):
        assert sum(reply[METRICS]["confusion"]) > 40
    else:
        assert set(reply[METRICS]) == {NOISED}
        assert len(reply[METRICS][NOISED]) == 9
        assert json.loads(str(reply[CONFIG]["ledger"]))["epsilon"] == pytest.approx(2.0)
    charged = [entry for entry in entries(context) if entry.rows == TEST_ROWS]
    assert [entry.epsilon for entry in charged] == ([2.0] if wish in (None, "private") else [])


def test_a_server_gets_one_answer_a_run_whatever_it_asks(dataset: dict[str, Any]) -> None:
    context, experiment = node(**own(dataset)), for_nodes(dataset)
    _, model = trained(context, experiment)
    for early in ({LAST: False}, {LAST: None}, {LAST: "true"}, {LAST: 1}):
        reply = evaluate(context, experiment, model, **early)
        assert "once, of the model at the end of a run" in error(reply)
        assert reply[CONFIG][AT_END] is True
    assert not [entry for entry in entries(context) if entry.rows == TEST_ROWS], "nothing was spent"
    assert NOISED in evaluate(context, experiment, model)[METRICS]
    changed = {name: value[..., ::-1] if name == "value" else value for name, value in model.items()}
    for arrays, config in ((model, {}), (changed, {}), (model, {"round": 7}), ({}, {}), (model, {"by-owner": True})):
        assert "has shared its test metrics" in error(evaluate(context, experiment, arrays, **config))
    assert sum(entry.rows == TEST_ROWS for entry in entries(context)) == 1


def test_a_model_that_cannot_be_read_costs_the_answer_and_ends_nothing(dataset: dict[str, Any]) -> None:
    """Otherwise a server could ask with one broken model after another which of them fail on rows."""
    context, experiment = node(**own(dataset)), for_nodes(dataset)
    _, model = trained(context, experiment)
    reply = evaluate(context, experiment, {**model, "value": model["value"][:1]})
    assert "error" in reply[CONFIG]
    assert "has shared its test metrics" in error(evaluate(context, experiment, model))


def test_failures_over_test_rows_end_the_guarantee(dataset: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    context, experiment = node(**own(dataset)), for_nodes(dataset)
    _, model = trained(context, experiment)
    with monkeypatch.context() as patch:
        patch.setattr(experiment.method.client, "predict", lambda *arguments: 1 / 0)
        assert error(evaluate(context, experiment, model)) == "DPForestError: see its log"
    assert [entry for entry in entries(context) if not entry.protected]
    assert "no more part in this run" in error(evaluate(context, experiment, model))


def test_whether_there_are_test_rows_does_not_show(tmp_path: Path) -> None:
    """Nor which classes: the answer has the same form, and a broken model fails, with and without rows."""

    def replies(rows: Iterable[str]) -> tuple[RecordDict, RecordDict]:
        (tmp_path / "some.csv").write_text("\n".join([header, *rows]) + "\n")
        data = whole | {"path": str(tmp_path / "some.csv")}
        sound, broken = node(**own(data)), node(**own(data))
        return (
            evaluate(sound, experiment, model),
            evaluate(broken, experiment, {**model, "value": model["value"][:1]}),
        )

    whole = write_table(tmp_path)
    header, *lines = Path(whole["path"]).read_text().splitlines()
    experiment = for_nodes(whole)
    _, model = trained(node(**own(whole)), experiment)
    full = replies(lines)
    empty = replies([])
    for some, none in zip(full, empty, strict=True):
        assert set(some) == set(none)
        assert set(some[CONFIG]) == set(none[CONFIG])
        assert some[CONFIG].get("error") == none[CONFIG].get("error")
        assert some[CONFIG].get("ledger") == none[CONFIG].get("ledger")
    assert len(full[0][METRICS][NOISED]) == len(empty[0][METRICS][NOISED]) == 9


def test_methods_without_a_guarantee_for_records_share_nothing_privately(dataset: dict[str, Any]) -> None:
    bare = for_nodes(dataset, strategy={"name": "centralized"})
    context = node(**own(dataset, strategies="centralized"))
    assert "within a guarantee for single records only" in error(evaluate(context, bare, {}))
    alone = for_nodes(dataset, strategy={"name": "lrf", "trees": 3, "depth": 4})
    assert "no metrics of it are shared" in error(evaluate(node(**own(dataset)), alone, {}))


# --- a run


def private(dataset: dict[str, Any], **options: Any) -> Experiment:
    return make(dataset, **({"evaluation": {"metrics": "private"}} | options))


def test_a_simulation_shows_what_nodes_would_report(dataset: dict[str, Any]) -> None:
    done, clear = run(private(dataset, epsilon=8.0)), run(make(dataset, epsilon=8.0))
    check_metrics(json.loads(json.dumps(done.metrics)))
    assert done.privacy["epsilon"] == pytest.approx(clear.privacy["epsilon"])
    assert done.metrics.keys() >= {"accuracy", "intervals", "test_rows"}
    low, high = done.metrics["intervals"]["accuracy"]
    assert low <= done.metrics["accuracy"] <= high
    assert low - 0.05 <= clear.metrics["accuracy"] <= high + 0.05
    assert not done.metrics.keys() & {"log_loss", "confusion", "worst_client"}
    assert "accuracy" not in done.clients[0]
    assert "with noise" in done.privacy["evaluation"]
    assert "noised; exact:" in run_table(done.metrics, done.privacy)
    for ledger in done.privacy["clients"].values():
        assert [line["what"] for line in ledger["entries"] if line["rows"] == TEST_ROWS] == [WHAT]
    assert "intervals" not in clear.metrics
    assert run(private(dataset, epsilon=8.0)).metrics["accuracy"] == done.metrics["accuracy"], "seeded"


def test_only_the_last_model_of_several_rounds_is_evaluated(dataset: dict[str, Any]) -> None:
    boost = {"name": "boost", "depth": 2}
    done = run(private(dataset, epsilon=8.0, strategy=boost, rounds=3, privacy={"delta": 1e-6}))
    assert ["accuracy" in row for row in done.rounds] == [False] * (len(done.rounds) - 1) + [True]
    assert done.privacy["epsilon"] <= 8.0 * (1 + 1e-9)
    assert not done.failures


def lie(**changes: Any) -> Any:
    def act(message: Message, honest: Any) -> Message:
        reply = honest()
        if METRICS in reply.content:
            said = dict(reply.content[CONFIG]) | changes
            reply.content[CONFIG] = ConfigRecord({key: value for key, value in said.items() if value is not None})
        return reply

    return act


def silent(message: Message, honest: Any) -> Message:
    honest()
    raise TimeoutError


@pytest.mark.parametrize("act", [silent, lie(ledger=None), lie(ledger="{}")], ids=["silent", "none", "no ledger"])
def test_metrics_that_did_not_come_whole_count_as_spent(dataset: dict[str, Any], act: Any) -> None:
    done = run(private(dataset), app=Interfering({1: act}, "evaluate"))
    lines = [line for line in done.privacy["clients"]["1"]["entries"] if line["rows"] == TEST_ROWS]
    assert [line["what"] for line in lines] == [WHAT]
    assert "no answer" in lines[0]["note"]
    assert [failure.client for failure in done.failures] == [1]
    assert done.privacy["epsilon"] == pytest.approx(2.0)


def test_a_client_that_sends_metrics_and_has_not_charged_them_has_no_guarantee(dataset: dict[str, Any]) -> None:
    def act(message: Message, honest: Any) -> Message:
        reply = honest()
        ledger = json.loads(str(reply.content[CONFIG]["ledger"]))
        ledger["entries"] = [line for line in ledger["entries"] if line["rows"] != TEST_ROWS]
        reply.content[CONFIG]["ledger"] = json.dumps(ledger)
        return reply

    done = run(private(dataset), app=Interfering({1: act}, "evaluate"))
    assert not done.privacy["holds"]
    assert "client 1" in done.privacy["guarantee"]
    assert WHAT in done.privacy["guarantee"]


def test_one_record_more_changes_one_side_of_a_run_alone(tmp_path: Path) -> None:
    """A whole run of a node, with the noise held, on neighbours: a test record is in one cell, and in nothing else."""
    record = "c0,0.{:06d},0.5,low"
    before = write_table(tmp_path)
    lines = Path(before["path"]).read_text()
    experiment = for_nodes(before, evaluation={"metrics": "private"}, privacy={"noise": "seeded"})
    model: Any = None

    def answers(change: str) -> tuple[Any, np.ndarray]:
        nonlocal model
        (tmp_path / "neighbour.csv").write_text(lines + change)
        context = node(simulated=True, **own(before | {"path": str(tmp_path / "neighbour.csv")}))
        reply, made = trained(context, experiment)
        model = made if model is None else model
        metrics = evaluate(context, experiment, model)[METRICS][NOISED]
        arrays = {name: array.numpy().tolist() for name, array in reply[ARRAYS].items()}
        return (arrays, str(reply[CONFIG]["ledger"])), np.array(metrics)

    training, metrics = answers("")
    sides = set()
    for number in range(40):
        with_one, of_more = answers(record.format(number) + "\n")
        moved = int(np.abs(of_more - metrics).sum())
        assert moved in (0, 1)
        assert moved == 0 or with_one == training
        sides.add(moved)
        if sides == {0, 1}:
            break
    assert sides == {0, 1}


def test_a_run_with_metrics_is_charged_once_to_a_budget_file(dataset: dict[str, Any], tmp_path: Path) -> None:
    rules = own(dataset, **{"budget-file": str(tmp_path / "spent.db"), "lifetime-epsilon": 2.0})
    context, experiment = node(**rules), for_nodes(dataset)
    _, model = trained(context, experiment)
    assert NOISED in evaluate(context, experiment, model)[METRICS]
    assert [spent.epsilon for spent in BudgetFile(tmp_path / "spent.db").runs()] == [2.0]
    late = node(**rules)  # a new run, that asks for metrics and nothing else
    assert "all runs together would spend more" in error(evaluate(late, experiment, model))


def test_nodes_that_share_differently_are_evaluated_together(dataset: dict[str, Any]) -> None:
    wishes = {0: "clear", 1: "private", 2: "none", 3: "private"}

    def on_nodes(message: Message, context: Context) -> Message:
        client = int(context.node_config["partition-id"])
        rules = own(dataset, **{"share-metrics": wishes[client]})
        return app(message, Context(1, context.node_id, {"partition-id": client} | rules, context.state, {}))

    done = run_experiment(for_nodes(dataset), InProcessGrid(on_nodes, 4))
    assert not done.failures
    assert 150 < done.metrics["test_rows"] < 300, "of three nodes that have about a fifth of 360 rows each"
    low, high = done.metrics["intervals"]["accuracy"]
    assert low <= done.metrics["accuracy"] <= high
    assert ["accuracy" in row for row in done.clients] == [True, False, False, False]
    assert "those of others, in clear, are not part of the guarantee" in done.privacy["evaluation"]
    tested = [any(line["rows"] == TEST_ROWS for line in who["entries"]) for who in done.privacy["clients"].values()]
    assert tested == [False, True, False, True]


# --- a run whose clients share noise


def shared(dataset: dict[str, Any], **options: Any) -> Experiment:
    boost = {"name": "boost", "depth": 2} | options.pop("strategy", {})
    privacy = {"delta": 1e-6, "trust": "shared"}
    return private(dataset, epsilon=8.0, strategy=boost, rounds=1, privacy=privacy, **options)


def noised_lines(done: Any) -> dict[str, list[str]]:
    return {
        client: [line["note"] for line in ledger["entries"] if line["rows"] == TEST_ROWS]
        for client, ledger in done.privacy["clients"].items()
    }


@pytest.mark.parametrize("dropouts", [0, 1])
def test_clients_that_share_noise_share_that_of_test_metrics(dataset: dict[str, Any], dropouts: int) -> None:
    done = run(shared(dataset, strategy={"dropouts": dropouts}))
    assert not done.failures
    assert done.privacy["holds"]
    assert done.privacy["epsilon"] <= 8.0 * (1 + 1e-9)
    assert all(len(notes) == 1 and "noise of" in notes[0] for notes in noised_lines(done).values())
    assert "Clients shared the noise of their sum" in done.privacy["evaluation"]
    low, high = done.metrics["intervals"]["accuracy"]
    assert low <= done.metrics["accuracy"] <= high
    clear = run(shared(dataset, strategy={"dropouts": dropouts}, evaluation={"metrics": "clear"}))
    assert low <= clear.metrics["accuracy"] <= high
    assert abs(done.metrics["test_rows"] - clear.metrics["test_rows"]) < 10


def test_the_interval_is_as_narrow_as_noise_that_is_added_once(dataset: dict[str, Any]) -> None:
    """Four clients' own noise would have twice the deviation."""
    once, alone = PrivateSums(THREE, 0.2, 4), PrivateSums(THREE, 0.2)
    sums = once.sums(np.array([80, 10, 10, 10, 80, 10, 10, 10, 80]))

    def width(possible: Any) -> float:
        low, high = noised_summary(sums, possible)[1]["accuracy"]
        return high - low

    assert width(once.possible(sums, 4)) == pytest.approx(width(alone.possible(sums, 1)), rel=0.15)
    assert width(once.possible(sums, 4)) < 0.65 * width(alone.possible(sums, 4))


def test_one_that_is_silent_costs_the_sum_and_is_charged(dataset: dict[str, Any]) -> None:
    def act(message: Message, honest: Any) -> Message:
        if message.content[CONFIG].get("phase") == "mask":
            honest()
            raise TimeoutError
        return honest()

    done = run(shared(dataset), app=Interfering({1: act}, "evaluate"))
    assert "accuracy" not in done.metrics
    assert done.privacy["epsilon"] <= 8.0 * (1 + 1e-9)
    assert all(len(notes) == 1 for notes in noised_lines(done).values()), "whoever was asked for a vector has paid"
    fewer = run(shared(dataset, strategy={"dropouts": 1}), app=Interfering({1: act}, "evaluate"))
    assert "accuracy" in fewer.metrics


def test_where_an_owner_shares_nothing_each_other_noises_its_own(dataset: dict[str, Any]) -> None:
    def on_nodes(message: Message, context: Context) -> Message:
        client = int(context.node_config["partition-id"])
        limits = {"max-epsilon": 8.0, "max-delta": 1e-6, "strategies": "boost"}
        rules = own(dataset, **limits, **({"share-metrics": "none"} if client == 0 else {}))
        return app(message, Context(1, context.node_id, {"partition-id": client} | rules, context.state, {}))

    experiment = replace(shared(dataset), dataset={"name": "table", "schema": SCHEMA})
    done = run_experiment(experiment, InProcessGrid(on_nodes, 4))
    assert done.metrics["intervals"]
    assert {client: len(notes) for client, notes in noised_lines(done).items()} == {"0": 0, "1": 1, "2": 1, "3": 1}
    assert "Each client noised its own" in done.privacy["evaluation"]


def test_a_node_answers_in_a_sum_or_by_itself_and_once(dataset: dict[str, Any]) -> None:
    rules = own(dataset, **{"max-epsilon": 8.0, "max-delta": 1e-6, "strategies": "boost"})
    context = node(**rules)
    experiment = replace(shared(dataset), dataset={"name": "table", "schema": SCHEMA})
    collector = SumCollector(shared_sums(experiment.task(4))[1].terms, 9)
    reply = ask(context, experiment, MessageType.EVALUATE, collector.message(0), **{LAST: True, "phase": "advertise"})
    assert "secure.public_key" in reply[ARRAYS]
    assert not [entry for entry in entries(context) if entry.rows == TEST_ROWS]
    for phase in ("mask", "unmask", "x", 1):
        assert error(ask(context, experiment, MessageType.EVALUATE, {}, **{LAST: True, "phase": phase}))
    early = ask(context, experiment, MessageType.EVALUATE, {}, **{LAST: False, "phase": "advertise"})
    assert early[CONFIG][AT_END] is True
    assert not [entry for entry in entries(context) if entry.rows == TEST_ROWS]
    local = node(**own(dataset))
    said = error(evaluate(local, for_nodes(dataset), {}, phase="advertise"))
    assert said == "DPForestError: see its log"


@pytest.mark.parametrize(
    ("strategy", "schema"),
    [({"name": "one_shot"}, THREE), ({"name": "boost", "depth": 2}, THREE), ({"name": "boost", "depth": 2}, PULSE)],
    ids=["shares", "logits", "target"],
)
def test_a_row_is_predicted_to_the_last_bit_alike_in_any_company(strategy: dict[str, Any], schema: Schema) -> None:
    """Else a record more could move others over the edge between two classes, which nobody has paid for."""

    def load(context: Context) -> LocalRows:
        X = np.random.default_rng(int(context.node_config["partition-id"])).uniform(size=(200, 1))
        y = np.array(["a", "b", "c"])[(X[:, 0] * 3).astype(int)] if schema.is_classification else 40 + 160 * X[:, 0]
        return LocalRows(X, y)

    options = {key: value for key, value in strategy.items() if key != "name"}
    kind = {"one_shot": OneShotForest, "boost": PrivateBoosting}[strategy["name"]]
    result = kind(schema, epsilon=4.0, delta=1e-6, **options).start(
        InProcessGrid(PrivateClientApp(load), 2), num_rounds=2
    )
    X = np.random.default_rng(9).uniform(size=(137, 1)).astype(np.float32)
    predict = result.forest.predict_proba if schema.is_classification else result.forest.predict
    whole = predict(X)
    for size in (2, 3, 7, 8, 16, 61, 136):
        for start in (0, 1, 5):
            part = slice(start, start + size)
            assert predict(X[part]).tobytes() == np.ascontiguousarray(whole[part]).tobytes(), (size, start)


class _InCompany(ClientSide):
    """Predicts otherwise for more rows at once, as products of matrices do in their last digits."""

    predicts_alone = False

    def train(self, task: Any, X: np.ndarray, y: np.ndarray, arrays: Any) -> Update:
        raise NotImplementedError

    def predict(self, task: Any, X: np.ndarray, arrays: Any) -> np.ndarray:
        return X[:, 0] * len(X)


def test_what_predicts_rows_together_is_asked_for_one_at_a_time() -> None:
    experiment = make({"name": "table", "schema": SCHEMA})
    X = np.array([[0.25, 0.0], [0.5, 0.0], [0.75, 0.0]], dtype=np.float32)
    for rows in (X, X[1:], X[:0]):
        predicted = predict_each(_InCompany(), experiment.task(1), rows, {})  # type: ignore[arg-type]
        assert predicted.tolist() == rows[:, 0].tolist()


# --- other accounts of the same lines


@pytest.mark.parametrize("size", [2, 5, 70, 1000])
def test_several_records_cost_no_more_than_their_worst_division(size: int) -> None:
    training = DiscreteGaussianSums.for_mu(gaussian_mu(1.0, 1e-6), 100)
    ledger = Ledger(Budget(1.0, 1e-6))
    training.charge(training.entry("sums"), ledger)
    alone = group_guarantee(ledger.guarantee(), ledger.entries, size)
    release = PrivateSums(THREE, 1.0)
    release.mechanism.charge(release.entry, ledger)
    both = group_guarantee(ledger.guarantee(), ledger.entries, size)
    parts = [group_guarantee(ledger.guarantee(), ledger.entries[:1], n).epsilon + size - n for n in range(2, size + 1)]
    assert both.epsilon >= max([*parts, alone.epsilon, size]) * (1 - 1e-9)
    assert both.epsilon <= max([*parts, alone.epsilon, size]) + 1 + size / 8
    assert both.delta == alone.delta


def test_an_independent_recount_knows_both_parts() -> None:
    training, release = DiscreteLaplaceCounts(0.4), PrivateSums(THREE, 1.0)
    lines = [training.entry("counts", times=2), release.entry]
    assert recount(lines, 0.0).epsilon == pytest.approx(1.0)
    assert recount([*lines, training.entry("more")], 0.0).epsilon == pytest.approx(1.2)
    gaussian = DiscreteGaussianSums.for_mu(gaussian_mu(1.0, 1e-6), 100).entry("sums")
    assert recount([gaussian, release.entry], 1e-6).epsilon == pytest.approx(1.0, rel=1e-2)
