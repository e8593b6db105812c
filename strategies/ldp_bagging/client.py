"""The client's side of LDP bagged trees."""

from __future__ import annotations

import numpy as np

from dpforest.errors import DPForestError
from dpforest.forest import pack
from dpforest.growers import grow_classifier
from strategies.forests import ForestClient
from strategies.ldp_bagging.published import train_published
from strategies.ldp_bagging.rounds import plan_rounds
from strategies.ldp_bagging.settings import LdpBaggingSettings, check_target
from strategies.method import Arrays, ClientTask, Released, Update
from strategies.row_parts import PartLedger, part_of_rows

# Kept on the client between rounds.
_PARTS = "ldp-bagging-parts"


class LdpBaggingClient(ForestClient):
    """Grows one tree a round."""

    def train(self, task: ClientTask[LdpBaggingSettings], X: np.ndarray, y: np.ndarray, arrays: Arrays) -> Update:
        settings = task.settings
        check_target(settings, task.schema)
        if task.round > task.rounds:
            raise DPForestError(f"round {task.round} is not in the plan of {task.rounds} rounds")
        if settings.accounting == "published":
            return train_published(task, X, y)
        plan = plan_rounds(task)
        ledger = PartLedger(task.ledger, plan.rows(task.round), plan.prefix(task.round))
        if plan.disjoint:
            n_rows = len(y)
            parts = part_of_rows(
                task, _PARTS, n_rows, lambda: task.rng("parts").integers(plan.rounds, size=n_rows).astype(np.int16)
            )
            mine = parts == task.round - 1
            X, y = X[mine], y[mine]
        counts = grow_classifier(X, y, task.schema, plan.resolved, plan.epsilon, ledger, task.noise("tree"))
        return Update(Released(task.ledger, pack(counts)))
