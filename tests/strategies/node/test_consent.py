"""Limits that an owner states: how they are read, and that they hold before any data is touched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from flwr.app import Context, RecordDict
from flwr.serverapp import Grid
from flwr.superlink.grid import InMemoryGrid
from hand_made import CLIENTS, SCHEMA, make, write_table
from one_node import ALL_RUNS, ask, error, node, own, spent_nothing

from dpforest.errors import DPForestError
from fl_app.client_app import app
from fl_app.engine.experiment import Experiment
from fl_app.engine.in_process import InProcessGrid
from strategies.flower_compat import is_deployed
from strategies.messages import ARRAYS
from strategies.method import Method
from strategies.node.budget_file import BudgetFile
from strategies.node.consent import Refused, check_owner_allows, check_work
from strategies.registry import installed_methods, register

NUMBERS = ("max-epsilon", "max-delta", "max-nodes", "max-scores", "max-products", "rows")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return write_table(tmp_path_factory.mktemp("table"))


@pytest.fixture(autouse=True)
def _identified() -> None:
    InProcessGrid(app, 1)


def asked(rows: int | None = 100, epsilon: float = 1.0, delta: float = 0.0, **strategy: Any) -> Experiment:
    schema = SCHEMA | ({"rows": rows} if rows else {})
    return make(
        {"name": "table", "schema": schema},
        epsilon=epsilon,
        privacy={"delta": delta},
        strategy={"name": "one_shot"} | strategy,
    )


def check(experiment: Experiment, **settings: Any) -> None:
    """What a real node does before it looks at its data."""
    config = {"partition-id": 0, **settings}
    context = Context(run_id=1, node_id=1, node_config=config, state=RecordDict(), run_config={})
    check_owner_allows(experiment, context)
    check_work(experiment, experiment.task(CLIENTS), context)


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize(
    "value", ["1.0", "", "much", b"1", float("nan"), float("inf"), float("-inf"), -1, -0.5, True, False, 10**400]
)
def test_a_limit_that_is_no_number_allows_nothing(name: str, value: Any) -> None:
    with pytest.raises(Refused, match=rf"^this node's {name} .* must be a (finite|whole) number from"):
        check(asked(), **{name: value})


@pytest.mark.parametrize("rows", [0, 1.5, 100.0])
def test_rows_are_a_whole_number(rows: float) -> None:
    with pytest.raises(Refused, match="must be a whole number from 1, without quotes, so nothing is allowed"):
        check(asked(), rows=rows)


@pytest.mark.parametrize(
    ("settings", "limit"),
    [
        ({}, 1e-10),
        ({"rows": 5000}, 2e-6),
        ({"rows": 120_000}, 0.01 / 120_000),
        ({"max-delta": 1e-5}, 1e-5),
        ({"max-delta": 1e-5, "rows": 5000}, 1e-5),
        ({"max-delta": 0}, 0.0),
    ],
)
def test_delta_is_bounded_by_what_the_owner_says(settings: dict[str, Any], limit: float) -> None:
    boost = {"name": "boost", "trees_per_round": 4}
    if limit:
        check(asked(delta=limit, **boost), **settings)
    with pytest.raises(Refused, match="is above this node's max-delta"):
        check(asked(delta=max(limit * 1.001, 1e-12), **boost), **settings)


def test_a_max_delta_that_publishes_a_record_allows_nothing() -> None:
    with pytest.raises(Refused, match=r"max-delta 0\.0001 is not below 1 / 120000 rows, so nothing is allowed"):
        check(asked(), **{"max-delta": 1e-4, "rows": 120_000})


def test_a_servers_number_of_rows_buys_no_record_of_a_large_table() -> None:
    """With a million rows said, a batch of 9 rows and one step cost nothing at delta 1e-5, whatever is published."""
    experiment = asked(rows=1_000_000, delta=1e-5, name="dp_sgd", standardize="public", batch=9, steps=1)
    for limits in ({}, {"rows": 120_000}):
        with pytest.raises(Refused, match="delta 1e-05 is above this node's max-delta"):
            check(experiment, **limits)


@pytest.mark.parametrize(("delta", "rows"), [(0.5, None), (1e-3, 100), (1e-5, 120_000)])
def test_a_simulation_refuses_such_a_delta_too(delta: float, rows: int | None) -> None:
    schema = {key: value for key, value in SCHEMA.items() if key != "rows"} | ({"rows": rows} if rows else {})
    experiment = make({"name": "table", "schema": schema}, privacy={"delta": delta})
    with pytest.raises(DPForestError, match="would allow to publish a whole one"):
        experiment.task(CLIENTS)


@pytest.mark.parametrize(
    ("strategy", "option"),
    [
        ({"name": "one_shot", "depth": 16, "trees": 20}, "max-nodes"),
        ({"name": "one_shot", "depth": 20, "trees": 1000}, "max-nodes"),
        ({"name": "standalone", "depth": 16, "trees": 20}, "max-nodes"),
        ({"name": "fext", "filter_by": "clients", "depth": 16, "trees": 20}, "max-nodes"),
        ({"name": "lrf", "trees": 1000, "depth": 30}, "max-nodes"),
        ({"name": "pp_fgrf", "trees": 1000, "depth": 15}, "max-nodes"),
        ({"name": "pp_fprf", "trees": 100, "depth": 15}, "max-nodes"),
        ({"name": "boost", "trees_per_round": 1000, "pure": True}, "max-nodes"),
        ({"name": "dp_sgd", "steps": 10_000_000, "standardize": "public"}, "max-products"),
        ({"name": "dp_sgd", "hidden": [100_000, 100_000], "standardize": "public"}, "max-products"),
        ({"name": "standalone_mlp", "epochs": 1_000_000}, "max-products"),
        ({"name": "standalone_mlp", "epochs": 1_000_000, "hidden": [1]}, "max-products"),
        ({"name": "fedavg", "epochs": 1_000_000}, "max-products"),
        ({"name": "dp_fedavg", "epochs": 1_000_000_000}, "max-products"),
        ({"name": "dp_fedavg_published", "epochs": 1_000_000}, "max-products"),
    ],
    ids=lambda value: value["name"] if isinstance(value, dict) else value,
)
@pytest.mark.parametrize("rows", [1, 200, 10**6])
def test_work_without_end_is_refused_before_data_is_touched(strategy: dict[str, Any], option: str, rows: int) -> None:
    experiment = asked(rows=rows, delta=1e-7 if strategy["name"].startswith("dp_") else 0.0, **strategy)
    allowed = {"strategies": strategy["name"], "max-delta": 1e-6}
    with pytest.raises(Refused, match=rf"one message would make this node work on \d+ .* above its {option}"):
        check(experiment, **allowed)
    check(experiment, **allowed, **{option: 1e30, "max-scores": 1e30, "max-memory": 1e30})


def test_seconds_and_memory_of_a_message_are_limited() -> None:
    experiment = asked(depth=10, trees=100)
    with pytest.raises(Refused, match=r"would take this node some \d+ seconds, which is above its max-seconds 1;"):
        check(experiment, **{"max-seconds": 1})
    with pytest.raises(Refused, match=r"would take this node some \d+ megabytes, which is above its max-memory 5;"):
        check(experiment, **{"max-memory": 5})
    check(experiment, **{"max-seconds": 60, "max-memory": 500})


@pytest.mark.parametrize("name", ["lifetime-epsilon", "lifetime-delta"])
def test_a_lifetime_limit_without_a_file_that_keeps_it_allows_nothing(name: str) -> None:
    with pytest.raises(Refused, match=f"this node's {name} needs a budget-file"):
        check(asked(), **{name: 5.0})


def test_units_are_the_owners_to_name() -> None:
    check(asked(), units="record")
    check(asked(), units="client, record")
    with pytest.raises(Refused, match=r"does not take part in runs that protect one record; .* units=.record"):
        check(asked(), units="client")


def test_whose_trust_a_run_asks_for_is_the_owners_to_name() -> None:
    """Who names a method that does without trust has not said that the server may see its sums before the noise."""
    shared, central = (
        make({"name": "table", "schema": SCHEMA}, 1.0, strategy={"name": "boost"}, privacy={"delta": 1e-6, "trust": of})
        for of in ("shared", "central")
    )
    rules = {"strategies": "boost dp_fedavg", "max-delta": 1e-6}
    check(shared, **rules)
    check(asked(name="dp_fedavg", delta=1e-6), **rules)  # made for a trusted server
    for trust in (None, "local", "local shared"):
        with pytest.raises(Refused, match=r"strategy boost with privacy.trust=central \(.*server trusted.*central\""):
            check(central, **rules, **({} if trust is None else {"trust": trust}))
    check(central, **rules, trust="central")
    with pytest.raises(Refused, match="does not take part in strategy boost"):
        check(central, **{"max-delta": 1e-6}, trust="central")
    for experiment, name in ((shared, "boost"), (asked(name="dp_fedavg", delta=1e-6), "dp_fedavg")):
        with pytest.raises(Refused, match=f"strategy {name} with privacy.trust="):
            check(experiment, **rules, trust="local")


def test_a_schema_of_many_features_makes_few_nodes_much_work() -> None:
    features = [{"name": f"f{i}", "low": 0, "high": 1} for i in range(561)]
    source = {"name": "table", "schema": SCHEMA | {"features": features}}
    for strategy, sends in (({"depth": 14, "shared_below": None}, False), ({"depth": 14, "shared_below": 6}, True)):
        experiment = make(source, strategy={"name": "one_shot", "trees": 2, "bins": 32} | strategy)
        if sends:
            check(experiment, **{"max-epsilon": 2.0})
            continue
        with pytest.raises(Refused, match=r"work on 569833506 scores \(of candidate splits\), .* its max-scores 5000"):
            check(experiment, **{"max-epsilon": 2.0})


class _Remote(Grid):
    """A grid over a network, as Flower's deployments have."""

    run = set_run = create_message = get_node_ids = push_messages = pull_messages = send_and_receive = get_nodes = None  # type: ignore[assignment]


