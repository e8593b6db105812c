"""Waiting for real nodes: replies are taken as they come, and nobody is waited for beyond the time."""

from __future__ import annotations

import time
from collections.abc import Iterable

from flwr.app import ConfigRecord, Message, MessageType, RecordDict
from flwr.serverapp import Grid

from strategies.federation.traffic import Meter
from strategies.flower_compat import identify_message, identify_this_process


class _Remote(Grid):
    """A grid over a network whose nodes answer when they are asked for the second time, but for one."""

    run = set_run = create_message = get_node_ids = get_nodes = send_and_receive = None  # type: ignore[assignment]

    def __init__(self, silent: int | None = None, unsendable: int | None = None) -> None:
        self._silent, self._unsendable = silent, unsendable
        self._waiting: dict[str, Message] = {}
        self._asked = 0

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        ids: list[str] = []
        for message in messages:
            node = message.metadata.dst_node_id
            identify_message(message, str(node))
            self._waiting[str(node)] = message
            ids.append(None if node == self._unsendable else str(node))  # type: ignore[arg-type]
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        self._asked += 1
        assert None not in set(message_ids)
        if self._asked < 2:
            return []
        there = [number for number in message_ids if number in self._waiting and number != str(self._silent)]
        return [Message(RecordDict(), reply_to=self._waiting.pop(number)) for number in there]


def _exchange(grid: Grid, timeout: float) -> tuple[int, float]:
    identify_this_process()
    content = RecordDict({"config": ConfigRecord({"x": 1})})
    messages = [Message(content, node, MessageType.QUERY) for node in (1, 2, 3)]
    start = time.monotonic()
    replies, _ = Meter(grid).exchange(messages, timeout)
    return len(replies), time.monotonic() - start


def test_all_answers_end_the_wait() -> None:
    assert _exchange(_Remote(), timeout=3600)[0] == 3


def test_a_silent_node_costs_the_time_and_not_the_others_answers() -> None:
    replies, seconds = _exchange(_Remote(silent=2), timeout=0.5)
    assert replies == 2
    assert seconds >= 0.5


def test_a_message_that_could_not_be_sent_is_not_waited_for() -> None:
    assert _exchange(_Remote(unsendable=3), timeout=3600)[0] == 2
