"""Any method of the project as a Flower strategy."""

from __future__ import annotations

import itertools
import logging
import math
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from dpforest.errors import DPForestError, one_line
from dpforest.guarantee import TrustModel
from dpforest.ledger import rounded_up
from strategies.federation.cohort import Cohort
from strategies.federation.evaluation import (
    Evaluation,
    Joint,
    has_metrics,
    is_noised,
    joint,
    read_evaluation,
    refusal,
    refuses,
)
from strategies.federation.ledgers import Ledgers
from strategies.federation.result import Exchange, Failure, FederatedResult
from strategies.federation.roster import roster, wait_for, wait_for_nodes
from strategies.federation.shared_metrics import SharedMetrics
from strategies.federation.silence import Silent
from strategies.federation.traffic import Meter, Traffic
from strategies.flower_compat import SUPERLINK_NODE_ID, is_deployed
from strategies.messages import (
    ARRAYS,
    AT_END,
    CONFIG,
    LONGEST,
    UNPROTECTED,
    copied,
    plain_arrays,
    read_config,
    read_ledger,
    read_update,
    to_arrays_record,
)
from strategies.method import Arrays, ClientUpdate, ServerSide, Task, TooFewClients
from strategies.plan import RunPlan
from strategies.private_metrics import LAST, PrivateSums, can_be_private
from strategies.secure_aggregation import Phase

log = logging.getLogger(__name__)
Item = TypeVar("Item")
R = TypeVar("R", bound=FederatedResult)
_AWAY, _SILENT = "not connected", "silent since it gave no answer in time"
_REASONS = 3  # lost clients that the error at the end of a run names; all are in the log


class FederationPlan(RunPlan, Protocol):
    """A run as a server sees it."""

    def cohort(self, nodes: Mapping[int, int], connected: int) -> Cohort:
        """Who takes part, of the nodes that play clients, and of all that are connected."""

    def server_task(self, clients: int) -> Task[Any]:
        """`RunPlan.task`, with the public rows that a server may see."""

    def with_rounds(self, rounds: int) -> FederationPlan:
        """The same plan with another number of rounds."""

    def to_message(self) -> dict[str, str]:
        """What every message carries."""


