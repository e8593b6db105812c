"""Runs as one client sees them, and its answers again with other rows."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from flwr.app import RecordDict

from dpforest.errors import BudgetExceeded, DPForestError
from dpforest.ledger import Ledger
from dpforest.mechanisms import witnessed
from strategies.audit.repetition import Fields
from strategies.audit.subject import Rows, Subject
from strategies.audit.witness import Diverged, Draw, Randomness, Recorder, Replayer, Samples
from strategies.method import Arrays, ClientTask, ClientUpdate, Update

AUDITED = 0  # the client that is watched
NOT_OURS = (
    "clients entrust the server with what no mechanism has noised yet, and of such servers only those that average "
    "whole clients' models are audited (dpforest.audit.audit_estimator takes a released model)"
)
_TRANSCRIPT = (1 << 20,)


@dataclass(frozen=True)
class Sent:
    """A message to the client."""

    round: int
    config: Mapping[str, Any]
    arrays: Arrays


@dataclass
class Conversation:
    """One run as the client saw it; of a secure sum, from its first release on.

    Parameters
    ----------
    ledger : Ledger
        Of the client, before the first message.
    messages : list of Sent
    state : RecordDict
        What the client had kept at that time.
    final : Ledger
        At the end.
    draws : list of Draw
        All releases.
    sends : bool
        Whether anything was sent at all.
    samples : mapping
        The samples of rows that were drawn, by purpose and round.
    key : tuple of int
        Of its randomness.
    """

    ledger: Ledger
    messages: list[Sent] = field(default_factory=list)
    state: RecordDict = field(default_factory=RecordDict)
    final: Ledger | None = None
    draws: list[Draw] = field(default_factory=list)
    sends: bool = False
    samples: Samples = field(default_factory=dict)
    key: tuple[int, ...] = _TRANSCRIPT


class Conversations:
    """Runs of a subject, and what its client answers to the messages of one.

    Parameters
    ----------
    subject : Subject
    """

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._claims = subject.claims  # for which a server is made, once and not in each repetition

    def answers(self, run: Conversation, rows: Rows, randomness: Randomness, witness: Recorder | Replayer) -> Fields:
        """What the client answers to the messages of a run with such rows."""
        state, ledger = copy.deepcopy(run.state) if len(run.state) else RecordDict(), run.ledger.copy()
        fields: dict[str, np.ndarray] = {}
        several = len(run.messages) > 1
        for sent in run.messages:
            task = self._task(AUDITED, sent.round, ledger, state, sent.config, randomness)
            try:
                with witnessed(witness):
                    update = self._subject.method.client().train(task, *rows, sent.arrays)
            except (BudgetExceeded, Diverged):
                raise
            except DPForestError:
                fields[f"error of message {sent.round}"] = np.ones(1)
                break
            prefix = f"message {sent.round}, " if several else ""
            fields |= {f"{prefix}{name}": np.asarray(value) for name, value in _sent(update).items()}
        return fields

    def hold(
        self, rows: Rows, forced: list[Draw] | None = None, halved: bool = False, key: tuple[int, ...] = _TRANSCRIPT
    ) -> Conversation:
        """A whole run, with all clients and the server.

        Parameters
        ----------
        rows : (X, y)
            Of the client that is watched.
        forced : list of Draw, optional
            What its mechanisms let through; they draw themselves if left out.
        halved : bool
            They draw half the noise.
        key : tuple of int
            Of its randomness.

        Raises
        ------
        DPForestError
            The method cannot run on such rows.
        """
        subject = self._subject
        run = Conversation(ledger=subject.blank_ledger())
        first: tuple[int, RecordDict, Ledger] | None = None
        side = subject.method.server(subject.server_task)
        blank = subject.blank_ledger()
        blank.require(side.planned())
        states = [RecordDict() for _ in range(subject.task.clients)]
        ledgers = [subject.blank_ledger() for _ in states]
        randomness = self.randomness(key)
        # Noise of other clients is the same with the record and without it, or what the server makes of it differs.
        of_others = replace(randomness, secure=False)
        recorder: Recorder | Replayer = Recorder(randomness.others(), halved) if forced is None else Replayer(forced)
        released = recorder.draws if isinstance(recorder, Recorder) else recorder.values
        arrays: Arrays = side.initial_arrays()
        for number in itertools.count(1):
            updates = []
            for client in side.participants(number, list(range(len(states)))):
                own = side.arrays_for(number, client)
                config = {"run": "audit", "clients": len(states), **side.config(number, client), "round": number}
                sent = Sent(number, config, arrays if own is None else dict(own))
                own_noise = randomness if client == AUDITED else of_others
                task = self._task(client, number, ledgers[client], states[client], config, own_noise)
                if client != AUDITED:
                    X, y = subject.rows_of(client)
                    update = subject.method.client().train(task, X, y, sent.arrays)
                else:
                    before = copy.deepcopy(states[client]), ledgers[client].copy(), len(released)
                    with witnessed(recorder):
                        update = subject.method.client().train(task, *rows, sent.arrays)
                    run.sends |= bool(update.arrays or update.metrics)
                    if first is None and len(released) > before[2]:
                        first = len(run.messages), *before[:2]
                    run.messages.append(sent)
                answer = ClientUpdate(update.arrays, update.metrics, client, subject.noise)
                side.check(answer)
                updates.append(answer)
            model = side.aggregate(number, updates)
            arrays = arrays if model is None else model
            if number == side.exchanges or side.finished:
                break
        run.final = ledgers[AUDITED]
        if self._claims and not released and any(entry.protected for entry in run.final.entries):
            raise DPForestError(NOT_OURS)
        run.draws = recorder.draws if isinstance(recorder, Recorder) else list(forced or [])
        if first is not None and is_shared(run.draws):
            # The keys that are agreed on before are fresh in each run, and the messages behind are about these.
            run.messages, run.state, run.ledger = run.messages[first[0] :], *first[1:]
        run.samples, run.key = randomness.samples, key
        return run

    def _task(
        self, client: int, round_: int, ledger: Ledger, state: RecordDict, config: Mapping[str, Any], own: Randomness
    ) -> ClientTask[Any]:
        return ClientTask.of(
            self._subject.task,
            client=client,
            round=round_,
            ledger=ledger,
            noise=own.noise(client, round_),
            rng=own.rng(client, round_),
            state=state,
            config=config,
            simulated=False,
        )

    def randomness(self, key: tuple[int, ...], known: Samples | None = None) -> Randomness:
        """Of one repetition, with the samples of an earlier one if it repeats that."""
        # What no proof needs to be secret may be fixed; who proves nothing may draw its noise from there.
        public = () if self._claims else key
        return Randomness(key, self._subject.seed, self._subject.noise == "secure", public, known)


def _sent(update: Update) -> dict[str, Any]:
    return {**update.arrays, **update.metrics}


def is_shared(draws: list[Draw]) -> bool:
    """Whether a server sees sums over clients alone."""
    return any(getattr(draw.mechanism, "shares", 1) > 1 for draw in draws)
