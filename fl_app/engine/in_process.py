"""A grid that needs no simulation: the nodes answer in this process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from flwr.app import Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.constant import ErrorCode
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid

from fl_app.data.cache import steady_files
from strategies.flower_compat import SimulatedContext, identify_message, identify_sender, identify_this_process


class InProcessGrid(Grid):
    """Runs the ClientApp of every node in this process, one after another, without Ray.

    For tests and for small experiments: same numbers as a simulation, no start-up.

    Parameters
    ----------
    client_app : ClientApp
    nodes : int
        Number of nodes; node ``i`` has ``partition-id`` i.
    """

    simulates = True

    def __init__(self, client_app: ClientApp, nodes: int) -> None:
        identify_this_process()
        self._client_app = client_app
        self._contexts = {
            1000 + i: SimulatedContext(
                run_id=1,
                node_id=1000 + i,
                node_config={"partition-id": i, "num-partitions": nodes},
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
        with steady_files():
            return self._answer(messages)

    def _answer(self, messages: Iterable[Message]) -> list[str]:
        ids = []
        for message in messages:
            self._counter += 1
            message_id = str(self._counter)
            identify_message(message, message_id)
            try:
                reply = self._client_app(message, self._contexts[message.metadata.dst_node_id])
            except TimeoutError:
                continue  # a test's way to make a node fall silent
            except Exception as error:  # Flower's engines answer for a ClientApp that breaks
                reply = Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, repr(error)), reply_to=message)
            identify_sender(reply, message.metadata.dst_node_id)
            self._replies[message_id] = reply
            ids.append(message_id)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Replies to those messages."""
        return [self._replies.pop(i) for i in message_ids if i in self._replies]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Answer all messages."""
        return self.pull_messages(self.push_messages(messages))


@contextmanager
def in_process(client_app: ClientApp, nodes: int) -> Iterator[Grid]:
    """An `InProcessGrid` as a context, like a simulation session."""
    yield InProcessGrid(client_app, nodes)
