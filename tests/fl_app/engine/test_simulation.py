"""The simulation's grid, which sends a few messages at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from types import SimpleNamespace

import pytest
from flwr.app import ConfigRecord, Message, MessageType, RecordDict
from flwr.clientapp import ClientApp
from flwr.superlink.grid import InMemoryGrid

from fl_app.engine.in_process import InProcessGrid
from fl_app.engine.simulation import SimulationFailed, SimulationSession, WindowedGrid
from fl_app.jobs.engine import WarmEngine
from fl_app.jobs.settings import EngineSettings


class State:
    """Asks for the messages of one node after another, as the engine does."""

    def __init__(self) -> None:
        self.waiting: list[tuple[int, Message]] = []
        self.looks = 0

    def get_message_ins(self, node_id: int, limit: int | None, *, run_id: int | None = None) -> list[Message]:
        self.looks += 1
        found = [message for node, message in self.waiting if node == node_id][:limit]
        self.waiting = [(node, message) for node, message in self.waiting if message not in found]
        return found


class Engine(InMemoryGrid):
    """Answers half of what is under way at each look, and never what goes to one node."""

    def __init__(self, silent: int = -1) -> None:
        InProcessGrid(lambda message, context: message, 0)  # gives this process an identity
        self.state = State()  # type: ignore[assignment]
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
    replies = list(WindowedGrid(grid).send_and_receive(messages(nodes), timeout=60))
    assert sorted(reply.metadata.src_node_id for reply in replies) == list(range(1, nodes + 1))
    assert grid.most <= 64


def test_the_time_of_an_exchange_ends_though_a_node_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]  # time passes while the grid waits, however slow the machine is

    def wait(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr("fl_app.engine.simulation.time", SimpleNamespace(monotonic=lambda: now[0], sleep=wait))
    replies = list(WindowedGrid(Engine(silent=7)).send_and_receive(messages(200), timeout=0.5))
    assert {reply.metadata.src_node_id for reply in replies} == set(range(1, 201)) - {7}
    assert now[0] == pytest.approx(0.5, abs=0.02), "no longer than was asked, but for a look at most"


class Asked(Engine):
    """Answers what the engine has taken out of the state, going through all nodes at each look."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: set[str] = set()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        pushed = super().push_messages(messages)
        self.state.waiting += [(int(i), self.under_way[i]) for i in pushed]  # type: ignore[attr-defined]
        return pushed

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        for node in range(1, 1001):
            self.taken |= {str(m.metadata.dst_node_id) for m in self.state.get_message_ins(node, 1)}
        return super().pull_messages(self.taken & set(message_ids))


def test_the_engine_looks_for_messages_once_a_message_and_not_at_idle_nodes() -> None:
    grid = Asked()
    assert len(list(WindowedGrid(grid).send_and_receive(messages(200), timeout=60))) == 200
    assert grid.state.looks == 200  # type: ignore[attr-defined]
    # Between exchanges everything is the engine's own again.
    grid.push_messages(messages(1))
    assert len(grid.state.get_message_ins(1, 1)) == 1


def start(address: str | None = None) -> None:
    with SimulationSession(ClientApp(), 2, address):
        pytest.fail("there is no engine")


def test_an_engine_that_does_not_start_in_time_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()
    monkeypatch.setattr("flwr.simulation.run_simulation", lambda **settings: ended.wait(300))
    monkeypatch.setattr("fl_app.engine.simulation.START", 0.1)
    try:
        with pytest.raises(
            SimulationFailed, match=r"\(nothing for 0.1 s\): end other Ray programs .* engine.kind=in_process"
        ):
            start()
        with pytest.raises(SimulationFailed, match=r"whether the Ray cluster at 192.0.2.1:6379 is there"):
            start("192.0.2.1:6379")
    finally:
        ended.set()


def test_why_an_engine_does_not_start_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**settings: object) -> None:
        raise RuntimeError("no room in\n/dev/shm")

    monkeypatch.setattr("flwr.simulation.run_simulation", fail)
    with pytest.raises(SimulationFailed, match=r"did not start \(no room in /dev/shm\): end other"):
        start()


def test_a_sweep_waits_once_for_an_engine_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = []

    def fail(**settings: object) -> None:
        tries.append(settings)
        raise RuntimeError("no room")

    monkeypatch.setattr("flwr.simulation.run_simulation", fail)
    engine = WarmEngine()
    for _ in range(3):
        with pytest.raises(SimulationFailed, match="no room"):
            engine.grid(EngineSettings(), 2)
    assert len(tries) == 1
