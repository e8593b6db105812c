"""Federated boosting where a client's whole data is the unit."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from federation import SCHEMA, Federation
from sklearn.metrics import r2_score

from dpforest.errors import DPForestError
from dpforest.explain import explain_prediction
from dpforest.forest import load
from dpforest.ledger import Budget, total_epsilon
from dpforest.schema import Schema
from strategies.boost.client_level import ClientLevelServer
from strategies.boost.settings import client_level_terms, client_plan_of
from strategies.forests import read_model
from strategies.messages import BadMessage
from strategies.plan import MethodPlan, check_task

BUDGET = Budget(8.0, 1e-5)


def federation(**options: Any) -> Federation:
    defaults = {
        "linear_share": "auto",
        "unit": "client",
        "trust": "shared",
        "budget": BUDGET,
        "clients": 6,
        "rounds": 3,
        "depth": 2,
        "n": 80,
    }
    return Federation(**{**defaults, **options})


@pytest.mark.parametrize("trust", ["local", "shared", "central"])
@pytest.mark.parametrize("scale", ["own", "moments"])
def test_every_client_spends_exactly_what_was_planned(trust: str, scale: str) -> None:
    run = federation(trust=trust, scale=scale)
    run.run()
    planned = run.server.planned()
    for ledger in run.ledgers.values():
        assert sum(entry.times for entry in ledger.entries) == sum(entry.times for entry in planned)
        assert 0.99 * 8 < total_epsilon(ledger.entries, 1e-5) == total_epsilon(planned, 1e-5) <= 8
        guarantee = ledger.guarantee()
        assert (guarantee.holds, guarantee.unit.kind, guarantee.trust.kind) == (True, "client", trust)


@pytest.mark.parametrize("trust", ["local", "shared", "central"])
@pytest.mark.parametrize(("scale", "least"), [("own", 0.7), ("moments", 0.7)])
def test_without_noise_it_learns_what_all_clients_know(trust: str, scale: str, least: float) -> None:
    run = federation(trust=trust, scale=scale, budget=Budget(math.inf), rounds=25, trees_per_round=8, depth=3)
    run.run()
    assert run.accuracy() > least


@pytest.mark.parametrize("scale", ["own", "moments"])
def test_the_noise_of_a_shared_sum_is_that_of_one_client(scale: str) -> None:
    local, shared = (client_plan_of(federation(trust=trust, scale=scale).task) for trust in ("local", "shared"))
    sums = local.sums.variance / local.unit**2, 6 * shared.sums.variance / shared.unit**2
    assert sums[0] == pytest.approx(sums[1], rel=1e-3)


@pytest.mark.parametrize("trust", ["local", "shared", "central"])
@pytest.mark.parametrize("scale", ["own", "moments"])
def test_a_client_without_rows_answers_like_all_others(trust: str, scale: str) -> None:
    """Neighbours differ in a client whose data are replaced by nothing: that it answers must not tell them apart."""
    run = federation(trust=trust, scale=scale)
    X, y = run.rows[2]
    run.rows[2] = X[:0], y[:0]
    run.run()
    assert not run.errors
    assert total_epsilon(run.ledgers[2].entries, 1e-5) == total_epsilon(run.ledgers[0].entries, 1e-5)
    assert len(run.server.booster.rounds) == 3


@pytest.mark.parametrize("linear_share", [0.0, 0.5, 1.0])
def test_a_client_that_misses_a_round_catches_up(linear_share: float) -> None:
    whole, patchy = (
        federation(trust="local", budget=Budget(math.inf), scale="own", linear_share=linear_share) for _ in range(2)
    )
    whole.run()
    patchy.exchange()
    patchy.exchange(unreached=[1])
    patchy.exchange()
    scores = [run.states[1].config_records["boost"]["scores"] for run in (whole, patchy)]
    assert len(scores[0]) == len(scores[1])
    assert int(patchy.states[1].config_records["boost"]["rounds"]) == 2  # type: ignore[arg-type]


def test_the_finished_model_says_how_a_new_person_is_read(tmp_path: Path) -> None:
    run = federation(rounds=4)
    run.run()
    run.server.save(tmp_path)
    forest = load(tmp_path / "forest.json")
    assert forest.own is not None
    X, _ = run.rows[0]
    sent = read_model(run.model, SCHEMA)
    assert sent.predict_proba(sent.of_person(X)) == pytest.approx(forest.predict_proba(forest.of_person(X)), abs=1e-5)
    assert "own rank" in " ".join(str(path) for path in explain_prediction(forest, forest.of_person(X)[0]))
    report = run.server.report()
    assert (report["scale"], report["linear_share"]) == ("own", 0.75)
    assert sum(report["importances"].values()) == pytest.approx(1)


def test_the_same_seed_gives_the_same_model() -> None:
    first, again = federation(), federation()
    first.run()
    again.run()
    assert all(np.array_equal(first.model[name], again.model[name]) for name in first.model)


def change(run: Federation, name: str, array: Any) -> None:
    """Send a client a message in which one array is another."""
    arrays = dict(run.server.arrays_for(2, 0))
    arrays[name] = array(arrays[name])
    run.reply(0, arrays, run.server.config(2, 0))


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("past.coefficients", lambda a: a[:, :-1]),
        ("past.coefficients", lambda a: a * np.float16(np.nan)),
        ("past.coefficients", lambda a: np.full_like(a, 9)),
        ("past.coefficients", lambda a: a.astype(np.int8)),
        ("past.weights", lambda a: np.full_like(a, 9)),
        ("past.first", lambda a: a + 5),
        ("feature", lambda a: a + np.uint8(200)),
        ("split", lambda a: a + np.uint8(100)),
    ],
)
def test_a_client_refuses_a_message_that_is_not_sound(name: str, array: Any) -> None:
    run = federation(trust="local", scale="own")
    run.exchange()
    spent = run.ledgers[0].entries
    with pytest.raises(BadMessage):
        change(run, name, array)
    assert run.ledgers[0].entries == spent


@pytest.mark.parametrize("scale", ["own", "moments"])
def test_sums_that_no_client_can_have_sent_are_refused(scale: str) -> None:
    run = federation(trust="local", scale=scale)
    run.exchange(tamper=lambda client, arrays: {"sums": arrays["sums"].astype(np.int64) + (client == 3) * 2**50})
    assert list(run.errors) == [3]


@pytest.mark.parametrize(("clients", "enough"), [(2, "4.6"), (4, "2.1")])
def test_too_few_clients_hear_from_which_epsilon_on_something_could_be_learned(clients: int, enough: str) -> None:
    with pytest.raises(DPForestError, match="nothing can be learned") as refused:
        federation(clients=clients, budget=Budget(1.0, 1e-5))
    assert f"from epsilon {enough} on" in str(refused.value)
    federation(clients=clients, budget=Budget(float(enough), 1e-5))


def test_one_client_is_no_federation_at_the_level_of_a_client() -> None:
    with pytest.raises(DPForestError, match="make each person a client"):
        federation(clients=1, trust="local", budget=Budget(100.0, 1e-5))


def test_delta_is_held_against_the_number_of_clients() -> None:
    task = federation(clients=6).task
    check_task(task)
    plan = MethodPlan("boost", {}, SCHEMA, 1.0, 5e-4, unit="client", trust="shared")
    with pytest.raises(DPForestError, match="1 / 2000 clients"):
        plan.task(2000)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scale": "own"}, "one record moves the mean and the ranks"),
    ],
)
def test_own_standardisation_is_refused_for_records_with_the_reason(options: dict[str, Any], message: str) -> None:
    with pytest.raises(DPForestError, match=message):
        Federation(**options)


def target_federation(epsilon: float, **options: Any) -> Federation:
    """Targets that a tree of depth 2 holds, and clients with rows of their own."""
    schema = Schema(SCHEMA.features, target_range=(-10.0, 30.0))
    defaults = {"schema": schema, "budget": Budget(epsilon, 1e-5), "clip": 0.5, "rounds": 25}
    run = federation(**{**defaults, **options})
    for client in run.rows:
        X = np.random.default_rng(client).random((30, 2))
        run.rows[client] = X, (4 * (X[:, 0] > 0.4) + 8 * (X[:, 1] > 0.7) + client % 3).astype(np.float32)
    return run


@pytest.mark.parametrize(("trust", "clients", "epsilon"), [("local", 30, 1e3), ("shared", 9, 1e3), ("central", 60, 20)])
def test_a_target_is_learned(trust: str, clients: int, epsilon: float, tmp_path: Path) -> None:
    run = target_federation(epsilon, clients=clients, trust=trust)
    run.run()
    run.server.save(tmp_path)
    X = np.random.default_rng(9).random((500, 2))
    y = 4 * (X[:, 0] > 0.4) + 8 * (X[:, 1] > 0.7) + 1
    assert r2_score(y, load(tmp_path / "forest.json").predict(X)) > 0.75
    assert run.server.report()["scale"] == "moments"
    assert total_epsilon(run.ledgers[0].entries, 1e-5) == total_epsilon(run.server.planned(), 1e-5)


def test_a_client_with_a_target_catches_up() -> None:
    whole, patchy = (target_federation(math.inf, clients=3, trust="local") for _ in range(2))
    for _ in range(4):
        whole.exchange()
    for unreached in ([], [], [1], []):
        patchy.exchange(unreached=unreached)
    units = [run.states[1].config_records["boost"]["unit"] for run in (whole, patchy)]
    assert units[0] == units[1] != 1
    assert int(patchy.states[1].config_records["boost"]["rounds"]) == 2  # type: ignore[arg-type]


def test_a_target_has_no_scale_of_its_own() -> None:
    with pytest.raises(DPForestError, match="scale=own is for classes"):
        target_federation(8.0, scale="own")


def test_terms_leave_room_for_all_vectors_and_their_noise() -> None:
    for scale in ("own", "moments"):
        server = federation(scale=scale).server
        assert isinstance(server, ClientLevelServer)
        task = server.task
        plan = client_plan_of(task)
        assert client_level_terms(task, plan).largest_value > math.sqrt(plan.longest) + 12 * plan.sums.variance**0.5