class MethodStrategy(Strategy, Generic[R]):
    """Turns a method's `ServerSide` into messages, and replies into its updates.

    Parameters
    ----------
    plan : FederationPlan
        The method, its settings and who takes part.
    result_type : type
        Of what `start` returns.
    min_clients : float
        Share of the asked clients that must give a sound answer in every exchange.
    nodes : mapping of int to int, optional
        Which node plays which client, if it is known from an earlier run on the same grid; else the nodes are asked.
    on_exchange : callable of (Exchange, ServerSide), optional
        Called when an exchange has ended.
    """

    def __init__(
        self,
        plan: FederationPlan,
        result_type: type[R],
        *,
        min_clients: float = 0.5,
        nodes: Mapping[int, int] | None = None,
        on_exchange: Callable[[Exchange, ServerSide[Any]], None] | None = None,
    ) -> None:
        if not (isinstance(min_clients, int | float) and 0 < min_clients <= 1):
            raise DPForestError(f"min_clients {min_clients!r} must be a share above 0, at most 1")
        self._plan = plan
        self._result_type = result_type
        self._min_share = min_clients
        self._nodes = nodes
        self._on_exchange = on_exchange or (lambda exchange, side: None)

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord | None = None,
        num_rounds: int | None = None,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> R:
        """Train and evaluate, as `flwr.serverapp.strategy.Strategy.start` does; a round may take several exchanges.

        Parameters
        ----------
        grid : Grid
            A simulation, a federation of SuperNodes, or an in-process grid.
        initial_arrays : ArrayRecord, optional
            A network may begin from one; a forest begins from nothing.
        num_rounds : int, optional
            What the plan says if left out.
        timeout : float
            Seconds to wait for nodes, and for the answers of one exchange.
        train_config, evaluate_config : ConfigRecord, optional
            More settings for all messages.
        evaluate_fn : callable of (int, ArrayRecord), optional
            Called with 0 before the first round, and with the round whenever there is a new model.

        Returns
        -------
        FederatedResult
            Of the type that the strategy says.

        Raises
        ------
        DPForestError
            The plan does not fit the nodes, or exceeds the budget; nothing was trained.
        TooFewClients
            Too many clients failed.
        """
        began = time.perf_counter()
        self._begin(grid, num_rounds, timeout)
        result, side = self._result, self._side
        self.summary()
        if initial_arrays:
            side.start_from(plain_arrays(initial_arrays))
        result.arrays = to_arrays_record(side.initial_arrays())
        meter, rounds = Meter(grid), 0
        evaluate_on_server = partial(_evaluate_on_server, result, evaluate_fn)
        evaluate_on_server(0)
        for number in itertools.count(1):
            exchange = self._train(number, meter, train_config or ConfigRecord())
            last = number == side.exchanges or side.finished
            if side.is_round_end(number) or last:
                rounds += 1
                settings = ConfigRecord({**(evaluate_config or {}), LAST: last})
                exchange = self._evaluate(exchange, rounds, meter, settings)
                evaluate_on_server(rounds)
            result.exchanges.append(exchange)
            self._on_exchange(exchange, side)
            if last:
                break
        result.ledgers = self._ledgers.final(side, result.cohort.train)
        nodes = {**result.cohort.test, **result.cohort.train}
        result.traffic = {client: meter.by_node.get(node, Traffic()) for client, node in nodes.items()}
        result.seconds = time.perf_counter() - began
        return result

    def _begin(self, grid: Grid, num_rounds: int | None, timeout: float) -> None:
        plan = self._plan if num_rounds is None else self._plan.with_rounds(num_rounds)
        there = list((self._nodes or {}).values()) or wait_for_nodes(grid, 1, timeout)
        nodes = self._nodes or roster(grid, there, timeout)
        cohort = plan.cohort(nodes, len(there))
        self._require_players(cohort)
        self._side = plan.method.server(replace(plan.server_task(cohort.total), deployed=is_deployed(grid)))
        protection = plan.protection
        self._ledgers = Ledgers(protection.ledger(plan.budget, self._side.task.schema), protection.among_known)
        self._ledgers.blank.require(self._side.planned())
        self._result = self._result_type(side=self._side, cohort=cohort)
        self._timeout = timeout
        self._grid, self._silent = grid, Silent(grid)
        self._base_config = {
            **plan.to_message(),
            "run": uuid.uuid4().hex,
            "clients": cohort.total,
            "by-owner": bool(plan.memorization),
        }
        # A method that needs so many before an exchange says of whom; who has paid for it is then waited for.
        self._counts_clients = not self._side.is_enough(())
        self._chosen: list[int] = []  # who is to take part in the exchange
        self._asked: list[int] = []  # who of them is connected
        self._asked_to_evaluate: list[int] = []
        self._answered = 0
        self._evaluation: list[Evaluation] = []
        self._joint: Joint | None = None
        self._shares_no_metrics: dict[int, str] = {}  # client: its words
        self._shares_at_end: set[int] = set()
        self._metrics: SharedMetrics | None = None
        fits = can_be_private(plan.method, plan.protection, plan.budget.epsilon)
        self._release = PrivateSums(self._side.task.schema, plan.budget.epsilon) if fits else None

    def _require_players(self, cohort: Cohort) -> None:
        """Name the clients that nobody plays, and refuse a run with too few others."""
        for client, role in cohort.nobodys.items():
            log.warning("no node plays client %d, which is to %s: the run goes on without it", client, role)
        needed = math.ceil(self._min_share * cohort.to_train)
        if len(cohort.train) < needed:
            there = ", ".join(map(str, sorted(cohort.train))) or "none"
            raise DPForestError(
                f"nodes play {len(cohort.train)} of {cohort.to_train} clients that train ({there}), and {needed} "
                "are needed (min_clients): number nodes from 0 without gaps (partition-id in their configurations)"
            )

    def _train(self, number: int, meter: Meter, config: ConfigRecord) -> Exchange:
        messages = self.configure_train(number, self._result.arrays, config, meter.grid)
        replies, traffic = meter.exchange(messages, self._timeout)
        arrays, _ = self.aggregate_train(number, replies)
        if arrays is not None:
            self._result.arrays = arrays
        return Exchange(number, len(self._chosen), self._answered, traffic, self._side.round_facts())

    def _evaluate(self, exchange: Exchange, round_: int, meter: Meter, config: ConfigRecord) -> Exchange:
        of_all, of_sum = self._evaluate_in_a_sum(exchange, meter, config)
        messages = self.configure_evaluate(exchange.number, self._result.arrays, config, meter.grid)
        replies, traffic = meter.exchange(messages, self._timeout)
        metrics = self.aggregate_evaluate(exchange.number, replies)
        if of_all is not None:
            self._evaluation.insert(0, of_all)
            self._joint = joint(self._evaluation)
            metrics = MetricRecord({**self._joint.metrics})
        if metrics is not None:
            self._result.evaluate_metrics_clientapp[round_] = metrics
        return replace(exchange, evaluation=self._evaluation, joint=self._joint, evaluating=traffic + of_sum)

    def _evaluate_in_a_sum(
        self, exchange: Exchange, meter: Meter, config: ConfigRecord
    ) -> tuple[Evaluation | None, Traffic]:
        """Test metrics at the end of a run whose clients share noise; None where they do not, or no sum comes about.

        Who has not spent them then is asked as in any other run.
        """
        travelled = Traffic()
        counts = self._plan.metrics == "private" or is_deployed(meter.grid)
        shares = self._plan.protection.trust.kind is TrustModel.SHARED
        if self._release is None or not (shares and counts and config.get(LAST) is True):
            return None, travelled
        try:
            self._metrics = SharedMetrics(self._side.task)
            while chosen := self._metrics.participants(self._for_metrics()):
                replies, traffic = meter.exchange(self._ask_for_sum(exchange.number, chosen, config), self._timeout)
                travelled += traffic
                if (evaluation := self._metrics.take(self._parts_of_sum(exchange.number, chosen, replies))) is not None:
                    self._result.noised_metrics_received = self._result.metrics_are_of_a_sum = True
                    return evaluation, travelled
        except (TooFewClients, DPForestError) as error:
            log.info("no sum of test metrics: %s", error)
        return None, travelled

    def _for_metrics(self) -> list[int]:
        test, there = self._result.cohort.test, self._there()
        return [client for client in sorted(set(test) - set(self._shares_no_metrics)) if test[client] in there]

    def _ask_for_sum(self, server_round: int, chosen: list[int], config: ConfigRecord) -> list[Message]:
        assert self._metrics is not None
        messages = []
        for client in chosen:
            if self._metrics.phase is Phase.MASK:
                self._ledgers.ask_metrics(client, self._metrics.entry, True)
            arrays, phase = self._metrics.message(client, plain_arrays(self._result.arrays))
            settings = {**config, **self._base_config, **phase, "round": server_round}
            content = RecordDict({ARRAYS: to_arrays_record(arrays), CONFIG: copied(settings)})
            node = self._result.cohort.test[client]
            messages.append(Message(content, node, MessageType.EVALUATE, group_id=str(server_round)))
        return messages

    def _parts_of_sum(self, server_round: int, chosen: list[int], replies: Iterable[Message]) -> list[ClientUpdate]:
        client_of = {self._result.cohort.test[client]: client for client in chosen}
        words = "its evaluation could not be read", "no answer to the evaluation in time"
        updates = self._read_each(server_round, replies, client_of, self._take_part_of_sum, *words, training=False)
        return sorted((update for update in updates if update is not None), key=lambda update: update.client)

    def _take_part_of_sum(self, reply: Message, client: int) -> ClientUpdate | None:
        assert self._metrics is not None
        if refusal(reply) is not None:
            return None  # asked in the ordinary way, its owner's words are taken
        if not reply.has_error() and read_config(reply.content).get(UNPROTECTED) is True:
            self._ledgers.fail(client)
        update, ledger = read_update(reply, client)
        if self._metrics.phase is Phase.MASK:
            self._ledgers.take_metrics(client, self._metrics.entry, ledger)
        else:
            self._ledgers.check(client, ledger)
        if update.noise == "seeded":
            self._result.noise = "seeded"
        self._metrics.check(update)
        return update

    def summary(self) -> None:
        """Log what every client will release over the run."""
        for entry in self._side.planned():
            times = f" x {entry.times}" if entry.times > 1 else ""
            cost = f"epsilon {rounded_up(entry.epsilon, 4)}" if entry.epsilon else f"mu {rounded_up(entry.mu, 4)}"
            cost = cost if entry.is_noised else "no noise"
            log.info("  each client releases: %s (%s, %s%s)", entry.what, entry.mechanism, cost, times)
        for what in (*(entry.what for entry in self._ledgers.blank.entries), *self._side.unprotected()):
            log.warning("  UNPROTECTED: %s", what)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """One message to each client that takes part in the exchange."""
        side = self._side
        self._chosen = side.participants(server_round, self._available(server_round))
        self._asked = self._chosen
        if not self._counts_clients:
            train = self._result.cohort.train
            least = self._needed() if side.needs_answers else 0
            self._asked = self._connected(server_round, {client: train[client] for client in self._chosen}, least)
        for client in self._asked:
            self._ledgers.ask(client, side.charges(server_round, client))
        model = arrays if len(arrays) else None
        messages = []
        same: tuple[Arrays, ArrayRecord] | None = None  # packed once for all clients in a row that get the same
        for client in self._asked:
            own = side.arrays_for(server_round, client)
            settings = {**config, **self._base_config, **side.config(server_round, client), "round": server_round}
            content = RecordDict({CONFIG: copied(settings)})
            if own is not None:
                if same is None or same[0] is not own:
                    same = own, to_arrays_record(own)
                content[ARRAYS] = same[1]
            elif model is not None:
                content[ARRAYS] = model
            node = self._result.cohort.train[client]
            messages.append(Message(content, node, MessageType.TRAIN, group_id=str(server_round)))
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
        self._answered = len(updates)
        if len(updates) < self._needed() and self._side.needs_answers:
            raise TooFewClients(
                f"round {server_round}: {len(updates)} of {len(self._chosen)} clients gave a sound answer, "
                f"{self._needed()} are needed{self._why_lost(server_round)}"
            )
        try:
            model = self._side.aggregate(server_round, updates)
        except TooFewClients as error:
            raise TooFewClients(f"{error}{self._why_lost(server_round)}") from error
        return (to_arrays_record(model) if model else None), None

    def _why_lost(self, server_round: int) -> str:
        """Why clients are missing in an exchange, and what to do."""
        failed = [f for f in self._result.failures if f.round == server_round]
        if not failed:
            return ""
        by_reason: dict[str, list[int]] = {}
        for failure in sorted(failed, key=lambda failure: failure.client):
            by_reason.setdefault(failure.reason, []).append(failure.client)
        first = list(by_reason.items())[:_REASONS]
        reasons = "; ".join(f"client {', '.join(map(str, clients))}: {reason}" for reason, clients in first)
        if more := len(failed) - sum(len(clients) for _, clients in first):
            reasons += f"; {more} more"
        return f" ({reasons}); {_advice(failed)}"

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask every client with test rows to evaluate the current model, but for those that have refused to."""
        messages = []
        test, is_last = self._result.cohort.test, config.get(LAST) is True
        refusing = set(self._shares_no_metrics) | (set() if is_last else self._shares_at_end)
        refusing |= set() if self._metrics is None else self._metrics.charged
        wanted = {client: test[client] for client in sorted(set(test) - refusing)}
        self._asked_to_evaluate = self._connected(server_round, wanted, 0, training=False)
        for client in self._asked_to_evaluate:
            if is_last and self._release is not None:
                # Who of a simulation says nothing has sent nothing, unless asked for what is charged.
                counts = self._plan.metrics == "private" or is_deployed(grid)
                self._ledgers.ask_metrics(client, self._release.entry, counts)
            settings = {**config, **self._base_config, "round": server_round}
            content = RecordDict({ARRAYS: arrays, CONFIG: copied(settings)})
            messages.append(Message(content, test[client], MessageType.EVALUATE, group_id=str(server_round)))
        return messages

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Metrics over all test rows together."""
        test = self._result.cohort.test
        asked = set(self._asked_to_evaluate)
        client_of = {test[client]: client for client in asked}
        words = "its evaluation could not be read", "no answer to the evaluation in time"
        answers = self._read_each(server_round, replies, client_of, self._take_evaluation, *words, training=False)
        # In the order of clients, whatever the order of replies: sums of floats depend on it in their last digits.
        self._evaluation = sorted((a for a in answers if a is not None), key=lambda answer: answer.client)
        refusals = {client: self._shares_no_metrics[client] for client in sorted(asked & set(self._shares_no_metrics))}
        for reason in dict.fromkeys(refusals.values()):
            clients = ", ".join(str(client) for client, other in refusals.items() if other == reason)
            log.info("no test metrics of client %s: %s", clients, reason)
        self._joint = joint(self._evaluation) if self._evaluation else None
        return MetricRecord({**self._joint.metrics}) if self._joint else None

    def _available(self, server_round: int) -> list[int]:
        """Clients to choose from: all, or those that are connected where an exchange needs some number of them."""
        train, side = self._result.cohort.train, self._side
        if side.is_enough(()):
            return sorted(train)
        connected = wait_for(self._there, train, side.is_enough, self._timeout)
        for client in sorted(set(train) - connected):
            self._fail(server_round, client, self._absence(train[client]))
        return sorted(connected)

    def _connected(self, server_round: int, nodes: Mapping[int, int], least: int, training: bool = True) -> list[int]:
        """Who of these is there to be asked; the others are named, and asked again when they are back."""
        connected = wait_for(self._there, nodes, lambda clients: len(clients) >= least, self._timeout)
        for client in sorted(set(nodes) - connected):
            self._fail(server_round, client, self._absence(nodes[client]), training)
        return [client for client in nodes if client in connected]

    def _there(self) -> set[int]:
        """Nodes that are connected, and have answered when they were last waited for."""
        return set(self._grid.get_node_ids()) - self._silent.nodes()

    def _absence(self, node: int) -> str:
        return _SILENT if node in self._silent else _AWAY

    def _needed(self) -> int:
        """Sound answers that an exchange needs."""
        # Nobody chosen (an empty Poisson sample) is a round like any other: its noise must still be released.
        return int(np.ceil(self._min_share * len(self._chosen)))

    def _sound_updates(self, server_round: int, replies: Iterable[Message]) -> list[ClientUpdate]:
        client_of = {self._result.cohort.train[client]: client for client in self._asked}
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
        training: bool = True,
    ) -> list[Item]:
        """What ``take`` makes of the replies; one that is missing or not sound costs its client only, and is noted."""
        missing = set(client_of.values())
        taken = []
        for client, reply in _expected(replies, client_of):
            missing.discard(client)
            try:
                item = take(reply, client)
            except DPForestError as error:
                self._fail(server_round, client, str(error), training, refuses(reply))
                continue
            except Exception as error:
                # Nobody's message may end the run of all, not even one that a method did not think of.
                log.debug("client %d: %s", client, unreadable, exc_info=True)
                self._fail(server_round, client, f"{unreadable}: {type(error).__name__}: {error}", training)
                continue
            taken.append(item)
        for client in sorted(missing):
            self._fail(server_round, client, late, training)
        self._silent.add(node for node, client in client_of.items() if client in missing)
        return taken

    def _take_update(self, server_round: int, reply: Message, client: int) -> ClientUpdate:
        if not reply.has_error() and read_config(reply.content).get(UNPROTECTED) is True:
            self._ledgers.fail(client)
        update, ledger = read_update(reply, client)
        self._ledgers.check(client, ledger)
        # What a client has released counts even if its update turns out to be of no use.
        self._ledgers.take(client, self._side.charges(server_round, client, update), update, ledger)
        if update.noise == "seeded":
            self._result.noise = "seeded"
        self._side.check(update)
        return update

    def _take_evaluation(self, reply: Message, client: int) -> Evaluation | None:
        """What a client reports; nothing if its owner shares no metrics, which is no failure and does not change."""
        if (words := refusal(reply)) is not None:
            if read_config(reply.content).get(AT_END) is True and client not in self._shares_at_end:
                self._shares_at_end.add(client)
                return None
            self._shares_no_metrics[client] = words
            self._ledgers.shares_otherwise(client)
            return None
        if is_noised(reply):
            return self._take_private(reply, client)
        self._result.metrics_received |= has_metrics(reply)
        if not reply.has_error() and read_config(reply.content).get(UNPROTECTED) is True:
            self._ledgers.fail(client)
        evaluation = read_evaluation(reply, client, self._side.task.schema, self._result.cohort.train)
        self._ledgers.shares_otherwise(client)
        if evaluation.own_model:
            self._side.take_own_model(client, evaluation.own_model)
        return evaluation

    def _take_private(self, reply: Message, client: int) -> Evaluation:
        """Noised test metrics, which count as spent whatever they are worth."""
        schema = self._side.task.schema
        if self._release is not None:
            self._ledgers.take_metrics(client, self._release.entry, read_ledger(reply))
            self._result.noised_metrics_received = True
            if read_config(reply.content).get("noise") != "secure":
                self._result.noise = "seeded"
        return read_evaluation(reply, client, schema, self._result.cohort.train, self._release)

    def _fail(self, server_round: int, client: int, reason: str, training: bool = True, refused: bool = False) -> None:
        reason = one_line(reason, LONGEST)  # the text of an error may quote what the client sent
        log.warning("round %d: client %d is left out: %s", server_round, client, reason)
        self._result.failures.append(Failure(server_round, client, reason, training, refused))


def _advice(failed: Sequence[Failure]) -> str:
    """What to do about clients that gave no sound answer: who refuses is not broken."""
    refusing = sum(failure.refused for failure in failed)
    asking = "ask the owners of those that refuse, or change the experiment to what they allow"
    if refusing == len(failed) > 0:
        return asking
    return f"{asking}, and fix the others or lower min_clients" if refusing else "fix the clients or lower min_clients"


def _evaluate_on_server(
    result: FederatedResult, evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None, round_: int
) -> None:
    metrics = evaluate_fn(round_, result.arrays) if evaluate_fn else None
    if metrics is not None:
        result.evaluate_metrics_serverapp[round_] = metrics


def _expected(replies: Iterable[Message], client_of: Mapping[int, int]) -> Iterator[tuple[int, Message]]:
    """Replies with their clients: the first of each node that was asked."""
    waiting = dict(client_of)
    for reply in replies:
        node = reply.metadata.src_node_id
        if node in waiting:
            yield waiting.pop(node), reply
        elif not (node == SUPERLINK_NODE_ID and reply.has_error()):  # so Flower says that a node is gone, but not which
            log.warning("a reply of node %d is dropped: it was not asked, or has answered already", node)
