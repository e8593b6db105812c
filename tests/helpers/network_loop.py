"""A federation in a loop: what the app does around a method, on made-up rows."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from flwr.app import RecordDict

from dpforest.errors import DPForestError
from dpforest.ledger import Budget, Ledger
from dpforest.noise import Seeded
from dpforest.schema import Feature, Schema
from strategies.method import Arrays, ClientTask, ClientUpdate, Method, ServerSide, Task
from strategies.registry import get_method

FEATURES = tuple(Feature(name, -4, 4) for name in "abcd")
SCHEMA = Schema(FEATURES, classes=("x", "y", "z"), rows=120)
REGRESSION = Schema(FEATURES, target_range=(-6, 6), rows=120)
CENTRES = np.array([[2, 0, 0, 0], [-1, 2, 0, 0], [-1, -2, 0, 0]])
PRIVATE = Budget(4.0, 1e-5)


def rows(client: int, n: int = 120, schema: Schema = SCHEMA) -> tuple[np.ndarray, np.ndarray]:
    """Three clouds of points that a small network tells apart, or a linear target."""
    rng = np.random.default_rng(100 + client)
    y = rng.integers(3, size=n)
    X = np.clip(CENTRES[y] + 0.6 * rng.standard_normal((n, 4)), -4, 4)
    return (X, y) if schema.is_classification else (X, np.clip(X[:, 0] - X[:, 1], -6, 6))


def make_task(
    method: Method,
    budget: Budget = PRIVATE,
    rounds: int = 3,
    clients: int = 4,
    seed: int = 0,
    schema: Schema = SCHEMA,
    trust: str | None = None,
    **settings: Any,
) -> Task:
    """What both sides know; small networks unless the test says otherwise."""
    chosen = method.settings(**{"hidden": [8], **settings})
    proven = method.protection(chosen, trust=trust).for_task()
    return Task(schema, chosen, budget, rounds, clients, seed, **proven)


def client_task(
    task: Task, client: int, round_: int, ledger: Ledger, state: RecordDict, config: Mapping[str, Any]
) -> ClientTask:
    """A client's view of a task, with randomness as the app makes it."""

    def entropy(purpose: str) -> np.random.SeedSequence:
        return np.random.SeedSequence(task.seed, spawn_key=(client, round_, zlib.crc32(purpose.encode())))

    return ClientTask.of(
        task,
        client=client,
        round=round_,
        ledger=ledger,
        noise=lambda purpose: Seeded(entropy(purpose)),
        rng=lambda purpose: np.random.default_rng(entropy(purpose)),
        state=state,
        config=config,
    )


@dataclass
class Federation:
    """Clients with their ledgers and state, and a server."""

    method: Method
    task: Task
    server: ServerSide
    model: Arrays
    ledgers: dict[int, Ledger] = field(default_factory=dict)
    states: dict[int, RecordDict] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    asked: list[list[int]] = field(default_factory=list)

    def exchange(self, round_: int, data: Mapping[int, tuple[np.ndarray, np.ndarray]]) -> None:
        """One exchange, as the app runs it."""
        chosen = self.server.participants(round_, sorted(data))
        self.asked.append(chosen)
        updates = []
        for client in chosen:
            try:
                config = dict(self.server.config(round_, client))
                own = self.server.arrays_for(round_, client)
                arrays = self.model if own is None else own
                update = self.method.client().train(self.view(client, round_, config), *data[client], arrays)
                sent = ClientUpdate(update.arrays, update.metrics, client)
                self.server.check(sent)
                updates.append(sent)
            except DPForestError as error:
                self.failures.append(str(error))
        self.model = self.server.aggregate(round_, updates) or self.model

    def view(self, client: int, round_: int, config: Mapping[str, Any]) -> ClientTask:
        """The task of one message."""
        protection = self.method.protection(self.task.settings, self.task.unit, self.task.trust)
        fresh = Ledger(self.task.budget, protection.unit, protection.trust)
        ledger = self.ledgers.setdefault(client, fresh)
        return client_task(self.task, client, round_, ledger, self.states.setdefault(client, RecordDict()), config)

    def predict(self, client: int, X: np.ndarray) -> np.ndarray:
        """What a client says about rows, by the current model."""
        return self.method.client().predict(self.view(client, 1, {}), X, self.model)

    def accuracy(self) -> float:
        """Share of new rows that the current model gets right."""
        X, y = rows(999, 600, self.task.schema)
        return float((self.predict(0, X).argmax(axis=1) == y).mean())


def start(name: str, **options: Any) -> Federation:
    """A federation before its first exchange."""
    method = get_method(name)
    task = make_task(method, **options)
    server = method.server(task)
    return Federation(method, task, server, server.initial_arrays())


def run(name: str, data: Mapping[int, tuple[np.ndarray, np.ndarray]] | None = None, **options: Any) -> Federation:
    """A whole run."""
    federation = start(name, **options)
    schema = federation.task.schema
    data = data or {client: rows(client, schema=schema) for client in range(federation.task.clients)}
    for round_ in range(1, federation.server.exchanges + 1):
        federation.exchange(round_, data)
    return federation
