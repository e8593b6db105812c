"""The server's side of federated boosting."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score, r2_score

from dpforest.boosting import Booster, BoostPlan, Layout
from dpforest.boosting.bins import marginal_shape
from dpforest.errors import DPForestError, NothingToLearn
from dpforest.forest import feature_importances, pack
from dpforest.guarantee import TrustModel
from dpforest.ledger import Budget, Entry, rounded_up, total_epsilon
from dpforest.mechanisms import DiscreteGaussianSums, DiscreteLaplaceCounts
from strategies.boost.settings import FederatedBoostSettings, noises, plan_of, secure_terms
from strategies.boost.wire import (
    HISTOGRAMS,
    MOMENTS,
    TREES,
    asked_entry,
    asked_mechanism,
    check_histograms,
    check_moments,
    check_round_sums,
    read_sums,
    write_round,
    write_standard,
)
from strategies.forests import model_arrays, save_forest
from strategies.messages import BadMessage
from strategies.method import Arrays, Charges, ClientUpdate, ServerSide, Signal, Task, TooFewClients
from strategies.secure_aggregation import Phase, SumCollector, Terms, Total
from strategies.secure_aggregation.rounds import SumRounds
from strategies.trusted_server import TrustedSums


class BoostServer(ServerSide):
    """Adds up the clients' sums and fills trees of random structure with them."""

    def __init__(self, task: Task[FederatedBoostSettings]) -> None:
        super().__init__(task)
        self._settings = task.settings
        self.plan = self._make_plan()
        self.booster = self._make_booster()
        self._has_start = self.plan.starts_with_trees
        self._released = 0  # rounds in which clients sent sums of trees, whether or not they came to a total
        self._ends_round = False
        self.known_rounds: dict[int, int] = {}  # finished rounds that a client knows; not here: it may lack the start
        self._public = task.public_rows() if task.public_rows else None
        self._public_score: float | None = None
        self.collector: SumCollector | None = None
        self._sums: SumRounds | None = None
        if task.trust is TrustModel.SHARED:
            self.collector = SumCollector(self._terms(), 0)
            self._sums = SumRounds(self.collector, task.rounds)
        self._trusted = TrustedSums(task) if task.trust is TrustModel.CENTRAL else None

    def planned(self) -> list[Entry]:
        return self.plan.planned()

    def signal(self) -> Signal | None:
        plan, parties = self.plan, noises(self.task)
        if self.task.schema.rows is None:
            return None
        records = float(self.task.schema.rows * max(1, self.task.clients))
        depth = plan.depth(records, parties)
        noise = math.sqrt(parties * plan.sums.variance) / plan.unit
        numbers = plan.trees * 2**depth * (self.task.schema.n_outputs + 1)
        return Signal(plan.trees, depth, records / 2**depth, noise, plan.stands_out(records, parties), numbers)

    def charges(self, exchange: int, client: int, update: ClientUpdate | None = None) -> Charges:
        if self.collector is not None and self.collector.phase is not Phase.MASK:
            return Charges()
        return Charges(each=[self._entry])

    @property
    def exchanges(self) -> int:
        first = int(not self.plan.starts_with_trees) + self.plan.moment_rounds
        return self.collector.exchanges if self.collector else self.task.rounds + first

    def is_round_end(self, exchange: int) -> bool:
        return self._ends_round

    def is_enough(self, clients: Collection[int]) -> bool:
        return self.collector is None or self.collector.is_enough(clients)

    @property
    def needs_answers(self) -> bool:
        # A secure sum knows how many it needs.
        return self.collector is None

    def participants(self, exchange: int, clients: list[int]) -> list[int]:
        if self.collector is None:
            return clients
        self.collector.length, self.collector.what = self._length, self._entry.what
        return self.collector.participants(clients)

    def arrays_for(self, exchange: int, client: int) -> Arrays:
        secure = self.collector.message(client) if self.collector else {}
        if not self._has_start or (self.collector and self.collector.phase is not Phase.MASK):
            return secure
        if self._step == MOMENTS:
            return {**secure, **write_standard(self.booster.standard)}
        known = self.known_rounds.get(client)
        first = known or 0
        start = self.booster.start if known is None else None
        return {**secure, **write_round(start, first, self.booster.rounds[first:], self.booster.structure)}

    def config(self, exchange: int, client: int) -> Mapping[str, Any]:
        return {"step": self._step, "phase": self.collector.phase.value} if self.collector else {"step": self._step}

    def check(self, update: ClientUpdate) -> None:
        if self.collector:
            self.collector.check(update.client, update.arrays)
        else:
            self._read(update)

    def aggregate(self, exchange: int, updates: list[ClientUpdate]) -> Arrays | None:
        before = len(self.booster.rounds)
        if self._sums is None:
            self._note(updates)
            total = np.sum([self._read(update) for update in updates], axis=0)
            if self._trusted is None:
                self._learn(total, len(updates))
            else:
                self._learn(self._trusted.release(total, updates, exchange, self._mechanism, self._entry), 1)
        else:
            self._take_secure_replies(self._sums, updates)
        rounds = len(self.booster.rounds)
        if rounds > before:
            self._public_score = self._score_public_rows()
        last = exchange == self.exchanges or self.finished
        if last and not rounds:
            why = (self._sums and self._sums.ended) or "too few clients answered in every one of them"
            raise TooFewClients(f"no round was finished: {why}")
        every = self._settings.evaluate_every
        self._ends_round = last or (rounds > before and every > 0 and rounds % every == 0)
        if not self._ends_round:
            return None
        forest = self.booster.forest({})
        return model_arrays(forest, pack(forest))

    @property
    def finished(self) -> bool:
        return self.collector is not None and self.collector.phase is Phase.DONE

    @property
    def rounds_done(self) -> int:
        return len(self.booster.rounds)

    def progress(self) -> str:
        if not self.booster.rounds:
            return "agreeing on keys and cuts" if self.collector else "cuts chosen"
        words = f"{self.round_facts()['trees']} trees, epsilon spent {rounded_up(self._spent(), 3)}"
        if self._public_score is None:
            return words
        return f"{words}, {self._public_metric.replace('_', ' ')} on public rows {self._public_score:.3f}"

    def round_facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"trees": len(self.booster.rounds) * self.plan.trees_per_round}
        if self._public_score is not None:
            facts[f"public_{self._public_metric}"] = self._public_score
        return facts

    def report(self) -> dict[str, Any]:
        forest = self.booster.forest({})
        names = forest.schema.feature_names
        facts: dict[str, Any] = {}
        if lost := self._released - len(self.booster.rounds):
            facts["rounds_given_up"] = lost
        if self._sums:
            facts |= self._sums.report()
        if self._trusted:
            facts["server_ledger"] = self._trusted.ledger.to_dict()
        return facts | {
            "trees": forest.n_trees,
            "nodes": forest.n_nodes,
            "depth": int(forest.depths.max()),
            "importances": {name: float(value) for name, value in zip(names, feature_importances(forest), strict=True)},
        }

    def save(self, folder: Path) -> None:
        save_forest(self.booster.forest({"method": "boost", "trust": self.task.trust}), folder)

    @property
    def _public_metric(self) -> str:
        return "accuracy" if self.task.schema.is_classification else "r2"

    def _score_public_rows(self) -> float | None:
        if self._public is None or not len(self._public[1]) or self.plan.starts_with_trees:
            return None  # nobody's scale is that of other people's rows
        X, y = self._public
        predicted = self.booster.forest({}).predict(X)
        return float(accuracy_score(y, predicted) if self.task.schema.is_classification else r2_score(y, predicted))

    @property
    def _step(self) -> str:
        """What clients are asked for next."""
        if not self._has_start:
            return HISTOGRAMS
        return MOMENTS if self.booster.needs_moments else TREES

    @property
    def _entry(self) -> Entry:
        """Ledger line of what they send."""
        return asked_entry(self.plan, self._step)

    @property
    def _mechanism(self) -> DiscreteGaussianSums | DiscreteLaplaceCounts:
        """What noises what they send."""
        return asked_mechanism(self.plan, self._step)

    @property
    def _length(self) -> int:
        """Of the sums that they send."""
        if self._step == HISTOGRAMS:
            return math.prod(marginal_shape(self.task.schema, self._settings.bins))
        if self._step == MOMENTS:
            return 2 * len(self.task.schema.numeric_features)
        return self._layout.length

    @property
    def _layout(self) -> Layout:
        return Layout.of(self.booster.structure, self.task.schema, self.plan)

    def _read(self, update: ClientUpdate) -> np.ndarray:
        deviation = 0.0 if self._trusted else self._mechanism.variance**0.5
        sums = read_sums(update.arrays, (self._length,), deviation, self.task.clients)
        self._check_sums(sums, 1)
        return sums

    def _check_sums(self, sums: np.ndarray, parties: int) -> None:
        schema, plan = self.task.schema, self.plan
        if self._step == TREES:
            check_round_sums(sums, self._layout, schema, plan, parties)
        elif self._step == MOMENTS and plan.linear:
            check_moments(sums, plan.linear, schema, parties)
        else:
            check_histograms(sums.reshape(marginal_shape(schema, self._settings.bins)), schema, plan, parties)

    def _note(self, updates: list[ClientUpdate]) -> None:
        """Keep in mind which clients know which trees: those that just answered know all there were."""
        if self._step == TREES:
            self._released += 1
            self.known_rounds = {update.client: len(self.booster.rounds) for update in updates}

    def _learn(self, total: np.ndarray, parties: int) -> None:
        if self._step == TREES:
            self.booster.read_sums(total, parties)
        elif self._has_start:
            self.booster.read_moments(total, parties)
        else:
            self._read_first(total, parties)
            self._has_start = True

    def _read_first(self, total: np.ndarray, parties: int) -> None:
        """Begin with the sum of what clients sent first."""
        self.booster.read_marginals(total.reshape(marginal_shape(self.task.schema, self._settings.bins)), parties)

    def _make_plan(self) -> BoostPlan:
        plan = plan_of(self.task)
        self._refuse_drowned()
        return plan

    def _make_booster(self) -> Any:
        return Booster(self.task.schema, self.plan, self.task.seed)

    def _terms(self) -> Terms:
        return secure_terms(self.task, self.plan).terms

    def _take_secure_replies(self, sums: SumRounds, updates: list[ClientUpdate]) -> None:
        if sums.collector.phase is Phase.MASK:
            self._note(updates)
        # Without keys or cuts there is nothing to go on with.
        total = sums.take(updates, self._check_total, is_needed=not self._has_start)
        if total is not None:
            self._learn(total.values, len(total.clients))
        elif sums.gave_up and self._has_start and self._step == MOMENTS:
            self.booster.skip_moments()  # clients have paid for them, and the units so far will do
        sums.note(len(self.booster.rounds))

    def _check_total(self, total: Total) -> None:
        try:
            self._check_sums(total.values, len(total.clients))
        except BadMessage as error:
            raise DPForestError(f"{error}; a client, and which one does not show, sent sums of its own") from error

    def _spent(self) -> float:
        *before, _ = self.plan.planned()
        entry = self.plan.round_entry
        return total_epsilon([*before, replace(entry, times=entry.times * self._released)], self.task.budget.delta)

    def _refuse_drowned(self) -> None:
        """Refuse a budget under which the public number of records does not stand out of the noise of a leaf."""
        rows = self.task.schema.rows
        if rows is None or self._settings.depth != "auto":
            return
        parties = max(1, self.task.clients)

        def is_enough(epsilon: float) -> bool:
            task = replace(self.task, budget=Budget(epsilon, self.task.budget.delta))
            return plan_of(task).stands_out(rows * parties, noises(task))

        epsilon = self.task.budget.epsilon
        if is_enough(epsilon):
            return
        if not is_enough(math.inf):
            raise NothingToLearn(
                f"about {rows} records of {parties} clients are too few for a tree, whatever epsilon "
                "(set strategy.depth to try anyway)"
            )
        while not is_enough(epsilon):
            epsilon *= 1.1
        raise NothingToLearn(
            f"privacy.epsilon={rounded_up(self.task.budget.epsilon)} leaves no tree above the noise for about {rows} "
            f"records of {parties} clients: from {rounded_up(epsilon, 2)} on one of depth 1 does (or set "
            "strategy.depth to try anyway)"
        )
