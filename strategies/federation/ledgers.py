"""What all clients have spent at the end of a run, whatever became of their answers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from dpforest.guarantee import Guarantee, Trust, Unit
from dpforest.ledger import Budget, Ledger
from strategies.federation.accounts import Account
from strategies.messages import BadMessage
from strategies.method import Charges, ClientUpdate, ServerSide


@dataclass
class Ledgers:
    """The clients' ledgers as the server knows them.

    Parameters
    ----------
    blank : Ledger
        That of a client which has released nothing: budget, unit, trust and unprotected facts that every ledger must
        have.
    """

    blank: Ledger
    received: dict[int, Ledger] = field(default_factory=dict)
    _accounts: dict[int, Account] = field(default_factory=dict)
    _unanswered: set[int] = field(default_factory=set)  # whose ledger did not come with the last answer asked for

    def ask(self, client: int, charges: Charges) -> None:
        """Note that a client is asked for an exchange, which may cost it this."""
        self._accounts.setdefault(client, Account()).ask(charges)
        self._unanswered.add(client)

    def fail(self, client: int) -> None:
        """Note that a client says of its failure that it may follow from rows."""
        self._accounts[client].fail()

    def check(self, client: int, ledger: Ledger) -> None:
        """Raise `BadMessage` if a ledger is about something else, or lacks what it had."""
        if _terms(ledger) != _terms(self.blank):
            raise BadMessage("its ledger is about another budget, unit or trust model")
        if client in self.received and not ledger.includes(self.received[client]):
            # A node that was started anew, say, and takes its budget for unspent.
            raise BadMessage("its ledger lacks what it has released in this run before")

    def take(self, client: int, charges: Charges, update: ClientUpdate, ledger: Ledger) -> None:
        """Note a client's answer, what that costs, and its ledger; raises as `Account.answer`."""
        self._accounts[client].answer(charges, update, ledger)
        self.received[client] = ledger
        self._unanswered.discard(client)

    def final(self, side: ServerSide, could_train: Collection[int]) -> dict[int, Ledger]:
        """Every asked client's ledger, with what it has not paid for.

        Where a client's last answer did not come, all that was planned counts as spent.
        """
        ledgers = dict(self.received)
        for client in self._unanswered:
            known = ledgers[client].entries if client in ledgers else ()
            ledgers[client] = self._planned(side, "asked, no answer: counted as spent")
            # What no mechanism covers has no plan: what is known of it stays, with what may have come to it since.
            for entry in known:
                if not entry.protected:
                    ledgers[client].unprotected(entry.what, entry.note)
        for client, account in self._accounts.items():
            if why := account.why_none(self.received.get(client, self.blank)):
                ledgers[client].unprotected(f"what client {client} sent: {why}", "it answered, and this is not proven")
        if not self._accounts:
            # Where sampling left everybody out, that everybody could have been drawn is what was paid for.
            for client in could_train:
                ledgers[client] = self._planned(side, "could have been asked: counted as spent")
        for ledger in ledgers.values():
            for entry in self.blank.entries:
                if entry not in ledger.entries:
                    ledger.unprotected(entry.what, entry.note)
        return ledgers

    def _planned(self, side: ServerSide, why: str) -> Ledger:
        ledger = Ledger(self.blank.budget, self.blank.unit, self.blank.trust)
        for entry in side.planned():
            ledger.charge(replace(entry, note=f"{why}; {entry.note}" if entry.note else why))
        for what in side.unprotected():
            ledger.unprotected(what, why)
        return ledger


def worst_protected(ledgers: Mapping[int, Ledger]) -> int:
    """The client whose guarantee is that of the run."""
    guarantees = {client: ledger.guarantee() for client, ledger in ledgers.items()}
    # A client without a guarantee is worse off than any with one, whatever its epsilon; one that says why comes first.
    return max(guarantees, key=lambda client: _badness(guarantees[client]))


def _badness(guarantee: Guarantee) -> tuple[bool, bool, float]:
    return not guarantee.holds, bool(guarantee.reasons), guarantee.epsilon


def _terms(ledger: Ledger) -> tuple[Budget, Unit, Trust]:
    return ledger.budget, ledger.unit, ledger.trust
