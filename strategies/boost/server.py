"""The server's side of federated boosting."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from sklearn.metrics import accuracy_score, r2_score

from dpforest.boosting import Booster, BoostPlan
from dpforest.boosting.bins import marginal_shape
from dpforest.errors import DPForestError
from dpforest.forest import feature_importances, pack
from dpforest.guarantee import TrustModel
from dpforest.ledger import Budget, Entry, rounded_up, total_epsilon
from strategies.boost.settings import FederatedBoostSettings, plan_of, secure_terms
from strategies.boost.wire import check_leaf_sums, read_sums, write_round
from strategies.forests import model_arrays, save_forest
from strategies.method import Arrays, Charges, ClientUpdate, ServerSide, Task, TooFewClients
from strategies.secure_aggregation import Phase, SumCollector, Terms, Total
from strategies.secure_aggregation.rounds import SumRounds


class BoostServer(ServerSide):
    """Adds up the clients' sums and fills trees of random structure with them."""

    first_step: ClassVar[str] = "histograms"
    """What clients are asked before the first trees."""

    def __init__(self, task: Task[FederatedBoostSettings]) -> None:
        super().__init__(task)
        self._settings = task.settings
        self._plan = self._make_plan()
        self._booster = self._make_booster()
        self._has_start = self._plan.starts_with_trees
        self._released = 0  # rounds in which clients sent sums of trees, whether or not they came to a total
        self._ends_round = False
        self._known: dict[int, int] = {}  # finished rounds that a client knows; not here: it may lack the start
        self._public = task.public_rows() if task.public_rows else None
        self._public_score: float | None = None
        self._collector: SumCollector | None = None
        self._sums: SumRounds | None = None
        if task.trust is TrustModel.SHARED:
            self._collector = SumCollector(self._terms(), 0)
            self._sums = SumRounds(self._collector, task.rounds)

    def planned(self) -> list[Entry]:
        return self._plan.planned()

    def charges(self, exchange: int, client: int, update: ClientUpdate | None = None) -> Charges:
        if self._collector is not None and self._collector.phase is not Phase.MASK:
            return Charges()
        return Charges(each=[self._plan.round_entry if self._has_start else self._plan.marginal_entry])

    @property
    def exchanges(self) -> int:
        first = int(not self._plan.starts_with_trees)
        return self._collector.exchanges if self._collector else self.task.rounds + first

    def is_round_end(self, exchange: int) -> bool:
        return self._ends_round

    def is_enough(self, clients: Collection[int]) -> bool:
        return self._collector is None or self._collector.is_enough(clients)

    @property
    def needs_answers(self) -> bool:
        # A secure sum knows how many it needs.
        return self._collector is None

    def participants(self, exchange: int, clients: list[int]) -> list[int]:
        if self._collector is None:
            return clients
        self._collector.length = int(np.prod(self._shape))
        return self._collector.participants(clients)

    def arrays_for(self, exchange: int, client: int) -> Arrays:
        secure = self._collector.message(client) if self._collector else {}
        if not self._has_start or (self._collector and self._collector.phase is not Phase.MASK):
            return secure
        known = self._known.get(client)
        first = known or 0
        start = self._booster.start if known is None else None
        return {**secure, **write_round(start, first, self._booster.rounds[first:], self._booster.structure)}

    def config(self, exchange: int, client: int) -> Mapping[str, Any]:
        step = "trees" if self._has_start else self.first_step
        return {"step": step, "phase": self._collector.phase.value} if self._collector else {"step": step}

    def check(self, update: ClientUpdate) -> None:
        if self._collector:
            self._collector.check(update.client, update.arrays)
        else:
            self._read(update)

    def aggregate(self, exchange: int, updates: list[ClientUpdate]) -> Arrays | None:
        before = len(self._booster.rounds)
        if self._sums is None:
            self._note(updates)
            self._learn(np.sum([self._read(update) for update in updates], axis=0), len(updates))
        else:
            self._take_secure_replies(self._sums, updates)
        rounds = len(self._booster.rounds)
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
        forest = self._booster.forest({})
        return model_arrays(forest, pack(forest))

    @property
    def finished(self) -> bool:
        return self._collector is not None and self._collector.phase is Phase.DONE

    def progress(self) -> str:
        if not self._booster.rounds:
            return "agreeing on keys and cuts" if self._collector else "cuts chosen"
        words = f"{self.round_facts()['trees']} trees, epsilon spent {rounded_up(self._spent(), 3)}"
        if self._public_score is None:
            return words
        return f"{words}, {self._public_metric.replace('_', ' ')} on public rows {self._public_score:.3f}"

    def round_facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"trees": len(self._booster.rounds) * self._plan.trees_per_round}
        if self._public_score is not None:
            facts[f"public_{self._public_metric}"] = self._public_score
        return facts

    def report(self) -> dict[str, Any]:
        forest = self._booster.forest({})
        names = forest.schema.feature_names
        facts: dict[str, Any] = {}
        if lost := self._released - len(self._booster.rounds):
            facts["rounds_given_up"] = lost
        if self._sums:
            facts |= self._sums.report()
        return facts | {
            "trees": forest.n_trees,
            "nodes": forest.n_nodes,
            "depth": int(forest.depths.max()),
            "importances": {name: float(value) for name, value in zip(names, feature_importances(forest), strict=True)},
        }

    def save(self, folder: Path) -> None:
        save_forest(self._booster.forest({"method": "boost", "trust": self.task.trust}), folder)

    @property
    def _public_metric(self) -> str:
        return "accuracy" if self.task.schema.is_classification else "r2"

    def _score_public_rows(self) -> float | None:
        if self._public is None or not len(self._public[1]) or self._plan.starts_with_trees:
            return None  # nobody's scale is that of other people's rows
        X, y = self._public
        predicted = self._booster.forest({}).predict(X)
        return float(accuracy_score(y, predicted) if self.task.schema.is_classification else r2_score(y, predicted))

    @property
    def _shape(self) -> tuple[int, ...]:
        """Of the sums that clients send next."""
        schema, settings = self.task.schema, self._settings
        if not self._has_start:
            return marginal_shape(schema, settings.bins)
        structure = self._booster.structure
        return structure.n_trees, structure.n_leaves, schema.n_outputs + 1

    def _read(self, update: ClientUpdate) -> np.ndarray:
        mechanism = self._plan.sums if self._has_start else self._plan.marginals
        deviation = mechanism.variance**0.5
        sums = read_sums(update.arrays, self._shape, deviation)
        self._check_sums(sums, 1)
        return sums

    def _note(self, updates: list[ClientUpdate]) -> None:
        """Keep in mind which clients know which trees: those that just answered know all there were."""
        if self._has_start:
            self._released += 1
            self._known = {update.client: len(self._booster.rounds) for update in updates}

    def _learn(self, total: np.ndarray, parties: int) -> None:
        if self._has_start:
            self._booster.read_sums(total, parties)
        else:
            self._read_first(total, parties)
            self._has_start = True

    def _read_first(self, total: np.ndarray, parties: int) -> None:
        """Begin with the sum of what clients sent before the first trees."""
        self._booster.read_marginals(total, parties)

    def _make_plan(self) -> BoostPlan:
        plan = plan_of(self.task)
        self._refuse_drowned()
        return plan

    def _make_booster(self) -> Any:
        return Booster(self.task.schema, self._plan, self.task.seed)

    def _terms(self) -> Terms:
        return secure_terms(self.task, self._plan).terms

    def _take_secure_replies(self, sums: SumRounds, updates: list[ClientUpdate]) -> None:
        if sums.collector.phase is Phase.MASK:
            self._note(updates)
        # Without keys or cuts there is nothing to go on with.
        total = sums.take(updates, self._check_total, is_needed=not self._has_start)
        if total is not None:
            self._learn(total.values.reshape(self._shape), len(total.clients))
        sums.note(len(self._booster.rounds))

    def _check_total(self, total: Total) -> None:
        self._check_sums(total.values.reshape(self._shape), len(total.clients))

    def _check_sums(self, sums: np.ndarray, parties: int) -> None:
        """Refuse sums over so many clients that they cannot have made."""
        if self._has_start:
            check_leaf_sums(sums, self._plan, self._deviation(parties))

    def _deviation(self, parties: int) -> float:
        return (parties * self._plan.sums.variance) ** 0.5

    def _spent(self) -> float:
        entry = self._plan.round_entry
        trees = Entry(**{**entry.__dict__, "times": entry.times * self._released})
        return total_epsilon([*self._plan.planned()[:-1], trees], self.task.budget.delta)

    def _refuse_drowned(self) -> None:
        """Refuse a budget under which the public number of records does not stand out of the noise of a leaf."""
        rows = self.task.schema.rows
        if rows is None or self._settings.depth != "auto":
            return
        parties = max(1, self.task.clients)

        def is_enough(epsilon: float) -> bool:
            task = replace(self.task, budget=Budget(epsilon, self.task.budget.delta))
            return plan_of(task).stands_out(rows * parties, parties)

        epsilon = self.task.budget.epsilon
        if is_enough(epsilon):
            return
        if not is_enough(math.inf):
            raise DPForestError(
                f"about {rows} records of {parties} clients are too few for a tree, whatever epsilon "
                "(set strategy.depth to try anyway)"
            )
        while not is_enough(epsilon):
            epsilon *= 1.1
        raise DPForestError(
            f"privacy.epsilon={rounded_up(self.task.budget.epsilon)} leaves no tree above the noise for about {rows} "
            f"records of {parties} clients: from {rounded_up(epsilon, 2)} on one of depth 1 does (or set "
            "strategy.depth to try anyway)"
        )
