"""Where the server is trusted to noise what clients entrust to it: what it lets out, with a client and without it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from dpforest.ledger import Entry, Ledger
from dpforest.mechanisms import witnessed
from strategies.audit.conversation import AUDITED
from strategies.audit.repetition import Repetition
from strategies.audit.subject import Subject
from strategies.audit.witness import Diverged, Draw, Recorder, Replayer
from strategies.method import Arrays, ClientUpdate, ServerSide

NAME = "a client whose update is far beyond the clip"
_FAR = 50.0  # of every weight, in each round


class ServerView:
    """What a trusted server releases about one client, which sends the same far-off update in every round, or nothing.

    All other clients send the model as it is, which adds nothing.

    Parameters
    ----------
    subject : Subject
    """

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        side = self._side((1 << 20,))
        self.entries: list[Entry] = list(side.planned())
        self.ledger: Ledger = subject.blank_ledger()
        for entry in self.entries:
            self.ledger.charge(entry)
        self.sends = self.draws = True

    def repeat(self, inside: bool, number: int, halved: bool, checked: bool) -> Repetition:
        """One repetition; see `ClientView.repeat`."""
        subject, key = self._subject, (int(inside), int(halved), number)
        live = self._side(key)
        copies = self._side(key), self._side(key)
        values: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
        draws: list[Draw] = []
        fields: dict[str, np.ndarray] = {}
        models: list[Arrays] = [live.initial_arrays()] * 3
        for exchange in itertools.count(1):
            chosen = live.participants(exchange, list(range(subject.task.clients)))
            recorder = Recorder(_NoNoise, halved, group=exchange)  # type: ignore[arg-type]
            present = [client for client in chosen if inside or client != AUDITED]
            with witnessed(recorder):
                models[2] = live.aggregate(exchange, self._updates(present, models[2])) or models[2]
            fields |= {f"model {exchange}, {name}": np.asarray(value) for name, value in models[2].items()}
            draws += recorder.draws
            for with_it, copy in enumerate(copies):
                there = sorted({*chosen, AUDITED}) if with_it else [client for client in chosen if client != AUDITED]
                replayer = Replayer(recorder.draws)
                try:
                    with witnessed(replayer):
                        models[with_it] = (
                            copy.aggregate(exchange, self._updates(there, models[with_it])) or models[with_it]
                        )
                except Diverged as error:
                    return Repetition(fields, draws, None, (str(error),))
                values[with_it].extend(replayer.values)
            if exchange == live.exchanges or live.finished:
                break
        different = tuple(
            f"{name} of the model, which does not follow from what was noised"
            for name in models[0].keys() | models[1].keys()
            if checked and not np.array_equal(models[0].get(name, ()), models[1].get(name, ()))
        )
        return Repetition(fields, draws, values, different)

    def _side(self, key: tuple[int, ...]) -> ServerSide[Any]:
        task = self._subject.server_task
        state = np.random.SeedSequence(self._subject.seed, spawn_key=key).generate_state(1)[0]
        return self._subject.method.server(replace(task, seed=int(state)))

    def _updates(self, clients: list[int], model: Arrays) -> list[ClientUpdate]:
        far = {name: np.asarray(value) + _FAR for name, value in model.items()}
        noise = self._subject.noise
        return [ClientUpdate(_copied(far if client == AUDITED else model), {}, client, noise) for client in clients]


class _NoNoise:
    """There are no other parties."""


def _copied(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: np.array(value) for name, value in arrays.items()}