def test_a_server_knows_whether_it_deploys() -> None:
    class Simulation(InMemoryGrid):
        def __init__(self) -> None:
            pass

    assert is_deployed(_Remote())
    assert not is_deployed(Simulation())
    assert not is_deployed(InProcessGrid(app, 1))


def test_every_method_says_how_much_work_it_is() -> None:
    assert not [name for name, method in installed_methods().items() if method.work is None]


def test_a_method_that_does_not_say_is_refused() -> None:
    method = installed_methods()["one_shot"]
    register(Method("silent", method.settings, method.server, method.client, method.protections))
    with pytest.raises(Refused, match="strategy silent does not say how much work it is"):
        check(asked(name="silent"), strategies="silent")


def test_too_much_work_is_answered_and_costs_nothing(dataset: dict[str, Any], tmp_path: Path) -> None:
    rules = own(dataset, **{"budget-file": str(tmp_path / "spent.db")})
    reply = ask(node(**rules), asked(depth=16, trees=20), clients=1)
    assert "work on 2621420 nodes (of all its trees together), which is above its max-nodes 2000000" in error(reply)
    assert spent_nothing(tmp_path / "spent.db")
    assert ARRAYS in ask(node(**rules), asked(depth=3, trees=2), clients=1)
    assert len(BudgetFile(tmp_path / "spent.db").runs()) == 1


@pytest.mark.parametrize("spent", [1.5, 1.9])
def test_a_refusal_says_the_same_whatever_was_spent(
    dataset: dict[str, Any], tmp_path: Path, spent: float, caplog: pytest.LogCaptureFixture
) -> None:
    rules = own(dataset, **{"budget-file": str(tmp_path / "spent.db"), "max-delta": 1e-6})
    assert ARRAYS in ask(node(**rules), asked(epsilon=spent), clients=1)
    assert error(ask(node(**rules), asked(epsilon=1.0), clients=1)) == f"Refused: {ALL_RUNS}"
    assert "budget-file: epsilon 1 and delta 0 more would exceed lifetime-epsilon 2" in caplog.text


@pytest.mark.parametrize("file", ["", True, 5])
def test_a_budget_file_that_is_no_path_allows_nothing(
    dataset: dict[str, Any], file: Any, caplog: pytest.LogCaptureFixture
) -> None:
    reply = ask(node(**own(dataset, **{"budget-file": file})), asked(), clients=1)
    assert error(reply) == "Refused: this node cannot keep its budget-file; its log says why"
    assert f"budget-file {file!r} must be the path of a file" in caplog.text
