"""The client's side of the one-shot forest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpforest.errors import DPForestError
from dpforest.forest import Forest, pack
from dpforest.growers import ResolvedSettings, grow_classifier, planned_entries, resolve
from dpforest.growers.candidates import Bounds
from dpforest.mechanisms import DiscreteLaplaceCounts
from dpforest.schema import MOST_ROWS
from strategies.forests import ForestClient, grown_work
from strategies.method import Arrays, ClientTask, Released, Task, Update, Work
from strategies.one_shot.settings import COUNT_SHARE, OneShotSettings


@dataclass(frozen=True)
class Grown:
    """Trees of noised counts, with the settings and budget they were grown with."""

    forest: Forest
    settings: ResolvedSettings
    epsilon: float
    metrics: dict[str, float]


def grow_trees(task: ClientTask[OneShotSettings], X: np.ndarray, y: np.ndarray) -> Grown:
    """Grow one client's trees and charge its ledger.

    Raises
    ------
    DPForestError
        The target is no class.
    BudgetExceeded
        The ledger has not enough left; no row was read.
    """
    settings = task.settings
    if not task.schema.is_classification:
        raise DPForestError("one_shot grows classification trees; use strategy=fext for a regression target")
    epsilon = task.budget.epsilon
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
    forest = grow_classifier(X, y, task.schema, resolved, epsilon, task.ledger, task.noise("trees"), bounds)
    return Grown(forest, resolved, epsilon, metrics)


class OneShotClient(ForestClient):
    """Sends the private trees that it grew on its own rows."""

    def train(self, task: ClientTask, X: np.ndarray, y: np.ndarray, arrays: Arrays) -> Update:
        grown = grow_trees(task, X, y)
        return Update(Released(task.ledger, pack(grown.forest), grown.metrics))


def work(task: Task[OneShotSettings]) -> Work:
    """All its trees, grown at once; with a noised number of rows, as many as for the largest."""
    settings = task.settings
    rows = MOST_ROWS if settings.rows == "noised" else settings.public_rows(task.schema)
    return grown_work(resolve(settings, task.budget.epsilon, rows), task.schema)
