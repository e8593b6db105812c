from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from network_loop import REGRESSION, rows, run, start

pytest.importorskip("tensorflow")

from baselines.fedavg.settings import FedAvgSettings
from baselines.mlp.network import network_for
from dpforest.errors import DPForestError
from dpforest.ledger import Budget
from strategies.method import ClientUpdate

# Without an exchange of its own for standardisation.
PUBLIC: dict[str, Any] = {"standardize": "public"}
QUICK: dict[str, Any] = PUBLIC | {"learning_rate": 0.02, "dropout": 0.0, "batch": 32}


def test_learns_and_says_that_nothing_is_protected() -> None:
    federation = run("fedavg", **QUICK)
    assert federation.accuracy() > 0.95
    for ledger in federation.ledgers.values():
        assert [entry.what for entry in ledger.entries] == ["network weights", "number of rows"]
        assert not ledger.guarantee().holds
    assert federation.server.unprotected() == ["network weights", "number of rows"]


def test_equal_weights_keep_the_number_of_rows() -> None:
    federation = run("fedavg", weights="equal", rounds=1, **QUICK)
    assert [entry.what for entry in federation.ledgers[0].entries] == ["network weights"]


@pytest.mark.parametrize("settings", [{}, {"dropout": 0.4}, {"batch_norm": [1], "optimizer": "sgd"}, {"proximal": 0.1}])
def test_the_same_seed_gives_the_same_weights(settings: dict) -> None:
    settings = QUICK | settings
    first, again, other = (run("fedavg", rounds=2, clients=2, seed=seed, **settings) for seed in (1, 1, 2))
    assert all(np.array_equal(first.model[name], again.model[name]) for name in first.model)
    assert any(not np.array_equal(first.model[name], other.model[name]) for name in first.model)


def test_a_run_in_between_leaves_no_trace_in_the_shared_model() -> None:
    first = run("fedavg", rounds=1, clients=2, **QUICK)
    run("fedavg", rounds=1, clients=3, seed=9, **(QUICK | {"learning_rate": 0.5}))
    again = run("fedavg", rounds=1, clients=2, **QUICK)
    assert all(np.array_equal(first.model[name], again.model[name]) for name in first.model)
    architecture = first.task.settings.architecture(first.task.schema)
    assert network_for(architecture) is network_for(architecture)


def test_the_mean_is_weighted_by_records() -> None:
    server = start("fedavg", clients=2, **PUBLIC).server
    zeros, ones = ({k: np.full(v.shape, x, np.float32) for k, v in server.initial_arrays().items()} for x in (0, 1))
    updates = [ClientUpdate(zeros, {"rows": 30}, 0), ClientUpdate(ones, {"rows": 10}, 1)]
    model = server.aggregate(1, updates)
    assert model is not None
    assert all(array == pytest.approx(np.full(array.shape, 0.25)) for array in model.values())


def test_server_momentum_carries_on() -> None:
    server = start("fedavg", clients=1, server_momentum=0.5, weights="equal", **PUBLIC).server
    before = server.initial_arrays()["output/bias"]
    step = {name: array + np.float32(1) for name, array in server.initial_arrays().items()}
    server.aggregate(1, [ClientUpdate(step, {}, 0)])
    # Nothing new in the second round: half of the first step is repeated.
    model = server.aggregate(2, [ClientUpdate(step, {}, 0)])
    assert model is not None
    assert model["output/bias"] - before == pytest.approx(np.full(3, 1.5))


def test_the_proximal_term_holds_the_weights_back() -> None:
    def moved(proximal: float) -> float:
        federation = start("fedavg", clients=1, rounds=1, proximal=proximal, **(QUICK | {"optimizer": "sgd"}))
        before = federation.model
        federation.exchange(1, {0: rows(0)})
        return float(sum(np.sum((federation.model[name] - before[name]) ** 2) for name in before))

    assert moved(20.0) < 0.7 * moved(0.0)


def test_a_client_whose_training_diverges_drops_out_and_the_round_goes_on() -> None:
    federation = start("fedavg", clients=2, rounds=1, **(QUICK | {"optimizer": "sgd", "learning_rate": 1e30}))
    before = federation.model
    federation.exchange(1, {0: rows(0)})
    assert "local training diverged" in federation.failures[0]
    assert "lower learning_rate" in federation.failures[0]
    assert all(np.array_equal(federation.model[name], before[name]) for name in before)


