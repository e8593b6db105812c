"""What travels in an exchange, measured."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord
from flwr.serverapp import Grid

from strategies.flower_compat import is_deployed

_SHORTEST, _LONGEST = 0.05, 0.5  # seconds between two questions for replies


@dataclass
class Traffic:
    """Bytes and seconds of one exchange, as the records of the real messages count them."""

    down: int = 0
    up: int = 0
    seconds: float = 0.0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.down + other.down, self.up + other.up, self.seconds + other.seconds)


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
        replies = send_and_receive(self.grid, outgoing, timeout) if outgoing else []
        total.seconds = time.perf_counter() - start
        for reply in replies:
            # A model that a simulation shows with the evaluation is for the researcher and would not travel.
            shows = not is_deployed(self.grid) and reply.metadata.message_type.startswith(MessageType.EVALUATE)
            size = _size(reply, without=ArrayRecord if shows else ())
            total.up += size
            self.by_node.setdefault(reply.metadata.src_node_id, Traffic()).up += size
        return replies, total


def send_and_receive(grid: Grid, messages: list[Message], timeout: float) -> list[Message]:
    """As the grid does it; but where it would sleep for 3 s until it asks real nodes again, ask more often."""
    if not is_deployed(grid):
        return list(grid.send_and_receive(messages, timeout=timeout))
    end, wait = time.monotonic() + timeout, _SHORTEST
    waiting = {number for number in grid.push_messages(messages) if number is not None}
    replies: list[Message] = []
    while True:
        come = list(grid.pull_messages(waiting))
        replies += come
        waiting -= {reply.metadata.reply_to_message_id for reply in come}
        if not waiting or time.monotonic() > end:
            return replies
        time.sleep(wait)
        wait = _SHORTEST if come else min(_LONGEST, 1.2 * wait)


def _size(message: Message, without: type | tuple[type, ...] = ()) -> int:
    if not message.has_content():
        return 0
    return sum(_bytes(record) for record in message.content.values() if not isinstance(record, without))


def _bytes(record: ArrayRecord | MetricRecord | ConfigRecord) -> int:
    """As Flower counts them; for settings it raises where a text or a list is empty, and anybody may send one."""
    if not isinstance(record, ConfigRecord):
        return record.count_bytes()
    return sum(len(key) + _setting_bytes(value) for key, value in record.items())


def _setting_bytes(value: Any) -> int:
    if isinstance(value, list):
        return sum(map(_setting_bytes, value))
    if isinstance(value, str | bytes):
        return len(value)
    return 1 if isinstance(value, bool) else 8
