"""What all clients have spent at the end of a run, whatever became of their answers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from dpforest.guarantee import Guarantee, Trust
from dpforest.ledger import Entry, Ledger
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
    among_known : Trust, optional
        What it says of trust instead where the client knows its fellows (`Protection.among_known`).
    """

    blank: Ledger
    among_known: Trust | None = None
    received: dict[int, Ledger] = field(default_factory=dict)
    _accounts: dict[int, Account] = field(default_factory=dict)
    _unanswered: set[int] = field(default_factory=set)  # whose ledger did not come with the last answer asked for
    _may_have_sent: dict[int, Entry] = field(default_factory=dict)  # test metrics of which no ledger came
    _has_asked: bool = False

    def ask(self, client: int, charges: Charges) -> None:
        """Note that a client is asked for an exchange, which may cost it this."""
        self._accounts.setdefault(client, Account()).ask(charges)
        self._unanswered.add(client)
        self._has_asked = True

    def ask_metrics(self, client: int, entry: Entry, counts: bool) -> None:
        """Note that a client is asked for its test metrics, which may cost it this; without an answer if it counts."""
        self._accounts.setdefault(client, Account()).ask_metrics(entry)
        if counts:
            self._may_have_sent[client] = entry

    def shares_otherwise(self, client: int) -> None:
        """Note that the client's owner shares its test metrics in clear or not at all."""
        self._may_have_sent.pop(client, None)

    def take_metrics(self, client: int, entry: Entry, ledger: Ledger) -> None:
        """Note a client's test metrics with their ledger; raises as `check` and `Account.answer_metrics`."""
        self.check(client, ledger)
        self._accounts[client].answer_metrics(entry, ledger)
        self.received[client] = ledger
        self._may_have_sent.pop(client, None)

    def fail(self, client: int) -> None:
        """Note that a client says of its failure that it may follow from rows."""
        self._accounts.setdefault(client, Account()).fail()

    def check(self, client: int, ledger: Ledger) -> None:
        """Raise `BadMessage` if a ledger is about something else, or lacks what it had."""
        if (ledger.budget, ledger.unit) != (self.blank.budget, self.blank.unit) or ledger.trust not in self._trusts:
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
            trust = ledgers[client].trust if client in ledgers else None
            ledgers[client] = self._planned(side, "asked, no answer: counted as spent", trust)
            # What no mechanism covers has no plan: what is known of it stays, with what may have come to it since.
            for entry in known:
                if not entry.protected:
                    ledgers[client].unprotected(entry.what, entry.note)
        for client, entry in self._may_have_sent.items():
            ledger = ledgers[client].copy() if client in ledgers else self._empty()
            if entry not in ledger.entries:
                ledger.charge(replace(entry, note=f"asked, no answer: counted as spent; {entry.note}"))
            ledgers[client] = ledger
        for client, account in self._accounts.items():
            if why := account.why_none(self.received.get(client, self.blank)):
                ledgers.setdefault(client, self._empty()).unprotected(
                    f"what client {client} sent: {why}", "it answered, and this is not proven"
                )
        if not self._has_asked:
            # Where sampling left everybody out, that everybody could have been drawn is what was paid for.
            for client in could_train:
                tested = ledgers[client].entries if client in ledgers else ()
                ledgers[client] = self._planned(side, "could have been asked: counted as spent")
                for entry in tested:
                    ledgers[client].charge(entry)
        for ledger in ledgers.values():
            for entry in self.blank.entries:
                if entry not in ledger.entries:
                    ledger.unprotected(entry.what, entry.note)
        trust = self._trust_of_all(ledgers.values())
        for ledger in ledgers.values():
            ledger.trust = trust
        return ledgers

    def _trust_of_all(self, ledgers: Collection[Ledger]) -> Trust:
        """That the server is not trusted holds for a run where it holds for each of its clients."""
        if self.among_known and ledgers and all(ledger.trust == self.among_known for ledger in ledgers):
            return self.among_known
        return self.blank.trust

    @property
    def _trusts(self) -> tuple[Trust, ...]:
        return (self.blank.trust, *([self.among_known] if self.among_known else []))

    def _empty(self, trust: Trust | None = None) -> Ledger:
        return Ledger(self.blank.budget, self.blank.unit, trust or self.blank.trust)

    def _planned(self, side: ServerSide, why: str, trust: Trust | None = None) -> Ledger:
        ledger = self._empty(trust)
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
