"""A client's side, again and again on the messages of one run."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from flwr.app import RecordDict

from dpforest.errors import BudgetExceeded, DPForestError
from dpforest.ledger import Entry, Ledger
from dpforest.mechanisms import witnessed
from strategies.audit.repetition import Fields, Repetition, values_of
from strategies.audit.subject import Subject
from strategies.audit.witness import Diverged, Draw, Randomness, Recorder, Replayer
from strategies.audit.worlds import World
from strategies.method import Arrays, ClientTask, ClientUpdate, Update

AUDITED = 0  # the client that is watched
_TRANSCRIPT = (1 << 20,)
_SURE = 6  # repetitions with the same values, from which they are taken to be always the same
_MOST_KNOWN = 2000


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
    """

    ledger: Ledger
    messages: list[Sent] = field(default_factory=list)
    state: RecordDict = field(default_factory=RecordDict)
    final: Ledger | None = None
    draws: list[Draw] = field(default_factory=list)
    sends: bool = False


class KnownValues:
    """What goes into the mechanisms by what came out before: in many methods always the same, in others often."""

    def __init__(self) -> None:
        self._first: list[list[np.ndarray]] = []
        self._always = True
        self._known: dict[bytes, list[np.ndarray]] = {}

    def learn(self, draws: list[Draw], values: list[np.ndarray]) -> None:
        """Note the values of a repetition."""
        if len(self._first) < _SURE:
            self._first.append(values)
        self._always &= _equal(self._first[0], values)
        if not self._always and len(self._known) < _MOST_KNOWN:
            self._known[_before_last(draws)] = values

    def find(self, draws: list[Draw]) -> list[np.ndarray] | None:
        """The values of a repetition that has let through the same before its last release."""
        if self._always:
            return self._first[0] if len(self._first) == _SURE else None
        return self._known.get(_before_last(draws))


