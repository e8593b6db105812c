"""Clients and a server in one process, with clients that drop out at chosen exchanges."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from strategies.method import Arrays
from strategies.secure_aggregation import Phase, SecureSummer, SumCollector, Terms, Total


class Federation:
    """Clients 0 .. n-1, each restored from its saved state before every message."""

    def __init__(self, terms: Terms, length: int = 3) -> None:
        self.terms = terms
        self.collector = SumCollector(terms, length)
        self.states = {client: SecureSummer(client, terms).to_bytes() for client in range(terms.clients)}

    def reply(self, client: int, message: Arrays, vector: np.ndarray, phase: Phase | None = None) -> Arrays:
        summer = SecureSummer.from_bytes(self.states[client], self.terms)
        phase = phase or self.collector.phase
        if phase is Phase.ADVERTISE:
            answer = summer.advertise()
        elif phase is Phase.SHARE:
            answer = summer.share(message)
        elif phase is Phase.MASK:
            answer = summer.mask(message, vector)
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
        self, vectors: Mapping[int, np.ndarray], unreached: Collection[int] = (), lost: Collection[int] = ()
    ) -> Total | None:
        return self.collector.receive(self.replies(vectors, unreached, lost))

    def set_up(self, vectors: Mapping[int, np.ndarray]) -> None:
        """The first two exchanges, with everybody."""
        self.exchange(vectors)
        self.exchange(vectors)
