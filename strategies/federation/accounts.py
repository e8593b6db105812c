"""What each client owes its ledger for the exchanges it was asked for and answered, by the plan of its method."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from dpforest.ledger import Entry, Ledger, not_covered, singles
from strategies.messages import BadMessage
from strategies.method import Charges, ClientUpdate

_MOST_ENTRIES = 3
_MOST_UNPROTECTED = 100  # lines, and as many more as there were exchanges


class Account:
    """One client's account. All here compares lines and composes nothing, so that no ledger takes long."""

    def __init__(self) -> None:
        self._may: Counter[Entry] = Counter()  # single releases that the ledger may hold
        self._must: Counter[Entry] = Counter()  # that it must hold
        self._lines = self._exchanges = 0
        self._asked = Charges()
        self._has_sent = False
        self._refused = self._failed = ""

    def ask(self, charges: Charges) -> None:
        """Note that the client is asked for an exchange, which may cost it this."""
        self._asked = charges
        self._exchanges += 1
        self._lines += len(charges.each) + len(charges.once)
        self._may.update(singles(charges.each))
        self._may |= singles(charges.once)

    def answer(self, charges: Charges, update: ClientUpdate, ledger: Ledger) -> None:
        """Note the client's answer to what it was asked last, and what that costs as the answer now says.

        Raises
        ------
        BadMessage
            The ledger has lines that are not in the plan, or more of them.
        """
        self._lines += len(charges.each) - len(self._asked.each)
        self._may.subtract(singles(self._asked.each))
        self._may.update(singles(charges.each))
        self._asked = charges
        self._refuse_strange(ledger)
        self._must.update(singles(charges.each))
        self._must |= singles(charges.once)
        self._has_sent |= bool(update.arrays or update.metrics)

    def ask_metrics(self, entry: Entry) -> None:
        """Note that the client is asked for its test metrics, which cost it this if its owner shares them privately."""
        self._lines += 1
        self._may.update(singles([entry]))

    def answer_metrics(self, entry: Entry, ledger: Ledger) -> None:
        """Note that the client has sent them; raises as `answer`."""
        self._refuse_strange(ledger)
        self._must.update(singles([entry]))

    def fail(self) -> None:
        """Note that the client says of its failure that it may follow from rows."""
        self._failed = "that training failed may follow from its rows"

    def why_none(self, ledger: Ledger) -> str:
        """Why nothing is guaranteed about a client whose last sound ledger this is; empty if it has paid for all."""
        if self._failed:
            return self._failed
        if self._refused:
            return f"its ledger was refused, as it {self._refused}"
        if missing := not_covered(_entries(self._must), ledger.entries):
            return f"it has not charged its ledger for {_words(missing)}"
        return "its ledger is empty" if self._has_sent and not ledger.entries else ""

    def _refuse_strange(self, ledger: Ledger) -> None:
        if strange := self._strange(ledger):
            self._refused = strange
            raise BadMessage(f"its ledger {strange}")

    def _strange(self, ledger: Ledger) -> str:
        protected = [entry for entry in ledger.entries if entry.protected]
        bare = len(ledger.entries) - len(protected)
        if len(protected) > self._lines:
            return f"has {len(protected)} lines, and the plan {self._lines}"
        if bare > _MOST_UNPROTECTED + self._exchanges:
            return f"names {bare} times what is unprotected"
        if strange := not_covered(protected, _entries(self._may)):
            return f"is no part of the plan: {_words(strange)}"
        return ""


def _entries(singles: Counter[Entry]) -> list[Entry]:
    return [replace(entry, times=times) for entry, times in singles.items() if times > 0]


def _words(entries: list[Entry]) -> str:
    words = [f"{entry.what!r} ({entry.mechanism}, {entry.times} times)" for entry in entries[:_MOST_ENTRIES]]
    return ", ".join([*words, *([f"{len(entries) - _MOST_ENTRIES} more"] if len(entries) > _MOST_ENTRIES else [])])