class ClientView:
    """What a server sees of one client with a record, and without it.

    Parameters
    ----------
    subject : Subject
    world : World

    Raises
    ------
    DPForestError
        The method cannot run on such rows.
    """

    def __init__(self, subject: Subject, world: World) -> None:
        self._subject, self._world = subject, world
        self._claims = subject.claims
        outside = self._converse(False, None)
        # With what was drawn without the record, so that all messages of the server are the same; but for keys.
        inside = self._converse(True, outside.draws)
        self._runs = outside, inside
        self._values = KnownValues(), KnownValues()

    @property
    def ledger(self) -> Ledger:
        """The client's at the end of the run."""
        final = self._runs[1].final
        assert final is not None
        return final

    @property
    def entries(self) -> list[Entry]:
        """Protected lines of the ledger."""
        return [entry for entry in self.ledger.entries if entry.protected]

    @property
    def sends(self) -> bool:
        """Whether the client sends anything."""
        return self._runs[1].sends

    @property
    def draws(self) -> bool:
        """Whether the client's own mechanisms stand before what it sends."""
        return bool(self._runs[1].draws)

    def repeat(self, inside: bool, number: int, halved: bool, checked: bool) -> Repetition:
        """One repetition.

        Parameters
        ----------
        inside : bool
            With the record.
        number : int
            Of the repetition.
        halved : bool
            With half the noise.
        checked : bool
            Compare the messages with those that the neighbour would have sent with the same draws.
        """
        randomness = self._randomness((int(inside), int(halved), number))
        recorder = Recorder(randomness.others(), halved)
        messages = self._answers(inside, randomness, recorder)
        draws = recorder.draws
        if _is_shared(draws):
            messages = {}  # under masks, whose keys are fresh in a run and the same here
        if not draws and not self._claims:
            return Repetition(messages)
        sampled = bool(randomness.samples) and any(randomness.samples.values())
        both: list[list[np.ndarray] | None] = [None, None]
        if not sampled:
            both[int(inside)] = values_of(draws)
        different: tuple[str, ...] = ()
        for side in (0, 1):
            if (own := both[side]) is not None:
                self._values[side].learn(draws, own)
                continue
            if not checked and not sampled and (known := self._values[side].find(draws)) is not None:
                both[side] = known
                continue
            again = self._randomness(randomness.key, randomness.samples)
            replayer = Replayer(draws)
            try:
                replayed = self._answers(bool(side), again, replayer)
            except Diverged as error:
                return Repetition(messages, draws, None, (str(error),))
            if len(replayer.values) != len(draws):
                return Repetition(messages, draws, None, ("fewer releases with one record more or less",))
            both[side] = replayer.values
            if not sampled:
                self._values[side].learn(draws, replayer.values)
            if checked and side != int(inside):
                different += _different(messages, replayed, draws)
        outside_values, inside_values = both
        assert outside_values is not None
        assert inside_values is not None
        return Repetition(messages, draws, (outside_values, inside_values), different)

    def _answers(self, inside: bool, randomness: Randomness, witness: Recorder | Replayer) -> Fields:
        run = self._runs[int(inside)]
        state, ledger = copy.deepcopy(run.state) if len(run.state) else RecordDict(), run.ledger.copy()
        fields: dict[str, np.ndarray] = {}
        several = len(run.messages) > 1
        for sent in run.messages:
            task = self._task(AUDITED, sent.round, ledger, state, sent.config, randomness)
            X, y = self._world.rows(inside)
            try:
                with witnessed(witness):
                    update = self._subject.method.client().train(task, X, y, sent.arrays)
            except (BudgetExceeded, Diverged):
                raise
            except DPForestError:
                fields[f"error of message {sent.round}"] = np.ones(1)
                break
            prefix = f"message {sent.round}, " if several else ""
            fields |= {f"{prefix}{name}": np.asarray(value) for name, value in _sent(update).items()}
        return fields

    def _converse(self, inside: bool, forced: list[Draw] | None) -> Conversation:
        """The whole run, with all clients and the server."""
        subject = self._subject
        run = Conversation(ledger=subject.blank_ledger())
        first: tuple[int, RecordDict, Ledger] | None = None
        side = subject.method.server(subject.server_task)
        blank = subject.blank_ledger()
        blank.require(side.planned())
        states = [RecordDict() for _ in range(subject.task.clients)]
        ledgers = [subject.blank_ledger() for _ in states]
        randomness = self._randomness(_TRANSCRIPT)
        # Noise of other clients is the same with the record and without it, or what the server makes of it differs.
        of_others = replace(randomness, secure=False)
        recorder: Recorder | Replayer = Recorder(randomness.others()) if forced is None else Replayer(forced)
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
                        X, y = self._world.rows(inside)
                        update = subject.method.client().train(task, X, y, sent.arrays)
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
            raise DPForestError(
                "clients entrust the server with values of single records, and only what it lets out about whole "
                "clients is audited"
            )
        run.draws = recorder.draws if isinstance(recorder, Recorder) else list(forced or [])
        if first is not None and _is_shared(run.draws):
            # The keys that are agreed on before are fresh in each run, and the messages behind are about these.
            run.messages, run.state, run.ledger = run.messages[first[0] :], *first[1:]
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

    def _randomness(
        self, key: tuple[int, ...], known: dict[tuple[str, int], list[np.ndarray]] | None = None
    ) -> Randomness:
        # What no proof needs to be secret may be fixed; who proves nothing may draw its noise from there.
        public = () if self._claims else key
        return Randomness(key, self._subject.seed, self._subject.noise == "secure", public, known)


def _before_last(draws: list[Draw]) -> bytes:
    return b"".join(draw.output.tobytes() for draw in draws[:-1])


def _sent(update: Update) -> dict[str, Any]:
    return {**update.arrays, **update.metrics}


def _equal(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    return len(one) == len(other) and all(map(np.array_equal, one, other))


def _different(one: Fields, other: Fields, draws: list[Draw]) -> tuple[str, ...]:
    """Fields that differ although all mechanisms let the same through."""
    if _is_shared(draws):
        return ()
    names = [name for name in one.keys() | other.keys() if not np.array_equal(_field(one, name), _field(other, name))]
    return tuple(f"{name}, which does not follow from what was noised" for name in sorted(names))


def _is_shared(draws: list[Draw]) -> bool:
    """Whether a server sees sums over clients alone."""
    return any(getattr(draw.mechanism, "shares", 1) > 1 for draw in draws)


def _field(fields: Fields, name: str) -> np.ndarray:
    return np.asarray(fields.get(name, np.empty(0)))
