"""Everything that leans on Flower's insides, each with the reason and with what would break it.

Pinned to one minor version of Flower; an upgrade begins here, and in `connection`, which is apart because Flower's HTTP
client is slow to import. What later versions are known to change: 1.43 to 1.45 drop gRPC from two more of their
interfaces, which touches nothing here, since a `connection.Connection` and Flower's grids speak HTTP already; and their
``Strategy.start`` has an argument ``should_stop``, which `strategies.federation.strategy.MethodStrategy.start` then has
to take, and to ask before each exchange.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.constant import SUPERLINK_NODE_ID as SUPERLINK_NODE_ID  # whose error says that some node is gone

if TYPE_CHECKING:
    from flwr.server.superlink.linkstate import LinkState
    from flwr.serverapp import Grid


class SimulatedContext(Context):
    """The context of a simulated node: who starts a simulation marks what it hands to its nodes.

    No message makes one: what a SuperNode reads from the wire is a plain `Context`.
    """

    @classmethod
    def of(cls, context: Context) -> SimulatedContext:
        """The same context, sharing its state, with the mark."""
        return cls(
            context.run_id, context.node_id, context.node_config, context.state, context.run_config, context.series_id
        )


def is_simulated(context: Context) -> bool:
    """Whether a node is played by a simulation, whose researcher has all rows anyway.

    Decided by who started the node and never by a message: a real node always draws secure noise.
    """
    return isinstance(context, SimulatedContext)


class ShippedClientApp(ClientApp):
    """A ClientApp that knows when a simulation plays it.

    Reason: `flwr run` starts a simulation by itself, and tells the nodes nothing of it. But its engine loads the app
    once and ships the object to its actors by pickle, as `run_simulation` does with the one it is given; a SuperNode
    loads the app by its name in each process, and no pickle crosses the wire. So a shipped app is a simulated one.

    Breaks if: an engine loads the app by name in its actors (they would count as real nodes, which is safe: seeded
    noise is refused and metrics are kept), or somebody's executor of real nodes ships apps by pickle between its
    processes, which must not be done.
    """

    def __init__(self, simulated: bool = False) -> None:
        super().__init__()
        self._simulated = simulated

    def simulated(self) -> ShippedClientApp:
        """The app as simulated nodes run it."""
        raise NotImplementedError

    def __call__(self, message: Message, context: Context) -> Message:
        return super().__call__(message, SimulatedContext.of(context) if self._simulated else context)

    def __reduce__(self) -> tuple[Callable[..., ClientApp], tuple[Any, ...]]:
        raise NotImplementedError

    def __copy__(self) -> ShippedClientApp:
        return self  # a copy is not shipped

    def __deepcopy__(self, memo: dict[int, Any]) -> ShippedClientApp:
        return self


def is_deployed(grid: Grid) -> bool:
    """Whether messages go to real nodes: only simulations share memory with their server.

    Reason: a server that real nodes answer must draw what stays secret cryptographically. Flower's engine gives its
    ServerApp an `InMemoryGrid`; grids of our own say ``simulates``. Breaks if the engine gives another grid: then a
    simulation counts as deployed, which is safe.
    """
    if getattr(grid, "simulates", False):
        return False
    from flwr.superlink.grid import InMemoryGrid  # of the server only, and slow to import

    return not isinstance(grid, InMemoryGrid)


def identify_message(message: Message, message_id: str) -> None:
    """Give a message an id, as Flower's engines do before they deliver it; the class offers no other way."""
    message.metadata.__dict__["_message_id"] = message_id


def identify_sender(reply: Message, node: int) -> None:
    """Say who a reply is from, as Flower's engines do; the class offers no other way."""
    reply.metadata.__dict__["_src_node_id"] = node


def identify_this_process() -> None:
    """Flower signs messages with an identity of the process, which its engines set and nobody else does.

    Breaks if the identity moves: no message can be made outside of Flower's engines then.
    """
    from flwr.supercore.task_identity import TaskIdentity

    if TaskIdentity._run_id is None:
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1


@contextmanager
def only_addressed_nodes(state: LinkState) -> Iterator[set[int]]:
    """Let the engine look for messages to the nodes of a set only; it then gets all of a node's messages at once.

    Add a node after its messages are in the state: the engine's thread takes it out before it looks.

    Reason: the engine looks through all messages under way for every node, again and again until all are answered; with
    a thousand that takes most of an exchange. Breaks if the engine asks by another method: then it is slow again.
    """
    addressed: set[int] = set()
    look = state.get_message_ins

    def get_message_ins(node_id: int, limit: int | None, *, run_id: int | None = None) -> list[Message]:
        if node_id not in addressed:
            return []
        addressed.discard(node_id)
        # More than the one that the engine asks for: it would have to look again to learn that there are no others.
        return look(node_id, None, run_id=run_id)

    state.get_message_ins = get_message_ins  # type: ignore[method-assign]
    try:
        yield addressed
    finally:
        state.get_message_ins = look  # type: ignore[method-assign]


def identify_run(run: int, node: int) -> None:
    """Say whose messages this process makes; see `identify_this_process`."""
    from flwr.supercore.task_identity import TaskIdentity

    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = run, node, 1


def state_to_bytes(state: RecordDict) -> bytes:
    """A node's state of a run, for a file of its own; a `RecordDict` offers no other whole form."""
    from flwr.common.serde import recorddict_to_proto

    return recorddict_to_proto(state).SerializeToString()


def state_from_bytes(data: bytes) -> RecordDict:
    """What `state_to_bytes` made; raises an exception of any kind where it is damaged."""
    from flwr.common.serde import recorddict_from_proto
    from flwr.proto.recorddict_pb2 import RecordDict as ProtoRecordDict

    return recorddict_from_proto(ProtoRecordDict.FromString(data))
