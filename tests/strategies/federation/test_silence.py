"""A node that is gone is waited for once; one that is back takes part again from the next exchange on."""

from __future__ import annotations

from collections.abc import Iterable

from flwr.app import Context, Message, MessageType
from hand_made import make

from fl_app.client_app import app
from fl_app.engine.in_process import InProcessGrid
from fl_app.engine.run import run_experiment

BOOST = {"name": "boost", "depth": 2, "trees_per_round": 2, "linear_share": 0}
WATCH = {"name": "watch"}


class _Patient(InProcessGrid):
    """Counts the exchanges that wait in vain, and keeps a node silent for some training messages of its own."""

    def __init__(self, nodes: int, silent: int, gone_for: range, answers_questions: bool) -> None:
        self.vain, self._asked, self._silent = 0, 0, silent
        self._gone_for, self._answers = gone_for, answers_questions
        super().__init__(self._play, nodes)  # type: ignore[arg-type]

    def _play(self, message: Message, context: Context) -> Message:
        if message.metadata.dst_node_id == self._silent:
            if message.metadata.message_type == MessageType.TRAIN:
                self._asked += 1
                if self._asked in self._gone_for:
                    raise TimeoutError
            elif self._asked and message.metadata.message_type == MessageType.QUERY and not self._answers:
                raise TimeoutError
        return app(message, context)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        sent = list(messages)
        replies = list(super().send_and_receive(sent, timeout=timeout))
        self.vain += len(replies) < len(sent)
        return replies


def _run(grid: _Patient) -> list[tuple[int, str]]:
    experiment = make(
        WATCH, strategy=BOOST, privacy={"epsilon": 5.0, "delta": 1e-6}, rounds=5, evaluation={"split": "time"}
    )
    done = run_experiment(experiment, grid)
    return [(failure.round, failure.reason) for failure in done.failures if failure.training]


def test_a_node_that_is_gone_is_waited_for_once() -> None:
    grid = _Patient(10, 1003, range(2, 100), answers_questions=False)
    failures = _run(grid)
    assert grid.vain == 1
    assert failures[0] == (2, "no answer in time")
    assert {reason for _, reason in failures[1:]} == {"silent since it gave no answer in time"}
    assert [round_ for round_, _ in failures] == list(range(2, 7))


def test_a_node_that_is_back_takes_part_from_the_next_exchange_on() -> None:
    grid = _Patient(10, 1003, range(2, 3), answers_questions=True)
    assert _run(grid) == [(2, "no answer in time")]
