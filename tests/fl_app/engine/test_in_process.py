"""Counting what travels, and the in-process grid."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from hand_made import CLIENTS, Interfering, make, run, with_content, write_table

from dpforest.errors import DPForestError
from fl_app.client_app import app as client_app
from fl_app.engine.in_process import InProcessGrid
from strategies.federation.roster import wait_for_nodes
from strategies.federation.traffic import Meter


def test_the_meter_counts_bytes_of_all_records() -> None:
    reply = RecordDict({"arrays": ArrayRecord({"w": Array(np.zeros(500, np.float64))}), "m": MetricRecord({"x": 1.0})})
    grid = InProcessGrid(Interfering({0: with_content(reply)}), 3)  # type: ignore[arg-type]
    meter = Meter(grid)
    sent = ConfigRecord({"text": "x" * 1000})
    messages = [Message(RecordDict({"config": sent}), node, MessageType.TRAIN) for node in (1000, 1001)]
    replies, total = meter.exchange(messages, 1)
    assert len(replies) == 2
    size = reply["arrays"].count_bytes() + reply["m"].count_bytes()  # type: ignore[union-attr]
    assert 4000 < size < 5000
    assert size == meter.by_node[1000].up
    assert total.down == 2 * sent.count_bytes()
    assert 1000 < sent.count_bytes() < 1200
    assert total.up == meter.by_node[1000].up + meter.by_node[1001].up
    assert 1002 not in meter.by_node
    again, _ = meter.exchange(messages[:1], 1)
    assert meter.by_node[1000].down == 2 * sent.count_bytes()
    assert len(again) == 1
    nothing, total = meter.exchange([], 1)
    assert nothing == []
    assert (total.down, total.up) == (0, 0)


def test_bytes_of_a_run_are_those_of_its_clients(tmp_path: Path) -> None:
    done = run(make(write_table(tmp_path)))
    (row,) = done.rounds
    assert done.metrics["bytes_up"] == row["bytes_up"]
    assert done.metrics["bytes_down"] == row["bytes_down"]
    assert sum(c["bytes_down"] for c in done.clients) == row["bytes_down"] + row["evaluation_bytes_down"]
    trees = done.side.forest.n_nodes * 2  # type: ignore[attr-defined]
    assert row["bytes_up"] > trees


def test_waiting_for_nodes_ends() -> None:
    assert wait_for_nodes(InProcessGrid(client_app, 3), 2, 0.0) == [1000, 1001, 1002]
    assert wait_for_nodes(InProcessGrid(client_app, 3), 9, 0.0) == [1000, 1001, 1002]
    with pytest.raises(DPForestError, match="no node connected within 0 s"):
        wait_for_nodes(InProcessGrid(client_app, 0), 1, 0.0)


def test_a_client_that_breaks_is_answered_for_as_in_a_simulation() -> None:
    def broken(message: Message, context: object) -> Message:
        raise RuntimeError("no power")

    grid = InProcessGrid(broken, CLIENTS)  # type: ignore[arg-type]
    (reply,) = grid.send_and_receive([Message(RecordDict(), 1001, MessageType.TRAIN)])
    assert reply.has_error()
    assert "no power" in reply.error.reason
    assert reply.metadata.src_node_id == 1001
