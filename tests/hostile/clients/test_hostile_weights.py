"""Weights and rows that a client made up: they cost their sender only, and the next rounds have sound answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from network_loop import PRIVATE, REGRESSION, SCHEMA, Federation, rows, start

pytest.importorskip("tensorflow")

from baselines.mlp.sides import SUMS
from dpforest.errors import DPForestError
from dpforest.schema import Schema
from strategies.method import ClientUpdate, Task
from strategies.registry import get_method

CLIENTS = 6
METHODS = ("fedavg", "dp_sgd", "dp_fedavg", "dp_fedavg_published")
NUMBERS = (3e38, -3e38, 1e39, 1e300, 1e30, 1e6, 99.0)


def federation(name: str, schema: Schema) -> Federation:
    more = {"learning_rate": 0.02, "batch": 32, "dropout": 0.0} if name == "fedavg" else {}
    return start(name, clients=CLIENTS, rounds=4, schema=schema, standardize="public", clients_per_round=None, **more)


def exchange(running: Federation, round_: int, data: dict[int, Any], number: float | None) -> list[int]:
    """One round, in which client 0 sends a number in place of every weight; who was refused."""
    updates, refused = [], []
    for client in running.server.participants(round_, sorted(data)):
        view = running.view(client, round_, dict(running.server.config(round_, client)))
        update = running.method.client().train(view, *data[client], running.model)
        arrays = dict(update.arrays)
        if client == 0 and number is not None:
            arrays = {name: np.full(array.shape, number) for name, array in arrays.items()}
        sent = ClientUpdate(arrays, update.metrics, client)
        try:
            running.server.check(sent)
            updates.append(sent)
        except DPForestError:
            refused.append(client)
    running.model = running.server.aggregate(round_, updates) or running.model
    return refused


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("schema", [SCHEMA, REGRESSION], ids=["classes", "target"])
def test_weights_of_any_size_cost_their_client_only(name: str, schema: Schema) -> None:
    data = {client: rows(client, schema=schema) for client in range(CLIENTS)}
    for number in NUMBERS:
        running = federation(name, schema)
        refused = exchange(running, 1, data, number)
        if abs(number) > 3e38:
            assert refused == [0], "no single-precision number"
        elif name != "dp_fedavg":  # which clips every step to a length, whatever is sent
            assert refused == ([0] if abs(number) > 100 else [])
        for round_ in (2, 3):
            assert exchange(running, round_, data, None) == [], f"after weights of {number:g}"
        assert np.isfinite(running.predict(1, data[1][0])).all()


def test_one_client_cannot_lead_the_model_away_in_many_rounds() -> None:
    running = federation("fedavg", SCHEMA)
    data = {client: rows(client) for client in range(CLIENTS)}
    for round_ in range(1, 30):
        away = float(max(np.abs(array).max() for array in running.model.values())) + 90
        exchange(running, round_, data, away)
    assert exchange(running, 30, data, None) == []
    assert np.isfinite(running.predict(1, data[1][0])).all()


@pytest.mark.parametrize("number", [1e300, -1e300, 1e17, np.inf, np.nan])
def test_sums_beyond_any_rows_are_refused(number: float) -> None:
    running = start("dp_sgd", clients=CLIENTS, standardize="private")
    with pytest.raises(DPForestError, match="sums up to 1e"):
        running.server.check(ClientUpdate({SUMS: np.full(9, number)}))


@pytest.mark.parametrize("name", ["centralized", "centralized_mlp"])
@pytest.mark.parametrize(
    ("schema", "change", "words"),
    [
        (SCHEMA, {"X": np.full((3, 4), -1e39)}, "outside"),
        (SCHEMA, {"X": np.full((3, 4), 1e300)}, "outside"),
        (SCHEMA, {"X": np.full((3, 4), np.nan)}, "nan"),
        (SCHEMA, {"y": np.array([0, 1, 3])}, "a target is outside the schema"),
        (SCHEMA, {"y": np.array([0.0, 1.0, 2.0])}, "a target is outside the schema"),
        (REGRESSION, {"y": np.array([0.0, 1.0, 1e300])}, "a target is outside the schema"),
        (REGRESSION, {"y": np.array([0.0, 1.0, np.nan])}, "a target is outside the schema"),
        (REGRESSION, {"y": np.array([0.0, 1.0, -6.1], np.float32)}, "a target is outside the schema"),
    ],
)
def test_uploaded_rows_outside_the_schema_are_refused(name: str, schema: Schema, change: Any, words: str) -> None:
    method = get_method(name)
    server = method.server(Task(schema, method.settings(), PRIVATE, 1, CLIENTS, 0))
    sound = {"X": np.zeros((3, 4)), "y": np.array([0, 1, 2]) if schema is SCHEMA else np.array([0.0, 6.0, -6.0])}
    server.check(ClientUpdate(sound))
    with pytest.raises(DPForestError, match=words):
        server.check(ClientUpdate(sound | change))
