"""Who is there: which node plays which client, and waiting for them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from flwr.app import ConfigRecord, Message, MessageType, RecordDict
from flwr.serverapp import Grid

from dpforest.errors import DPForestError, one_line
from strategies.federation.traffic import send_and_receive
from strategies.messages import CONFIG, LONGEST, BadMessage, read_config

_NAMED = 10
_HUGE = 10**12
_STARTING = 5.0  # seconds in which the nodes of a simulation come up
log = logging.getLogger(__name__)


def wait_for_nodes(grid: Grid, wanted: int, timeout: float) -> list[int]:
    """Node ids once at least ``wanted`` are connected, or those there are when the time is up.

    Raises
    ------
    DPForestError
        No node connects in time.
    """
    start = time.monotonic()
    end, is_said = start + timeout, False
    while True:
        nodes = sorted(grid.get_node_ids())
        if len(nodes) >= wanted or (nodes and time.monotonic() > end):
            return nodes
        if time.monotonic() > end:
            raise DPForestError(f"no node connected within {timeout:g} s: start SuperNodes, or raise timeout")
        if not is_said and time.monotonic() > start + _STARTING:
            log.warning("waiting up to %g s for %d nodes, of which %d are connected", timeout, wanted, len(nodes))
            is_said = True
        time.sleep(0.1)


def wait_for(
    there_now: Callable[[], set[int]],
    nodes: Mapping[int, int],
    is_enough: Callable[[set[int]], bool],
    timeout: float,
) -> set[int]:
    """Which of the clients (by client: its node) are there, once they are enough or the time is up.

    The log says once who is waited for.
    """
    end = time.monotonic() + timeout
    is_said = False
    while True:
        there = there_now()
        connected = {client for client, node in nodes.items() if node in there}
        if is_enough(connected) or time.monotonic() > end:
            return connected
        if not is_said:
            away = sorted(set(nodes) - connected)
            named = ", ".join(map(str, away[:_NAMED])) + (f" and {len(away) - _NAMED} more" * (len(away) > _NAMED))
            log.warning("waiting up to %g s for clients that are not connected: %s", timeout, named)
            is_said = True
        time.sleep(0.1)


def introduction(node: int) -> Message:
    """The question which part a node plays; it answers at once and from its configuration alone."""
    return Message(RecordDict({CONFIG: ConfigRecord({"ask": "introduce"})}), node, MessageType.QUERY)


def roster(grid: Grid, nodes: list[int], timeout: float) -> dict[int, int]:
    """Which node plays which part: partition id to node id, as the nodes themselves say.

    Raises
    ------
    DPForestError
        No node says a number of its own.
    """
    messages = [introduction(node) for node in nodes]
    claims: dict[int, list[int]] = {}
    refusals: dict[str, None] = {}  # in order, each once
    for reply in send_and_receive(grid, messages, timeout):
        node = reply.metadata.src_node_id
        if reply.has_error():
            continue
        try:
            said = read_config(reply.content)
            number = said.get("partition-id")
        except BadMessage:
            continue
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            if "error" in said:
                refusals[one_line(str(said["error"]), LONGEST)] = None
            continue
        if number >= len(nodes):
            words = f"a node says partition-id {number:.0f}" if number < _HUGE else "a node says a huge partition-id"
            refusals[f"{words}, and {len(nodes)} nodes have 0 to {len(nodes) - 1}"] = None
            continue
        claims.setdefault(number, []).append(node)
    if nameless := len(nodes) - sum(map(len, claims.values())):
        why = f" ({'; '.join(refusals)})" if refusals else ""
        words = "%d of %d nodes gave no partition-id of use, or are gone: they take no part%s"
        log.warning(words, nameless, len(nodes), why)
    for number, claimants in claims.items():
        if len(claimants) > 1:
            log.warning("%d nodes say partition-id %d, so none plays it: give each its own", len(claimants), number)
    found = {number: claimants[0] for number, claimants in claims.items() if len(claimants) == 1}
    if not found:
        why = "; ".join(refusals) or "set partition-id in every node's configuration"
        raise DPForestError(f"no node introduced itself: {why}")
    return found
