"""The client's side of the one-shot forest."""

from __future__ import annotations

import numpy as np

from dpforest.errors import DPForestError
from dpforest.forest import pack
from dpforest.growers import grow_classifier, planned_entries, resolve
from dpforest.growers.candidates import Bounds
from dpforest.mechanisms import DiscreteLaplaceCounts
from strategies.forests import ForestClient
from strategies.method import Arrays, ClientTask, Update
from strategies.one_shot.settings import COUNT_SHARE, OneShotSettings


class OneShotClient(ForestClient):
    """Grows private trees on the client's rows."""

    def train(self, task: ClientTask, X: np.ndarray, y: np.ndarray, arrays: Arrays) -> Update:
        settings: OneShotSettings = task.settings
        if not task.schema.is_classification:
            raise DPForestError("one_shot grows classification trees; use strategy=fext for a regression target")
        epsilon = task.budget.epsilon
        noise = task.noise("trees")
        metrics: dict[str, float] = {}
        rows = settings.public_rows(task.schema)
        if settings.rows == "noised":
            count = DiscreteLaplaceCounts(COUNT_SHARE * epsilon)
            entry = count.entry("number of rows")
            epsilon *= 1 - COUNT_SHARE
            task.ledger.require([entry, *planned_entries(resolve(settings, epsilon, rows), epsilon, task.schema)])
            rows = max(1, int(count.release(np.array([len(y)]), entry, task.ledger, task.noise("rows"))[0]))
            metrics["rows"] = rows
        resolved = resolve(settings, epsilon, rows)
        bounds = Bounds.of(task.schema, dict(settings.candidate_bounds))
        forest = grow_classifier(X, y, task.schema, resolved, epsilon, task.ledger, noise, bounds)
        return Update(pack(forest), metrics)
