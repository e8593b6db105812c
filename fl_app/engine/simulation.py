"""One warm simulation that serves many experiments.

Starting Ray and its actors takes 10 to 20 s; an experiment then costs what it computes. The simulation runs in a
background thread; its ServerApp hands its grid out and waits until the session is closed.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid, ServerApp
from flwr.superlink.grid import InMemoryGrid

from dpforest.errors import DPForestError
from strategies.flower_compat import only_addressed_nodes

log = logging.getLogger(__name__)

# Messages of a simulation that are under way at once.
_WINDOW = 64
_POLL = 0.02  # seconds
START = 300  # seconds that the engine may take to start; on a busy machine it takes a minute
_END = 60  # seconds that the engine may take to end: a process that ends before it may die of that


class SimulationFailed(DPForestError):
    """The simulation engine did not start."""


class WindowedGrid(Grid):
    """A simulation's grid that sends a message only when few others are under way.

    The engine looks through all messages that are under way for every node, again and again until all are answered:
    with a thousand at once that takes most of an exchange. During an exchange it looks for those nodes only to which a
    message was sent.

    Parameters
    ----------
    grid : InMemoryGrid
        That of the simulation.
    """

    simulates = True

    def __init__(self, grid: InMemoryGrid) -> None:
        self._grid = grid

    @property
    def run(self):  # type: ignore[no-untyped-def]
        """The Flower run behind the grid."""
        return self._grid.run

    def set_run(self, run) -> None:  # type: ignore[no-untyped-def]
        """Set it."""
        self._grid.set_run(run)

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """Make a message (Flower's older interface)."""
        return self._grid.create_message(content, message_type, dst_node_id, group_id, ttl)

    def get_node_ids(self) -> Iterable[int]:
        """Ids of all nodes."""
        return self._grid.get_node_ids()

    def get_nodes(self) -> Iterable[NodeInfo]:
        """All nodes."""
        return self._grid.get_nodes()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Send messages."""
        return self._grid.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Replies that have come."""
        return self._grid.pull_messages(message_ids)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Send all messages, some at a time, and collect the replies until the time is up."""
        waiting = list(messages)
        if len(waiting) <= _WINDOW:
            return self._grid.send_and_receive(waiting, timeout=timeout)
        waiting.reverse()
        end = None if timeout is None else time.monotonic() + timeout
        under_way: set[str] = set()
        replies: list[Message] = []
        with only_addressed_nodes(self._grid.state) as addressed:
            while (waiting or under_way) and (end is None or time.monotonic() < end):
                sent = [waiting.pop() for _ in range(min(len(waiting), _WINDOW - len(under_way)))]
                under_way.update(self.push_messages(sent))
                addressed.update(message.metadata.dst_node_id for message in sent)
                time.sleep(_POLL)
                arrived = list(self.pull_messages(under_way))
                replies += arrived
                under_way.difference_update(reply.metadata.reply_to_message_id for reply in arrived)
        return replies


@contextmanager
def _hidden(module: str) -> Iterator[None]:
    """Let imports of a module fail as if it were not installed, unless it is loaded already."""
    if module in sys.modules:
        yield
        return
    sys.modules[module] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[module]


class SimulationSession:
    """A running Flower simulation; use it as a context manager.

    Parameters
    ----------
    client_app : ClientApp
    nodes : int
        Simulated nodes. An experiment may use fewer.
    ray_address : str, optional
        Of a Ray cluster to use; without it the session starts a Ray of its own, whatever else is there.
    """

    def __init__(self, client_app: ClientApp, nodes: int, ray_address: str | None = None) -> None:
        self.nodes = nodes
        self._client_app = client_app
        self._address = ray_address
        self._ready = threading.Event()
        self._close = threading.Event()
        self._grid: Grid | None = None
        self._error: BaseException | None = None
        self._in_time = True
        self._thread = threading.Thread(target=self._simulate, name="simulation", daemon=True)

    def __enter__(self) -> Grid:
        log.info("starting a simulation of %d nodes (10 to 20 s)", self.nodes)
        self._thread.start()
        self._in_time = self._ready.wait(START)
        if self._grid is None:
            reason = " ".join(str(self._error).split()) if self._in_time else f"nothing for {START} s"
            raise SimulationFailed(f"the simulation did not start ({reason}): {self._remedy()}") from self._error
        return self._grid

    def _remedy(self) -> str:
        if self._address:
            return f"see whether the Ray cluster at {self._address} is there, or leave engine.ray_address out"
        return "end other Ray programs of this machine (ray stop), or do without Ray by engine.kind=in_process"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close.set()
        if self._in_time:
            self._thread.join(timeout=_END)

    def _simulate(self) -> None:
        server_app = ServerApp()

        @server_app.main()
        def main(grid: Grid, context: Context) -> None:
            self._grid = WindowedGrid(grid) if isinstance(grid, InMemoryGrid) else grid
            self._ready.set()
            self._close.wait()

        try:
            with _hidden("tensorflow"):
                # Flower's Ray backend loads it if it is there, for a GPU setting that is not used here: seconds, and
                # notes on the screen. Workers load it when they need it.
                import flwr.server.superlink.fleet.vce.backend.raybackend  # noqa: F401
                from flwr.simulation import run_simulation

            run_simulation(
                server_app=server_app,
                client_app=self._client_app,
                num_supernodes=self.nodes,
                backend_config=self._backend(),
            )
        except BaseException as error:
            self._error = error
        finally:
            self._ready.set()

    def _backend(self) -> dict[str, dict[str, Any]]:
        # "local" starts a Ray of its own. Without an address Ray would look for one that is there, and wait for minutes
        # where it finds what a dead cluster left.
        address = self._address or "local"
        init_args = {
            "include_dashboard": False, "log_to_driver": False, "logging_level": logging.ERROR, "address": address
        }  # fmt: skip
        return {"init_args": init_args, "client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
