"""``python -m tests.benchmarks.aggregate [CLIENTS] [DEPTH]``: memory of a server that joins many trees."""

from __future__ import annotations

import resource
import sys
import time

import numpy as np

from dpforest.ledger import Budget, Ledger
from dpforest.noise import Seeded
from dpforest.schema import Feature, Schema
from strategies.method import ClientTask, ClientUpdate, Task
from strategies.one_shot import OneShotServer, OneShotSettings
from strategies.one_shot.client import OneShotClient


def main() -> None:
    """Print megabytes and seconds."""
    clients = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    depth = int(sys.argv[2]) if len(sys.argv) > 2 else 6
    rng = np.random.default_rng(0)
    schema = Schema(tuple(Feature(f"f{i}", -1, 1) for i in range(6)), classes=tuple("abcdefg"), rows=200)
    task = Task(schema, OneShotSettings(depth=depth, trees=1), Budget(1.0), rounds=1, clients=clients, seed=0)
    server = OneShotServer(task)
    X, y = rng.uniform(-1, 1, (200, 6)), rng.integers(0, 7, 200)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    updates = []
    for client in range(clients):
        own = ClientTask(
            **task.__dict__,
            client=client,
            ledger=Ledger(task.budget),
            noise=lambda purpose, client=client: Seeded(client),
            rng=lambda purpose: np.random.default_rng(0),
        )
        update = OneShotClient().train(own, X, y, {})
        updates.append(ClientUpdate(update.arrays, update.metrics, client))
    start = time.perf_counter()
    for update in updates:
        server.check(update)
    server.aggregate(1, updates)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{clients} clients, depth {depth}: {(peak - before) / 1024:.0f} MiB above the start, {peak / 1024:.0f} MiB")
    print(f"joined in {seconds:.1f} s")


if __name__ == "__main__":
    main()
