"""Clients and a server in one process, with clients that drop out, or lie, at chosen exchanges."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import numpy as np
from hypothesis import strategies as st

from dpforest.errors import DPForestError
from strategies.method import Arrays
from strategies.secure_aggregation import Phase, SecureSummer, SumCollector, Terms, Total
from strategies.secure_aggregation.fellows import Identity

Lie = Callable[[Phase, dict[str, np.ndarray]], Arrays]
WHAT = "noised sums"


class Federation:
    """Clients 0 .. n-1, each restored from its saved state before every message."""

    def __init__(self, terms: Terms, length: int = 3, identities: Mapping[int, Identity] | None = None) -> None:
        self.terms = terms
        self.collector = SumCollector(terms, length, WHAT)
        self.identities = dict(identities or {})
        self.states = {client: SecureSummer(client, terms).to_bytes() for client in range(terms.clients)}
        self.refused: dict[int, str] = {}

    def reply(
        self, client: int, message: Arrays, vector: np.ndarray, phase: Phase | None = None, what: str = WHAT
    ) -> Arrays:
        summer = SecureSummer.from_bytes(self.states[client], self.terms, self.identities.get(client))
        phase = phase or self.collector.phase
        if phase is Phase.ADVERTISE:
            answer = summer.advertise(message)
        elif phase is Phase.SHARE:
            answer = summer.share(message)
        elif phase is Phase.MASK:
            answer = summer.mask(message, vector, what)
        elif phase is Phase.MASK_AGAIN:
            answer = summer.mask_again(message)
        elif phase is Phase.CONFIRM:
            answer = summer.confirm(message)
        elif phase is Phase.UNMASK:
            answer = summer.unmask(message)
        else:
            answer = {}
        self.states[client] = summer.to_bytes()
        return answer

    def replies(
        self, vectors: Mapping[int, np.ndarray], unreached: Collection[int] = (), lost: Collection[int] = ()
    ) -> dict[int, Arrays]:
        """One exchange: some clients get no message, of some the reply is lost."""
        answers = {
            client: self.reply(client, self.collector.message(client), vectors[client])
            for client in self.collector.participants(list(self.states))
            if client not in unreached
        }
        return {client: answer for client, answer in answers.items() if client not in lost}

    def exchange(
        self,
        vectors: Mapping[int, np.ndarray],
        unreached: Collection[int] = (),
        lost: Collection[int] = (),
        lies: Mapping[int, Lie] | None = None,
    ) -> Total | None:
        """One exchange, in which a reply that is not sound costs its sender."""
        sound = {}
        for client, reply in self.replies(vectors, unreached, lost).items():
            answer = dict(reply)
            if lies and client in lies:
                answer = dict(lies[client](self.collector.phase, answer))
            try:
                self.collector.check(client, answer)
            except DPForestError as error:
                self.refused[client] = str(error)
                continue
            sound[client] = answer
        return self.collector.receive(sound)

    def set_up(self, vectors: Mapping[int, np.ndarray], lies: Mapping[int, Lie] | None = None) -> None:
        """The first two exchanges, with everybody."""
        self.exchange(vectors, lies=lies)
        self.exchange(vectors, lies=lies)


def ready(
    clients: int = 6, rounds: int = 2, dropouts: int = 1, colluders: int = 1
) -> tuple[Federation, dict[int, np.ndarray]]:
    """A federation whose keys are agreed on, and a vector for each client."""
    federation = Federation(Terms(clients, rounds, 1000, dropouts, colluders))
    vectors = {client: np.array([client, -10 * client, 1000]) for client in range(clients)}
    federation.set_up(vectors)
    return federation, vectors


def any_federation(data: st.DataObject, colluders: int, more: int) -> tuple[Federation, dict[int, np.ndarray]]:
    """One whose clients have sent their vectors: with up to so many colluders, and clients more than it needs."""
    dropouts, colluders = data.draw(st.integers(1, 2)), data.draw(st.integers(0, colluders))
    clients = 2 * dropouts + colluders + 2 + data.draw(st.integers(0, more))
    federation = Federation(Terms(clients, 1, 10, dropouts, colluders))
    vectors = dict.fromkeys(range(clients), np.array([1, 2, 3]))
    federation.set_up(vectors)
    federation.exchange(vectors)
    return federation, vectors
