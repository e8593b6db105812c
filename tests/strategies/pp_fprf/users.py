"""Users with made-up rows, and what a user's side is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from flwr.app import RecordDict

from dpforest.ledger import Budget, Ledger
from dpforest.noise import Noise, Seeded
from dpforest.schema import Feature, Schema
from strategies.method import ClientTask
from strategies.pp_fprf import PersonalSettings

SCHEMA = Schema((Feature("a", 0, 1), Feature("b", 0, 1)), classes=("u", "v", "w"))


def rows(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Points in the unit square; their class is a matter of two thresholds."""
    X = np.random.default_rng(seed).random((n, 2))
    return X, (X[:, 0] > 0.4).astype(np.int64) + (X[:, 1] > 0.7)


def client_task(
    settings: Any = None,
    epsilon: float = 1.0,
    schema: Schema = SCHEMA,
    noise: Callable[[str], Noise] | None = None,
    **message: Any,
) -> ClientTask:
    """A message to client 0 with a state and a ledger of its own."""
    return ClientTask(
        schema=schema,
        settings=settings or PersonalSettings(),
        budget=Budget(epsilon),
        rounds=1,
        clients=3,
        seed=0,
        ledger=Ledger(Budget(epsilon)),
        noise=noise or (lambda purpose: Seeded(len(purpose))),
        rng=lambda purpose: np.random.default_rng(len(purpose)),
        state=RecordDict(),
        config={"run": "this", "seed": 5, **message},
    )
