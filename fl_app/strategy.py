"""Any method of the project as a Flower strategy."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from dpforest.errors import DPForestError
from dpforest.ledger import Budget, Ledger, rounded_up
from fl_app.accounts import Account
from fl_app.grids import wait_for
from fl_app.metrics import Sums, add_sums, sum_sizes, summarize
from strategies.messages import (
    ARRAYS,
    CONFIG,
    METRICS,
    UNPROTECTED,
    BadMessage,
    copied,
    one_line,
    read_arrays,
    read_config,
    read_update,
    to_arrays_record,
)
from strategies.method import Arrays, ClientUpdate, ServerSide, TooFewClients

log = logging.getLogger(__name__)
Item = TypeVar("Item")
_REASONS = 3  # lost clients that the error at the end of a run names; all are in the log


@dataclass(frozen=True)
class Cohort:
    """Which node plays which client, by what the clients are for."""

    train: Mapping[int, int]
    test: Mapping[int, int]
    total: int


@dataclass(frozen=True)
class Judged:
    """What one client reported about the current model."""

    client: int
    sums: Sums
    by_owner: Mapping[str, Mapping[int, float]]
    own_model: Arrays


@dataclass
class Failure:
    """A client whose contribution to a round was lost."""

    round: int
    client: int
    reason: str


@dataclass
class RoundLog:
    """What happened in one round."""

    judged: list[Judged] = field(default_factory=list)
    answered: int = 0
    asked: int = 0


class MethodStrategy(Strategy):
    """Turns a method's `ServerSide` into messages, and replies into its updates.

    Parameters
    ----------
    side : ServerSide
        The method.
    cohort : Cohort
        Who takes part.
    base_config : mapping
        Settings that every message carries (the experiment, the run's id).
    blank : Ledger
        The ledger of a client that has released nothing: budget, unit and trust that every ledger must have.
    min_share : float
        Share of the asked clients that must give a sound answer.
    timeout : float
        Seconds to wait for clients that the method cannot do without to be connected.
    by_owner : bool
        Whether clients also report the accuracy of each owner's part of the model.
    """

    def __init__(
        self,
        side: ServerSide,
        cohort: Cohort,
        base_config: Mapping[str, Any],
        blank: Ledger,
        min_share: float,
        timeout: float,
        by_owner: bool = False,
    ) -> None:
        self.side = side
        self.cohort = cohort
        self.failures: list[Failure] = []
        self.ledgers: dict[int, Ledger] = {}
        self.accounts: dict[int, Account] = {}
        self.noise: set[str] = set()
        self.ever_asked: set[int] = set()
        self.unheard: set[int] = set()  # whose ledger did not come with the last answer that was asked for
        self.rounds: dict[int, RoundLog] = {}
        self._base_config = {**base_config, "clients": cohort.total, "by-owner": by_owner}
        self._blank = blank
        self._min_share = min_share
        self._timeout = timeout
        self._asked: list[int] = []
        self._shares_no_metrics: dict[int, str] = {}  # client: its words
        self.told_metrics = False  # whether any test metrics came, also such as are of no use

    def summary(self) -> None:
        """Log what every client will release over the run."""
        for entry in self.side.planned():
            times = f" x {entry.times}" if entry.times > 1 else ""
            cost = f"epsilon {rounded_up(entry.epsilon, 4)}" if entry.epsilon else f"mu {rounded_up(entry.mu, 4)}"
            cost = cost if entry.is_noised else "no noise"
            log.info("  each client releases: %s (%s, %s%s)", entry.what, entry.mechanism, cost, times)
        for what in self.side.unprotected():
            log.warning("  UNPROTECTED: %s", what)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """One message to each client that takes part in the round."""
        self._asked = self.side.participants(server_round, self._available(server_round, grid))
        for client in self._asked:
            self.accounts.setdefault(client, Account()).ask(self.side.charges(server_round, client))
        self.rounds[server_round] = RoundLog(asked=len(self._asked))
        self.ever_asked.update(self._asked)
        self.unheard.update(self._asked)
        model = arrays if len(arrays) else None
        messages = []
        same: tuple[Arrays, ArrayRecord] | None = None  # packed once for all clients in a row that are told the same
        for client in self._asked:
            own = self.side.arrays_for(server_round, client)
            content = RecordDict(
                {CONFIG: copied({**self._base_config, **self.side.config(server_round, client), "round": server_round})}
            )
            if own is not None:
                if same is None or same[0] is not own:
                    same = own, to_arrays_record(own)
                content[ARRAYS] = same[1]
            elif model is not None:
                content[ARRAYS] = model
            messages.append(Message(content, self.cohort.train[client], MessageType.TRAIN, group_id=str(server_round)))
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Keep sound updates, name the lost ones, and let the method make its model.

        Raises
        ------
        TooFewClients
            Fewer clients than the run needs gave a sound answer.
        """
        updates = self._sound_updates(server_round, replies)
        # Nobody asked (an empty Poisson sample) is a round like any other: its noise must still be released.
        needed = int(np.ceil(self._min_share * len(self._asked)))
        self.rounds[server_round].answered = len(updates)
        if len(updates) < needed and self.side.needs_answers:
            failed = [f for f in self.failures if f.round == server_round]
            reasons = "; ".join(f"client {f.client}: {f.reason}" for f in failed[:_REASONS])
            if len(failed) > _REASONS:
                reasons += f"; {len(failed) - _REASONS} more"
            raise TooFewClients(
                f"round {server_round}: {len(updates)} of {len(self._asked)} clients gave a sound answer, "
                f"{needed} are needed ({reasons}); fix the clients or lower min_clients"
            )
        model = self.side.aggregate(server_round, updates)
        return (to_arrays_record(model) if model else None), None

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask every client with test rows to judge the current model, but for those that have refused to."""
        messages = []
        for client in sorted(set(self.cohort.test) - set(self._shares_no_metrics)):
            content = RecordDict({ARRAYS: arrays, CONFIG: copied({**self._base_config, "round": server_round})})
            messages.append(
                Message(content, self.cohort.test[client], MessageType.EVALUATE, group_id=str(server_round))
            )
        return messages

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Metrics over all test rows together."""
        asked = set(self.cohort.test) - set(self._shares_no_metrics)
        client_of = {self.cohort.test[client]: client for client in asked}
        words = "its evaluation could not be read", "no answer to the evaluation in time"
        answers = self._read_each(server_round, replies, client_of, self._take_judged, *words)
        judged = [answer for answer in answers if answer is not None]
        refusals = {client: self._shares_no_metrics[client] for client in sorted(asked & set(self._shares_no_metrics))}
        for reason in dict.fromkeys(refusals.values()):
            clients = ", ".join(str(client) for client, other in refusals.items() if other == reason)
            log.info("no test metrics of client %s: %s", clients, reason)
        self.rounds[server_round].judged = judged
        return MetricRecord({**summarize(add_sums(j.sums for j in judged))}) if judged else None

    def _available(self, server_round: int, grid: Grid) -> list[int]:
        """Clients to choose from: all, but for an exchange that so many cannot do."""
        train = self.cohort.train
        if self.side.is_enough(()):
            return sorted(train)
        connected = wait_for(grid, train, self.side.is_enough, self._timeout)
        if self.side.is_enough(connected):
            return sorted(train)
        for client in sorted(set(train) - connected):
            self._fail(server_round, client, "not connected")
        return sorted(connected)

    def _sound_updates(self, server_round: int, replies: Iterable[Message]) -> list[ClientUpdate]:
        client_of = {self.cohort.train[client]: client for client in self._asked}
        words = "its update could not be checked", "no answer in time"
        take = partial(self._take_update, server_round)
        updates = self._read_each(server_round, replies, client_of, take, *words)
        return sorted(updates, key=lambda update: update.client)

    def _read_each(
        self,
        server_round: int,
        replies: Iterable[Message],
        client_of: Mapping[int, int],
        take: Callable[[Message, int], Item],
        unreadable: str,
        late: str,
    ) -> list[Item]:
        """What ``take`` makes of the replies; one that is missing or not sound costs its client only, and is noted."""
        missing = set(client_of.values())
        taken = []
        for client, reply in _expected(replies, client_of):
            missing.discard(client)
            try:
                item = take(reply, client)
            except DPForestError as error:
                self._fail(server_round, client, str(error))
                continue
            except Exception as error:
                # Nobody's message may end the run of all, not even one that a method did not think of.
                log.debug("client %d: %s", client, unreadable, exc_info=True)
                self._fail(server_round, client, f"{unreadable}: {type(error).__name__}: {error}")
                continue
            taken.append(item)
        for client in sorted(missing):
            self._fail(server_round, client, late)
        return taken

    def _take_update(self, server_round: int, reply: Message, client: int) -> ClientUpdate:
        if not reply.has_error() and read_config(reply.content).get(UNPROTECTED) is True:
            self.accounts[client].fail()
        update, ledger = read_update(reply, client)
        if _terms(ledger) != _terms(self._blank):
            raise BadMessage("its ledger is about another budget, unit or trust model")
        if client in self.ledgers and not ledger.includes(self.ledgers[client]):
            # A node that was started anew, say, and takes its budget for unspent.
            raise BadMessage("its ledger lacks what it has released in this run before")
        self.accounts[client].answer(self.side.charges(server_round, client, update), update, ledger)
        # What a client has released counts even if its update turns out to be of no use.
        self.ledgers[client] = ledger
        self.unheard.discard(client)
        self.noise.add(update.noise)
        self.side.check(update)
        return update

    def _take_judged(self, reply: Message, client: int) -> Judged | None:
        """What a client reports; nothing if its owner shares no metrics, which is no failure and does not change."""
        if not reply.has_error():
            config = read_config(reply.content)
            if config.get("refused") is True:
                self._shares_no_metrics[client] = one_line(str(config.get("error")))
                return None
        judged = self._read_judged(reply, client)
        if judged.own_model:
            self.side.take_own_model(client, judged.own_model)
        return judged

    def _read_judged(self, reply: Message, client: int) -> Judged:
        if reply.has_error():
            raise BadMessage(one_line(f"the client failed: {reply.error.reason}"))
        config = read_config(reply.content)
        if "error" in config:
            raise BadMessage(one_line(str(config["error"])))
        metrics = reply.content.metric_records.get(METRICS)
        if metrics is None:
            raise BadMessage("the evaluation has no metrics")
        self.told_metrics = True
        sums = {name: [float(x) for x in values] for name, values in metrics.items() if isinstance(values, list)}
        schema = self.side.task.schema
        expected = sum_sizes(len(schema.classes))
        found = {name: len(values) for name, values in sums.items()}
        if found != expected:
            raise BadMessage(f"the evaluation reports {found}, expected {expected}")
        if not all(np.isfinite(values).all() for values in sums.values()):
            raise BadMessage("the evaluation holds NaN or infinity")
        counts = sums["confusion"] if schema.is_classification else sums["moments"][:1]
        if min(counts) < 0 or min(sums.get("scores", [0])) < 0 or sum(counts) < 1:
            raise BadMessage("the evaluation counts no test rows, or fewer than none")
        by_owner = self._read_by_owner(str(config.get("by_owner", "{}")))
        return Judged(client, sums, by_owner, read_arrays(reply.content))

    def _read_by_owner(self, text: str) -> dict[str, dict[int, float]]:
        try:
            plain = json.loads(text)
            by_owner = {size: {int(owner): float(x) for owner, x in row.items()} for size, row in plain.items()}
        except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise BadMessage(f"accuracies by owner cannot be read: {error}") from error
        rows = list(by_owner.values())
        if any(set(row) != set(rows[0]) or not set(row) <= set(self.cohort.train) for row in rows):
            raise BadMessage("accuracies by owner name clients that do not train, or not the same at all sizes")
        if any(not 0 <= value <= 1 for row in rows for value in row.values()):
            raise BadMessage("an accuracy by owner is not between 0 and 1")
        return by_owner

    def _fail(self, server_round: int, client: int, reason: str) -> None:
        reason = one_line(reason)  # the text of an error may quote what the client sent
        log.warning("round %d: client %d is left out: %s", server_round, client, reason)
        self.failures.append(Failure(server_round, client, reason))


def _terms(ledger: Ledger) -> tuple[Budget, str, str]:
    return ledger.budget, ledger.unit, ledger.trust


def _expected(replies: Iterable[Message], client_of: Mapping[int, int]) -> Iterator[tuple[int, Message]]:
    """Replies with their clients: the first of each node that was asked."""
    waiting = dict(client_of)
    for reply in replies:
        node = reply.metadata.src_node_id
        if node in waiting:
            yield waiting.pop(node), reply
        elif not (node == SUPERLINK_NODE_ID and reply.has_error()):  # so Flower says that a node is gone, but not which
            log.warning("a reply of node %d is dropped: it was not asked, or has answered already", node)
