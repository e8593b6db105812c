"""``python -m tests.benchmarks.exchange [NODES]``: one exchange of one_shot against a client that does nothing.

Both run in the same warm simulation, in turn: the engine's exchange as Flower sends it, the method's through the
session's own grid, on rows that no client has loaded before the first time. The ratio is what the method costs against
the engine by itself.
"""

from __future__ import annotations

import statistics
import sys
import time

from flwr.app import ConfigRecord, Message, MessageType, RecordDict
from flwr.superlink.grid import InMemoryGrid

from fl_app.client_app import app
from fl_app.config.compose import compose_config, to_experiment
from fl_app.engine.run import run_experiment
from fl_app.engine.simulation import SimulationSession
from fl_app.terminal.quiet import quiet_frameworks
from strategies.federation.roster import roster, wait_for_nodes
from strategies.messages import CONFIG

_REPEATS = 3


def main() -> None:
    """Print milliseconds a message of both and their ratio."""
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    quiet_frameworks()
    overrides = ["partition=iid", f"partition.clients={nodes}", "dataset.features=raw", "privacy.epsilon=1"]
    experiment = to_experiment(compose_config(overrides))
    with SimulationSession(app, nodes) as grid:
        known = roster(grid, wait_for_nodes(grid, nodes, 300), 300)
        engine, method = [], []
        for _ in range(_REPEATS):
            start = time.perf_counter()
            # The client answers this question from its configuration alone: nothing but the engine's own work.
            content = RecordDict({CONFIG: ConfigRecord({"ask": "introduce"})})
            messages = [Message(content, node, MessageType.QUERY) for node in known.values()]
            # As Flower sends by itself, all at once.
            assert len(list(InMemoryGrid.send_and_receive(grid, messages, timeout=600))) == nodes
            engine.append(time.perf_counter() - start)
            method.append(run_experiment(experiment, grid, known).rounds[0]["train_seconds"])
    print(f"{'nodes':>8} {'engine ms a message':>20} {'one_shot ms a message':>22} {'ratio':>7}")
    for a, b in zip(engine, method, strict=True):
        print(f"{nodes:>8} {1e3 * a / nodes:>20.2f} {1e3 * b / nodes:>22.2f} {b / a:>7.2f}")
    print(f"median ratio {statistics.median(b / a for a, b in zip(engine, method, strict=True)):.2f}")


if __name__ == "__main__":
    main()
