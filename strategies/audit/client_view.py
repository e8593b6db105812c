"""A client's side, again and again on the messages of one run."""

from __future__ import annotations

import numpy as np

from dpforest.ledger import Entry, Ledger
from strategies.audit.conversation import Conversations, is_shared
from strategies.audit.repetition import Fields, Repetition, values_of
from strategies.audit.subject import Subject
from strategies.audit.witness import Diverged, Draw, Randomness, Recorder, Replayer, Samples
from strategies.audit.worlds import World

_SURE = 6  # repetitions with the same values, from which they are taken to be always the same
_MOST_KNOWN = 2000


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
        self._world, self._talks = world, Conversations(subject)
        self._claims = subject.claims
        outside = self._talks.hold(world.rows(False))
        # With what was drawn without the record, so that all messages of the server are the same; but for keys.
        inside = self._talks.hold(world.rows(True), outside.draws)
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
        randomness = self._talks.randomness((int(inside), int(halved), number))
        recorder = Recorder(randomness.others(), halved)
        messages = self._answers(inside, randomness, recorder)
        draws = recorder.draws
        if is_shared(draws):
            messages = {}  # under masks, whose keys are fresh in a run and the same here
        if not draws and not self._claims:
            return Repetition(messages)
        sampled = bool(randomness.samples) and any(randomness.samples.values())
        samples_of_others = self._without_record(randomness.samples)
        # Who else was drawn changes what goes in, but where there is nobody else.
        fixed = not (sampled and len(self._world.y))
        both: list[list[np.ndarray] | None] = [None, None]
        if not sampled:
            both[int(inside)] = values_of(draws)
        different: tuple[str, ...] = ()
        for side in (0, 1):
            if (own := both[side]) is not None:
                self._values[side].learn(draws, own)
                continue
            if not checked and fixed and (known := self._values[side].find(draws)) is not None:
                both[side] = known
                continue
            again = self._talks.randomness(randomness.key, samples_of_others)
            replayer = Replayer(draws)
            try:
                replayed = self._answers(bool(side), again, replayer)
            except Diverged as error:
                return Repetition(messages, draws, None, (str(error),))
            if len(replayer.values) != len(draws):
                return Repetition(messages, draws, None, ("fewer releases with one record more or less",))
            both[side] = replayer.values
            if fixed:
                self._values[side].learn(draws, replayer.values)
            if checked and side != int(inside):
                different += _different(messages, replayed, draws)
        outside_values, inside_values = both
        assert outside_values is not None
        assert inside_values is not None
        return Repetition(messages, draws, (outside_values, inside_values), different)

    def _without_record(self, samples: Samples) -> Samples:
        """Of samples of the rows, who else was drawn: nobody sees whether the record was."""
        others = len(self._world.y)
        return {place: [rows[:others] for rows in each_round] for place, each_round in samples.items()}

    def _answers(self, inside: bool, randomness: Randomness, witness: Recorder | Replayer) -> Fields:
        return self._talks.answers(self._runs[int(inside)], self._world.rows(inside), randomness, witness)


def _before_last(draws: list[Draw]) -> bytes:
    return b"".join(draw.output.tobytes() for draw in draws[:-1])


def _equal(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    return len(one) == len(other) and all(map(np.array_equal, one, other))


def _different(one: Fields, other: Fields, draws: list[Draw]) -> tuple[str, ...]:
    """Fields that differ although all mechanisms let the same through."""
    if is_shared(draws):
        return ()
    names = [name for name in one.keys() | other.keys() if not np.array_equal(_field(one, name), _field(other, name))]
    return tuple(f"{name}, which does not follow from what was noised" for name in sorted(names))


def _field(fields: Fields, name: str) -> np.ndarray:
    return np.asarray(fields.get(name, np.empty(0)))
