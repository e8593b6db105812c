"""Federated boosting where a client's whole data is the unit: both sides; see `dpforest.boosting.client_level`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from flwr.app import ConfigRecord

from dpforest.boosting import Booster, ClientPlan, ClientRows, OwnBooster
from dpforest.boosting.client_level import read_client_moments, release_client_moments
from dpforest.boosting.columns import Columns
from dpforest.guarantee import PrivacyUnit, TrustModel
from dpforest.mechanisms import DiscreteGaussianSums, DiscreteLaplaceCounts
from dpforest.own_rows import STEPS
from dpforest.schema import Schema
from strategies.boost.server import BoostServer
from strategies.boost.settings import FederatedBoostSettings, client_level_terms, client_plan_of
from strategies.boost.wire import MOMENTS, TREES, check_vectors, read_round, write_sums
from strategies.client_level import check_clients
from strategies.messages import BadMessage, RowsChanged
from strategies.method import Arrays, ClientTask, Released, Task, Update
from strategies.secure_aggregation import Terms
from strategies.secure_aggregation.sharing import secure_update

_STATE = "boost"
_KEPT: dict[str, Any] = {"codes": np.uint8, "tenths": np.int8, "scores": np.float32}


def train_client_level(task: ClientTask, X: np.ndarray, y: np.ndarray, arrays: Arrays) -> Update:
    """A client's noised vector, or its masked vector with a share of the noise."""
    plan = client_plan_of(task)
    if task.trust is TrustModel.SHARED:
        terms = client_level_terms(task, plan)
        return secure_update(task, terms, arrays, lambda: _noised_vector(task, plan, X, y, arrays).ravel())
    noised = _noised_vector(task, plan, X, y, arrays)
    mechanism = plan.marginals if _asks_moments(task, plan) else plan.sums
    return Update(Released(task.ledger, write_sums(noised.ravel(), mechanism.variance**0.5)))


def _asks_moments(task: ClientTask, plan: ClientPlan) -> bool:
    return not plan.own and task.config.get("step") == MOMENTS


def _noised_vector(task: ClientTask, plan: ClientPlan, X: np.ndarray, y: np.ndarray, arrays: Arrays) -> np.ndarray:
    schema = task.schema
    if _asks_moments(task, plan):
        return release_client_moments(X, y, schema, plan, task.ledger, task.noise("moments"))
    asked = read_round(arrays, plan.asked_schema(schema), plan)
    kept = task.state.config_records.get(_STATE)
    if asked.start is not None:
        if asked.first:
            raise BadMessage(f"a start with finished rounds from {asked.first} only")
        rows, known = ClientRows.of(X, y, schema, plan, asked.start), 0
    elif kept is None:
        raise BadMessage("the first message of this run did not arrive; a start is needed")
    else:
        rows, known = _recall(kept, y, schema, plan)
    if asked.first > known:
        raise BadMessage(f"finished rounds from {asked.first}, but this client knows {known}")
    for done in asked.past[known - asked.first :]:
        rows.add(done.structure, done.weights, done.coefficients)
        known += 1
    noised = rows.release(asked.structure, task.ledger, task.noise("sums"))
    task.state[_STATE] = _record(rows, known)
    return noised


def _record(rows: ClientRows, known: int) -> ConfigRecord:
    """Codes, which take longest to make, and scores: any process may play this client in the next round."""
    tenths = b"" if rows.values is None else np.rint(rows.values * STEPS).astype(np.int8).tobytes()
    return ConfigRecord(
        {"codes": rows.codes.tobytes(), "tenths": tenths, "scores": rows.scores.tobytes(), "rounds": known}
    )


def _recall(kept: ConfigRecord, y: np.ndarray, schema: Schema, plan: ClientPlan) -> tuple[ClientRows, int]:
    codes, tenths, scores = (np.frombuffer(bytes(kept[name]), kind) for name, kind in _KEPT.items())  # type: ignore[arg-type]
    if scores.size != len(y) * schema.n_outputs:
        raise RowsChanged
    shape = len(y), Columns(plan.asked_schema(schema)).number
    values = (tenths.astype(np.float32) / np.float32(STEPS)).reshape(shape) if plan.linear_share else None
    rows = ClientRows(codes.reshape(shape), values, y, plan, scores.reshape(len(y), schema.n_outputs).copy())
    return rows, int(kept["rounds"])  # type: ignore[arg-type]


def boost_server(task: Task[FederatedBoostSettings]) -> BoostServer:
    """The server's side for the privacy unit of the task."""
    return ClientLevelServer(task) if task.unit is PrivacyUnit.CLIENT else BoostServer(task)


class ClientLevelServer(BoostServer):
    """Adds up one vector of each client a round."""

    plan: ClientPlan

    def report(self) -> dict[str, Any]:
        recipe = "own" if self.plan.own else "moments"
        return {**super().report(), "scale": recipe, "linear_share": self.plan.linear_share}

    def _make_plan(self) -> ClientPlan:
        check_clients(self.task)
        return client_plan_of(self.task)

    def _make_booster(self) -> Any:
        kind = OwnBooster if self.plan.own else Booster
        return kind(self.task.schema, self.plan, self.task.seed)

    def _terms(self) -> Terms:
        return client_level_terms(self.task, self.plan)

    def _read_first(self, total: np.ndarray, parties: int) -> None:
        read_client_moments(self.booster, total.reshape(self._shape), self.plan)

    @property
    def _shape(self) -> tuple[int, ...]:
        schema = self.task.schema
        if not self._has_start:
            return 2, schema.n_features
        return self.plan.vector_shape(schema, self.booster.structure.n_leaves)

    @property
    def _step(self) -> str:
        return TREES if self._has_start else MOMENTS

    @property
    def _mechanism(self) -> DiscreteGaussianSums | DiscreteLaplaceCounts:
        return self.plan.sums if self._has_start else self.plan.marginals

    @property
    def _length(self) -> int:
        return math.prod(self._shape)

    def _check_sums(self, sums: np.ndarray, parties: int) -> None:
        plan = self.plan
        longest = plan.longest if self._has_start else plan.marginal_unit**2 * self.task.schema.n_features
        check_vectors(sums, longest, self._mechanism, parties)
