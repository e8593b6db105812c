"""The simulation's grid, which sends a few messages at a time."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace

import pytest
from flwr.app import ConfigRecord, Message, MessageType, RecordDict
from flwr.superlink.grid import InMemoryGrid

from fl_app.grids import InProcessGrid
from fl_app.session import WindowedGrid


class Engine(WindowedGrid):
    """Answers half of what is under way at each look, and never what goes to one node."""

    def __init__(self, silent: int = -1) -> None:
        super().__init__(InMemoryGrid.__new__(InMemoryGrid))
        InProcessGrid(lambda message, context: message, 0)  # gives this process an identity
        self.under_way: dict[str, Message] = {}
        self.silent = silent
        self.most = 0

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        pushed = {str(message.metadata.dst_node_id): message for message in messages}
        for number, message in pushed.items():
            message.metadata.__dict__["_message_id"] = number
        self.under_way |= pushed
        self.most = max(self.most, len(self.under_way))
        return list(pushed)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        answered = [i for i in sorted(message_ids) if i != str(self.silent)]
        taken = answered[: (len(answered) + 1) // 2]
        return [Message(RecordDict(), reply_to=self.under_way.pop(i)) for i in taken]


def messages(nodes: int) -> list[Message]:
    return [Message(RecordDict({"c": ConfigRecord()}), node, MessageType.TRAIN) for node in range(1, nodes + 1)]


@pytest.mark.parametrize("nodes", [65, 500])
def test_all_are_answered_with_few_under_way(nodes: int) -> None:
    grid = Engine()
    replies = list(grid.send_and_receive(messages(nodes), timeout=60))
    assert sorted(reply.metadata.src_node_id for reply in replies) == list(range(1, nodes + 1))
    assert grid.most <= 64


def test_the_time_of_an_exchange_ends_though_a_node_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]  # time passes while the grid waits, however slow the machine is

    def wait(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr("fl_app.session.time", SimpleNamespace(monotonic=lambda: now[0], sleep=wait))
    replies = list(Engine(silent=7).send_and_receive(messages(200), timeout=0.5))
    assert {reply.metadata.src_node_id for reply in replies} == set(range(1, 201)) - {7}
    assert now[0] == pytest.approx(0.5, abs=0.02), "no longer than was asked, but for a look at most"
