"""Who hears that it is simulated: only a node that a simulation has started."""

from __future__ import annotations

import copy
import pickle

import cloudpickle
import pytest
from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.common.serde import context_from_proto, context_to_proto

from fl_app.client_app import app
from fl_app.engine.in_process import InProcessGrid
from strategies.flower_compat import SimulatedContext, is_simulated
from strategies.node.app import NodeApp


@pytest.fixture(autouse=True)
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Context]:
    """The contexts that an app's answers are made in."""
    InProcessGrid(app, 1)
    contexts: list[Context] = []

    def watch(message: Message, context: Context) -> Message:
        contexts.append(context)
        return Message(RecordDict(), reply_to=message)

    monkeypatch.setattr("strategies.node.app.introduce", watch)
    return contexts


def ask(node_app: NodeApp, context: Context) -> None:
    content = RecordDict({"config": ConfigRecord({"simulated": True, "in-process": True})})
    node_app(Message(content, 1, MessageType.QUERY), context)


def plain() -> Context:
    return Context(1, 1, {"partition-id": 0, "num-partitions": 2}, RecordDict(), {})


def test_an_app_that_a_process_has_loaded_plays_a_real_node(seen: list[Context]) -> None:
    loaded = NodeApp(app.host)
    for each in (loaded, copy.copy(loaded), copy.deepcopy(loaded)):
        ask(each, plain())
    assert not any(map(is_simulated, seen))
    assert len(seen) == 3


def test_an_app_that_an_engine_has_shipped_plays_a_simulated_node(seen: list[Context]) -> None:
    def load() -> NodeApp:  # as Flower's engine sends it to its actors
        return app

    for shipped in (pickle.loads(pickle.dumps(app)), cloudpickle.loads(cloudpickle.dumps(load))()):
        context = plain()
        ask(shipped, context)
        assert is_simulated(seen[-1])
        seen[-1].state["kept"] = ConfigRecord({"a": 1})
        assert "kept" in context.state, "what a node keeps is what the engine keeps"


def test_the_mark_of_a_context_does_not_travel() -> None:
    assert not is_simulated(context_from_proto(context_to_proto(SimulatedContext.of(plain()))))
