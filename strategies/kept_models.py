"""Servers of methods whose models stay with their clients."""

from __future__ import annotations

from dpforest.ledger import Entry
from strategies.method import Arrays, ClientUpdate, ServerSide


class KeptModelsServer(ServerSide):
    """Waits, in one exchange, until every client has a model of its own; nothing is released."""

    @property
    def exchanges(self) -> int:
        return 1

    def planned(self) -> list[Entry]:
        return []

    def aggregate(self, exchange: int, updates: list[ClientUpdate]) -> Arrays | None:
        return None
