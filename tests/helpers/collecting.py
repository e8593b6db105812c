"""A server that takes what clients send, and learns nothing from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dpforest.ledger import Entry
from strategies.method import ServerSide


class Collecting(ServerSide[Any]):
    """Collects."""

    def planned(self) -> list[Entry]:
        return []

    def aggregate(self, exchange: int, updates: Any) -> None:
        return None

    def save(self, folder: Path) -> None:
        raise NotImplementedError