def test_a_client_with_fewer_rows_than_a_batch_takes_part() -> None:
    federation = run("fedavg", {0: rows(0, 1), 1: rows(1, 5)}, clients=2, rounds=1, batch=32, batch_norm=[1])
    assert not federation.failures
    assert all(np.isfinite(array).all() for array in federation.model.values())


def test_some_clients_a_round_in_turn_by_the_seed() -> None:
    federation = run("fedavg", clients=6, rounds=4, clients_per_round=2, **QUICK)
    assert all(len(asked) == 2 for asked in federation.asked)
    assert len({tuple(asked) for asked in federation.asked}) > 1


def test_false_numbers_of_rows_and_foreign_weights_are_refused() -> None:
    server = start("fedavg").server
    good = server.initial_arrays()
    server.check(ClientUpdate(good, {"rows": 10}, 0))
    for update, message in (
        (ClientUpdate(good, {"rows": float("nan")}, 0), "rows"),
        (ClientUpdate(good, {}, 0), "rows"),
        (ClientUpdate({**good, "output/bias": np.zeros(3, np.int32)}, {"rows": 1}, 0), "int32"),
        (ClientUpdate({}, {"rows": 1}, 0), "no weights"),
    ):
        with pytest.raises(ValueError, match=message):
            server.check(update)


def test_a_regression_head_learns_a_linear_target() -> None:
    federation = run("fedavg", schema=REGRESSION, rounds=5, **QUICK)
    X, y = rows(999, 500, REGRESSION)
    predicted = federation.predict(0, X)
    assert predicted.shape == y.shape
    assert np.mean((predicted - y) ** 2) < 0.1 * y.var()


def test_private_standardisation_takes_an_exchange_of_its_own_and_is_charged() -> None:
    federation = run("fedavg", budget=Budget(8.0, 1e-5), rounds=2, **(QUICK | {"standardize": "private"}))
    assert federation.server.exchanges == 3
    assert not federation.server.is_round_end(1)
    entry = federation.ledgers[0].entries[0]
    assert entry.mu > 0
    assert entry == federation.server.planned()[0]
    assert {"inputs/mean", "inputs/scale"} <= set(federation.model)
    assert federation.accuracy() > 0.9


def test_without_a_budget_the_standardisation_is_exact_and_the_ledger_still_says_none() -> None:
    federation = run("fedavg", budget=Budget(math.inf), rounds=2, **(QUICK | {"standardize": "private"}))
    sums, *rest = federation.ledgers[0].entries
    assert (sums.what, sums.mu) == ("sums of features and of their squares", math.inf)
    assert [entry.what for entry in rest] == federation.server.unprotected()
    assert str(federation.ledgers[0].guarantee()) == (
        "guarantee: none (sums of features and of their squares; network weights; number of rows)"
    )
    X = np.concatenate([rows(client)[0] for client in range(4)]) / 4  # the bounds are -4 and 4
    assert federation.model["inputs/mean"] == pytest.approx(X.mean(axis=0), abs=1e-5)
    assert federation.model["inputs/scale"] == pytest.approx(X.std(axis=0), abs=1e-5)
    assert federation.accuracy() > 0.95


def test_weights_in_place_of_sums_are_not_used_for_the_standardisation() -> None:
    server = start("fedavg", clients=1).server
    with pytest.raises(DPForestError, match="no client sent sums"):
        server.aggregate(1, [ClientUpdate(server.initial_arrays(), {"rows": 10}, 0)])


def test_the_model_is_saved_without_pickle(tmp_path: Path) -> None:
    federation = run("fedavg", rounds=1, clients=2, **QUICK)
    federation.server.save(tmp_path)
    with np.load(tmp_path / "network.npz", allow_pickle=False) as saved:
        assert all(np.array_equal(saved[name], array) for name, array in federation.model.items())
        assert set(saved) == set(federation.model)
    assert json.loads((tmp_path / "network.json").read_text())["hidden"] == [8]


def test_defaults() -> None:
    settings = FedAvgSettings()
    assert (settings.epochs, settings.batch, settings.optimizer, settings.learning_rate) == (5, 32, "adam", 0.001)
