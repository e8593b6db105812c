"""A server's side whose exchanges are those of secure sums: the hooks that follow from its collector alone."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping
from typing import Any

from strategies.messages import PHASE
from strategies.method import Arrays, ClientUpdate, ServerSide, TooFewClients
from strategies.secure_aggregation.rounds import SumRounds
from strategies.secure_aggregation.server import Phase


class SecureServer(ServerSide):
    """Leads clients through secure sums; a method adds what the vectors are, what they cost, and what sums teach.

    Attributes
    ----------
    sums : SumRounds
        Set by the method before its first exchange.
    """

    sums: SumRounds

    @abstractmethod
    def vector_length(self) -> int:
        """Numbers of the vectors that clients send next."""

    @property
    def asks_vectors(self) -> bool:
        """Whether the next exchange asks clients for their vectors, for which they pay."""
        return self.sums.collector.phase is Phase.MASK

    @property
    def agrees_on_keys(self) -> bool:
        """Whether the next exchange is one of those without which there are no sums at all."""
        return self.sums.collector.phase in (Phase.ADVERTISE, Phase.SHARE)

    @property
    def exchanges(self) -> int:
        return self.sums.collector.exchanges

    @property
    def finished(self) -> bool:
        return self.sums.collector.phase is Phase.DONE

    @property
    def needs_answers(self) -> bool:
        # A secure sum knows how many it needs.
        return False

    def is_enough(self, clients: Collection[int]) -> bool:
        return self.sums.collector.is_enough(clients)

    def participants(self, exchange: int, clients: list[int]) -> list[int]:
        self.sums.collector.length = self.vector_length()
        for entry in self.charges(exchange, -1).each:
            self.sums.collector.what = entry.what
        return self.sums.collector.participants(clients)

    def arrays_for(self, exchange: int, client: int) -> Arrays:
        return self.sums.collector.message(client)

    def config(self, exchange: int, client: int) -> Mapping[str, Any]:
        return {PHASE: self.sums.collector.phase.value}

    def check(self, update: ClientUpdate) -> None:
        self.sums.collector.check(update.client, update.arrays)

    def report(self) -> dict[str, Any]:
        return {**super().report(), **self.sums.report()}

    def nothing_done(self) -> TooFewClients:
        """What to raise at the end of a run in which no round came to a sum."""
        return TooFewClients(f"no round was finished: {self.sums.ended or 'too few clients answered in all of them'}")
