"""A method's rounds as secure sums: what came of an exchange, and what is said where one went wrong."""

from __future__ import annotations

import logging
from collections.abc import Callable

from dpforest.errors import DPForestError
from strategies.method import ClientUpdate, TooFewClients
from strategies.secure_aggregation.server import Phase, SumCollector, Total

log = logging.getLogger(__name__)


class SumRounds:
    """Takes the replies of a run with secure sums.

    Parameters
    ----------
    collector : SumCollector
    rounds : int
        Of the run.
    """

    def __init__(self, collector: SumCollector, rounds: int) -> None:
        self.collector = collector
        self.ended = ""  # why the run ended early
        self.gave_up = False  # whether the last exchange lost a sum that clients had begun
        self._rounds = rounds
        self._left_out: set[int] = set()  # clients of which the log has said why

    def take(
        self, updates: list[ClientUpdate], check: Callable[[Total], None] = lambda total: None, is_needed: bool = False
    ) -> Total | None:
        """The sum that an exchange has come to, if it has.

        Parameters
        ----------
        updates : list of ClientUpdate
        check : callable of Total to None
            Raises ``DPForestError`` for a sum that honest clients cannot have made.
        is_needed : bool
            Whether the run is nothing without this sum.

        Raises
        ------
        TooFewClients
            There is no such sum, and it is needed.
        """
        collector = self.collector
        phase, self.gave_up = collector.phase, False
        try:
            return collector.receive({update.client: update.arrays for update in updates}, check)
        except (TooFewClients, DPForestError) as error:
            # A lost round costs this round only, and clients have paid for it.
            if is_needed and (phase is not Phase.PRESENT or collector.ended):
                raise TooFewClients(f"the run cannot go on: {error}") from error
            self.gave_up = phase is not Phase.PRESENT
            if not collector.ended:
                log.warning("no sums are asked for: %s" if phase is Phase.PRESENT else "a round is given up: %s", error)
            return None

    def note(self, done: int) -> None:
        """Say in the log what ended the run after so many finished rounds, and who is left out."""
        collector = self.collector
        if collector.ended and not self.ended:
            self.ended = (
                f"after {done} of {self._rounds} rounds: {collector.ended} "
                "(strategy.dropouts allows for clients that are missing)"
            )
            log.warning("the run ends %s", self.ended)
        for client in sorted(collector.liars.keys() - self._left_out):
            log.warning("client %d is left out from now on: it %s", client, collector.liars[client])
        self._left_out = set(collector.liars)

    def report(self) -> dict[str, object]:
        """Facts for ``metrics.json``."""
        facts: dict[str, object] = {"ended_early": self.ended} if self.ended else {}
        if self.collector.liars:
            facts["left_out"] = {str(client): f"it {lie}" for client, lie in sorted(self.collector.liars.items())}
        return facts
