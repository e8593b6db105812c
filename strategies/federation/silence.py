"""Nodes that let an exchange pass: they are waited for once, and then again when they say that they are back."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

from flwr.serverapp import Grid

from strategies.federation.roster import introduction

log = logging.getLogger(__name__)
_GRACE = 1.0  # seconds that a node has to say it, once, after an exchange that it let pass


class Silent:
    """Who has not answered in time, and has not answered a short question since.

    A node that is gone stays connected in Flower's eyes for a minute, and one that hangs for good.

    Parameters
    ----------
    grid : Grid
    """

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._questions: dict[int, str | None] = {}  # of each silent node, what it was asked last
        self._new = False

    def add(self, nodes: Iterable[int]) -> None:
        """Count nodes among the silent, and ask them whether they are there."""
        for node in nodes:
            self._ask(node)
            self._new = True

    def __contains__(self, node: int) -> bool:
        return node in self._questions

    def nodes(self) -> set[int]:
        """Who is silent still; never waits, but for a moment where that is new."""
        end = time.monotonic() + (_GRACE if self._new else 0)
        self._new = False
        while True:
            self._hear()
            if not self._questions or time.monotonic() >= end:
                return set(self._questions)
            time.sleep(0.1)

    def _ask(self, node: int) -> None:
        pushed = [number for number in self._grid.push_messages([introduction(node)]) if number is not None]
        self._questions[node] = pushed[0] if pushed else None

    def _hear(self) -> None:
        asked = {number: node for node, number in self._questions.items() if number is not None}
        for reply in self._grid.pull_messages(asked) if asked else []:
            node = asked.get(reply.metadata.reply_to_message_id)
            if node is None:
                continue
            if reply.has_error():  # Flower's, for a node that is gone
                self._questions[node] = None
            else:
                log.info("node %d is back", node)
                del self._questions[node]
        there = set(self._grid.get_node_ids()) if None in self._questions.values() else set()
        for node in [node for node, number in self._questions.items() if number is None and node in there]:
            self._ask(node)
