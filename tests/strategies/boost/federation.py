"""A server and clients of boosting in one process, with clients that miss chosen exchanges."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
from flwr.app import RecordDict

from dpforest.errors import DPForestError
from dpforest.guarantee import PrivacyUnit, TrustModel
from dpforest.ledger import Budget, Ledger
from dpforest.noise import Noise, Seeded
from dpforest.schema import Feature, Schema
from strategies.boost import BoostClient, FederatedBoostSettings
from strategies.boost.client_level import boost_server
from strategies.forests import read_model
from strategies.method import Arrays, ClientTask, ClientUpdate, Task
from strategies.registry import get_method

SCHEMA = Schema((Feature("a", 0, 1), Feature("b", 0, 1)), classes=("x", "y", "z"))


def table(client: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(client).random((n, 2))
    return X, (X[:, 0] > 0.4).astype(np.int64) + (X[:, 1] > 0.7)


class Federation:
    """Clients 0 .. n-1 with rows of their own, each with its state and ledger, and their server."""

    def __init__(
        self,
        clients: int = 5,
        rounds: int = 4,
        budget: Budget | None = None,
        n: int = 600,
        schema: Schema = SCHEMA,
        trust: str = "local",
        unit: str = "record",
        **options: Any,
    ) -> None:
        self.settings = FederatedBoostSettings(
            **{"depth": 3, "trees_per_round": 2, "bins": 16, "cuts": 7, "linear_share": 0, "server_noise": "seeded"}
            | options
        )
        self.task = Task(
            schema,
            self.settings,
            budget or Budget(5.0, 1e-6),
            rounds,
            clients,
            3,
            unit=PrivacyUnit(unit),
            trust=TrustModel(trust),
        )
        self.server = boost_server(self.task)
        self.states = {client: RecordDict() for client in range(clients)}
        protection = get_method("boost").protection(self.settings, unit, trust)
        self.ledgers = {
            client: Ledger(self.task.budget, protection.unit, protection.trust) for client in range(clients)
        }
        self.rows = {client: table(client, n) for client in range(clients)}
        self.exchange_number = 0
        self.model: Arrays = {}
        self.errors: dict[int, str] = {}
        self.sent: dict[int, Mapping[str, np.ndarray]] = {}
        self.received: dict[int, Mapping[str, np.ndarray]] = {}

    def reply(self, client: int, arrays: Arrays, config: Mapping[str, Any]) -> ClientUpdate:
        noise: Callable[[str], Noise] = lambda purpose: Seeded(  # noqa: E731
            np.random.SeedSequence(7, spawn_key=(client, self.exchange_number, len(purpose)))
        )
        task = ClientTask.of(
            self.task, client=client, round=self.exchange_number, ledger=self.ledgers[client], noise=noise,
            rng=lambda purpose: np.random.default_rng(0), state=self.states[client], config=config,
        )  # fmt: skip
        update = BoostClient().train(task, *self.rows[client], arrays)
        return ClientUpdate(update.arrays, update.metrics, client)

    def exchange(
        self,
        unreached: Collection[int] = (),
        lost: Collection[int] = (),
        tamper: Callable[[int, dict[str, np.ndarray]], dict[str, np.ndarray]] | None = None,
    ) -> None:
        """One exchange: some clients get no message, of some the reply is lost or tampered with."""
        self.exchange_number += 1
        updates = []
        self.sent, self.received, self.errors = {}, {}, {}
        for client in self.server.participants(self.exchange_number, sorted(self.states)):
            arrays = self.server.arrays_for(self.exchange_number, client)
            config = self.server.config(self.exchange_number, client)
            if client in unreached:
                continue
            self.sent[client] = arrays
            update = self.reply(client, arrays, config)
            if tamper:
                update = ClientUpdate(tamper(client, dict(update.arrays)), {}, client)
            if client in lost:
                continue
            self.received[client] = update.arrays
            try:
                self.server.check(update)
            except DPForestError as error:
                self.errors[client] = str(error)
                continue
            updates.append(update)
        self.model = self.server.aggregate(self.exchange_number, updates) or self.model

    def run(self) -> None:
        """The exchanges that are left."""
        while self.exchange_number < self.server.exchanges and not self.server.finished:
            self.exchange()

    def accuracy(self) -> float:
        X, y = table(99, 2000)
        forest = read_model(self.model, self.task.schema)
        return float((forest.predict(forest.of_person(X)) == y).mean())
