"""Test metrics of which a server learns the sum over nodes alone: a secure sum of its own at the end of a run."""

from __future__ import annotations

import logging
from typing import Any

from dpforest.ledger import Entry
from strategies.federation.evaluation import Evaluation
from strategies.messages import PHASE
from strategies.method import Arrays, ClientUpdate, Task
from strategies.private_metrics import shared_sums
from strategies.secure_aggregation import Phase, SumCollector

log = logging.getLogger(__name__)


class SharedMetrics:
    """Leads nodes through the exchanges of the sum.

    Parameters
    ----------
    task : Task

    Attributes
    ----------
    charged : set of int
        Clients that may have spent it.

    Raises
    ------
    DPForestError
        Nothing is shared in such a run, or it does not fit.
    """

    def __init__(self, task: Task[Any]) -> None:
        self.charged: set[int] = set()
        self._release, secure = shared_sums(task)
        self._collector = SumCollector(secure.terms, self._release.size, self.entry.what)

    @property
    def entry(self) -> Entry:
        """What the sum costs each client."""
        return self._release.entry

    @property
    def phase(self) -> Phase:
        """What the next exchange is for."""
        return self._collector.phase

    def participants(self, clients: list[int]) -> list[int]:
        """Who takes part in the next exchange; none where there will be no sum any more."""
        if self.phase in (Phase.DONE, Phase.PRESENT):
            return []
        chosen = self._collector.participants(clients)
        if self.phase is Phase.PRESENT:  # too few for a vector
            return []
        if self.phase is Phase.MASK:
            self.charged.update(chosen)
        return chosen

    def message(self, client: int, model: Arrays) -> tuple[Arrays, dict[str, str]]:
        """Arrays and settings of a participant's message."""
        own = self._collector.message(client)
        return ({**model, **own} if self.phase is Phase.MASK else own), {PHASE: self.phase.value}

    def check(self, update: ClientUpdate) -> None:
        """Raise ``DPForestError`` if an answer is not sound."""
        self._collector.check(update.client, update.arrays)

    def take(self, updates: list[ClientUpdate]) -> Evaluation | None:
        """The nodes' metrics together, when the last exchange has come to a sum.

        Raises
        ------
        TooFewClients, DPForestError
            There will be none.
        """
        total = self._collector.receive({update.client: update.arrays for update in updates})
        if total is None:
            return None
        sums = self._release.sums(total.values)
        return Evaluation(total.clients[0], sums, {}, {}, self._release, len(total.clients))
