"""The client's side of LDP bagged trees."""

from __future__ import annotations

import numpy as np

from dpforest.errors import DPForestError
from dpforest.forest import pack
from dpforest.growers import grow_classifier
from strategies.forests import ForestClient
from strategies.ldp_bagging.published import train_published
from strategies.ldp_bagging.rounds import RoundPlan, plan_rounds
from strategies.ldp_bagging.settings import LdpBaggingSettings, check_target
from strategies.messages import to_arrays_record
from strategies.method import Arrays, ClientTask, Update
from strategies.part_ledger import PartLedger

# Kept on the client between rounds.
_PARTS = "ldp-bagging-parts"


class LdpBaggingClient(ForestClient):
    """Grows one tree a round."""

    def train(self, task: ClientTask, X: np.ndarray, y: np.ndarray, arrays: Arrays) -> Update:
        settings: LdpBaggingSettings = task.settings
        check_target(settings, task.schema)
        if task.round > task.rounds:
            raise DPForestError(f"round {task.round} is not in the plan of {task.rounds} rounds")
        if settings.accounting == "published":
            return train_published(task, X, y)
        plan = plan_rounds(task)
        ledger = PartLedger(task.ledger, plan.rows(task.round), f"round {task.round}: ")
        if plan.disjoint:
            mine = _parts(task, len(y), plan) == task.round - 1
            X, y = X[mine], y[mine]
        counts = grow_classifier(X, y, task.schema, plan.resolved, plan.epsilon, ledger, task.noise("tree"))
        return Update(pack(counts))


def _parts(task: ClientTask, n_rows: int, plan: RoundPlan) -> np.ndarray:
    """The round that each row belongs to; every row draws for itself, once, and the draw stays on the client."""
    kept = task.state.array_records.get(_PARTS)
    if kept is not None:
        parts = kept["parts"].numpy()
        if len(parts) != n_rows:
            raise DPForestError("the rows of this client have changed since the first round: start a new run")
        return parts
    parts = task.rng("parts").integers(plan.rounds, size=n_rows).astype(np.int16)
    task.state[_PARTS] = to_arrays_record({"parts": parts})
    return parts
