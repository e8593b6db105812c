"""Federated boosting where a client's whole data is the unit: both sides; see `dpforest.boosting.client_level`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from flwr.app import ConfigRecord

from dpforest.boosting import Booster, BoostPlan, ClientPlan, ClientRows, OwnBooster
from dpforest.boosting.client_level import n_moment_columns, read_client_moments, release_client_moments
from dpforest.boosting.columns import Columns
from dpforest.guarantee import PrivacyUnit, TrustModel
from dpforest.mechanisms import DiscreteGaussianSums, DiscreteLaplaceCounts
from dpforest.noise import Noise
from dpforest.own_rows import STEPS
from dpforest.schema import Schema
from strategies.boost.server import BoostServer
from strategies.boost.settings import FederatedBoostSettings, client_level_terms, client_plan_of
from strategies.boost.wire import MOMENTS, TREES, asked_entry, caught_up, check_vectors, read_round, write_sums
from strategies.client_level import check_clients
from strategies.messages import RowsChanged
from strategies.method import Arrays, ClientTask, Entrusted, Released, Task, Update
from strategies.secure_aggregation import Terms
from strategies.secure_aggregation.sharing import secure_update
from strategies.trusted_server import LeftToServer

_STATE = "boost"
_KEPT: dict[str, Any] = {"codes": np.uint8, "tenths": np.int8, "scores": np.float32}


def train_client_level(task: ClientTask, X: np.ndarray, y: np.ndarray, arrays: Arrays) -> Update:
    """A client's noised vector, or its masked vector with a share of the noise."""
    plan = client_plan_of(task)
    if task.trust is TrustModel.SHARED:
        terms = client_level_terms(task, plan)
        return secure_update(task, terms, arrays, lambda: _noised_vector(task, plan, X, y, arrays).ravel())
    mechanism = plan.marginals if _asks_moments(task, plan) else plan.sums
    return sums_update(task, mechanism, plan, _noised_vector(task, plan, X, y, arrays))


def noise_of(task: ClientTask) -> Callable[[str], Noise]:
    """What a client's sums are noised from."""
    return (lambda purpose: LeftToServer()) if task.trust is TrustModel.CENTRAL else task.noise


def sums_update(
    task: ClientTask, mechanism: DiscreteGaussianSums | DiscreteLaplaceCounts, plan: BoostPlan, sums: np.ndarray
) -> Update:
    """A client's sums, noised or, for a trusted server, as they are: rounding would change what a record adds."""
    if task.trust is TrustModel.CENTRAL:
        entry = asked_entry(plan, task.config.get("step"))
        return Update(Entrusted(task.ledger, entry, write_sums(sums.ravel(), 0.0)))
    return Update(Released(task.ledger, write_sums(sums.ravel(), mechanism.variance**0.5)))


def _asks_moments(task: ClientTask, plan: ClientPlan) -> bool:
    return not plan.own and task.config.get("step") == MOMENTS


def _noised_vector(task: ClientTask, plan: ClientPlan, X: np.ndarray, y: np.ndarray, arrays: Arrays) -> np.ndarray:
    schema = task.schema
    if _asks_moments(task, plan):
        return release_client_moments(X, y, schema, plan, task.ledger, noise_of(task)("moments"))
    asked = read_round(arrays, plan.asked_schema(schema), plan)
    kept = task.state.config_records.get(_STATE)
    recalled = None if kept is None else _recall(kept, y, schema, plan)
    rows, known = caught_up(asked, recalled, lambda start: ClientRows.of(X, y, schema, plan, start))
    noised = rows.release(asked.structure, task.ledger, noise_of(task)("sums"))
    task.state[_STATE] = _record(rows, known)
    return noised


def _record(rows: ClientRows, known: int) -> ConfigRecord:
    """Codes, which take longest to make, and scores: any process may play this client in the next round."""
    tenths = b"" if rows.values is None else np.rint(rows.values * STEPS).astype(np.int8).tobytes()
    return ConfigRecord(
        {
            "codes": rows.codes.tobytes(),
            "tenths": tenths,
            "scores": rows.scores.tobytes(),
            "unit": rows.unit,
            "rounds": known,
        }
    )


def _recall(kept: ConfigRecord, y: np.ndarray, schema: Schema, plan: ClientPlan) -> tuple[ClientRows, int]:
    codes, tenths, scores = (np.frombuffer(bytes(kept[name]), kind) for name, kind in _KEPT.items())  # type: ignore[arg-type]
    if scores.size != len(y) * schema.n_outputs:
        raise RowsChanged
    shape = len(y), Columns(plan.asked_schema(schema)).number
    values = (tenths.astype(np.float32) / np.float32(STEPS)).reshape(shape) if plan.linear_share else None
    scores = scores.reshape(len(y), schema.n_outputs).copy()
    rows = ClientRows(schema, plan, codes.reshape(shape), values, y, float(kept["unit"]), scores)  # type: ignore[arg-type]
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
            return 2, n_moment_columns(schema)
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
        longest = plan.longest if self._has_start else plan.marginal_unit**2 * n_moment_columns(self.task.schema)
        check_vectors(sums, longest, self._mechanism, parties)
