"""Grids: where messages go. One that measures, one that needs no simulation, and who is on it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from flwr.app import ArrayRecord, ConfigRecord, Context, Error, Message, MessageType, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.constant import ErrorCode
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.grid import InMemoryGrid

from dpforest.errors import DPForestError
from strategies.messages import CONFIG, BadMessage, read_config

log = logging.getLogger(__name__)


@dataclass
class Traffic:
    """Bytes and seconds of one exchange, as the records of the real messages count them."""

    down: int = 0
    up: int = 0
    seconds: float = 0.0


@dataclass
class Meter:
    """Sends through a grid and counts what travels."""

    grid: Grid
    by_node: dict[int, Traffic] = field(default_factory=dict)

    def exchange(self, messages: Iterable[Message], timeout: float) -> tuple[list[Message], Traffic]:
        """Send all messages, wait for the replies, and measure both."""
        outgoing = list(messages)
        total = Traffic()
        for message in outgoing:
            size = _size(message)
            total.down += size
            self.by_node.setdefault(message.metadata.dst_node_id, Traffic()).down += size
        start = time.perf_counter()
        replies = list(self.grid.send_and_receive(outgoing, timeout=timeout)) if outgoing else []
        total.seconds = time.perf_counter() - start
        for reply in replies:
            # A model that a simulation shows with the evaluation is for the researcher and would not travel.
            judged = reply.metadata.message_type.startswith(MessageType.EVALUATE)
            size = _size(reply, without=ArrayRecord if judged else ())
            total.up += size
            self.by_node.setdefault(reply.metadata.src_node_id, Traffic()).up += size
        return replies, total


def _size(message: Message, without: type | tuple[type, ...] = ()) -> int:
    if not message.has_content():
        return 0
    return sum(record.count_bytes() for record in message.content.values() if not isinstance(record, without))


def wait_for_nodes(grid: Grid, wanted: int, timeout: float) -> list[int]:
    """Node ids once at least ``wanted`` are connected, or those there are when the time is up.

    Raises
    ------
    DPForestError
        No node connects in time.
    """
    end = time.monotonic() + timeout
    while True:
        nodes = sorted(grid.get_node_ids())
        if len(nodes) >= wanted or (nodes and time.monotonic() > end):
            return nodes
        if time.monotonic() > end:
            raise DPForestError(f"no node connected within {timeout:g} s: start SuperNodes, or raise timeout")
        time.sleep(0.1)


def wait_for(grid: Grid, nodes: Mapping[int, int], is_enough: Callable[[set[int]], bool], timeout: float) -> set[int]:
    """Which of the clients (by client: its node) are connected, once they are enough or the time is up."""
    end = time.monotonic() + timeout
    while True:
        there = set(grid.get_node_ids())
        connected = {client for client, node in nodes.items() if node in there}
        if is_enough(connected) or time.monotonic() > end:
            return connected
        time.sleep(0.1)


def roster(grid: Grid, nodes: list[int], timeout: float) -> dict[int, int]:
    """Which node plays which part: partition id to node id, as the nodes themselves say.

    Raises
    ------
    DPForestError
        No node says a number of its own.
    """
    messages = [
        Message(RecordDict({CONFIG: ConfigRecord({"ask": "introduce"})}), node, MessageType.QUERY) for node in nodes
    ]
    claims: dict[int, list[int]] = {}
    for reply in grid.send_and_receive(messages, timeout=timeout):
        node = reply.metadata.src_node_id
        if reply.has_error():
            continue
        try:
            number = read_config(reply.content).get("partition-id")
        except BadMessage:
            continue
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            continue
        claims.setdefault(number, []).append(node)
    if nameless := len(nodes) - sum(map(len, claims.values())):
        log.warning("%d of %d nodes gave no partition-id, or are gone: they take no part", nameless, len(nodes))
    for number, claimants in claims.items():
        if len(claimants) > 1:
            log.warning("%d nodes say partition-id %d, so none plays it: give each its own", len(claimants), number)
    found = {number: claimants[0] for number, claimants in claims.items() if len(claimants) == 1}
    if not found:
        raise DPForestError("no node introduced itself: set partition-id in every node's configuration")
    return found


class InProcessGrid(Grid):
    """Runs the ClientApp of every node in this process, one after another, without Ray.

    For tests and for small experiments: same numbers as a simulation, no start-up.

    Parameters
    ----------
    client_app : ClientApp
    nodes : int
        Number of nodes; node ``i`` has ``partition-id`` i.
    """

    def __init__(self, client_app: ClientApp, nodes: int) -> None:
        _identify_this_process()
        self._client_app = client_app
        self._contexts = {
            1000 + i: Context(
                run_id=1,
                node_id=1000 + i,
                node_config={"partition-id": i, "num-partitions": nodes, "in-process": True},
                state=RecordDict(),
                run_config={},
            )
            for i in range(nodes)
        }
        self._replies: dict[str, Message] = {}
        self._counter = 0

    @property
    def run(self):  # type: ignore[no-untyped-def]
        """No Flower run stands behind this grid."""
        raise NotImplementedError("an in-process grid belongs to no Flower run")

    def set_run(self, run) -> None:  # type: ignore[no-untyped-def]
        """Nothing to set."""

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """Make a message (Flower's older interface)."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        """Ids of all nodes."""
        return list(self._contexts)

    def get_nodes(self) -> Iterable[NodeInfo]:
        """Only ids are known here."""
        raise NotImplementedError("an in-process grid knows node ids only")

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Answer messages at once and keep the replies."""
        ids = []
        for message in messages:
            self._counter += 1
            message_id = str(self._counter)
            message.metadata.__dict__["_message_id"] = message_id
            try:
                reply = self._client_app(message, self._contexts[message.metadata.dst_node_id])
            except TimeoutError:
                continue  # a test's way to make a node fall silent
            except Exception as error:  # Flower's engines answer for a ClientApp that breaks
                reply = Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, repr(error)), reply_to=message)
            reply.metadata.__dict__["_src_node_id"] = message.metadata.dst_node_id
            self._replies[message_id] = reply
            ids.append(message_id)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Replies to those messages."""
        return [self._replies.pop(i) for i in message_ids if i in self._replies]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Answer all messages."""
        return self.pull_messages(self.push_messages(messages))


def is_deployed(grid: Grid) -> bool:
    """Whether messages go to real nodes: only simulations share memory with their server."""
    return not isinstance(grid, InProcessGrid | InMemoryGrid)


def _identify_this_process() -> None:
    """Flower signs messages with an identity of the process, which its engines set and nobody else does."""
    if TaskIdentity._run_id is None:
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1


@contextmanager
def in_process(client_app: ClientApp, nodes: int) -> Iterator[Grid]:
    """An `InProcessGrid` as a context, like a simulation session."""
    yield InProcessGrid(client_app, nodes)
