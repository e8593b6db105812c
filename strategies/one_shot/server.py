"""The server's side of the one-shot forest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from dpforest.errors import DPForestError
from dpforest.forest import Forest, Limits, concatenate, feature_importances, pack, unpack
from dpforest.growers import balance_votes, finish_classifier, planned_entries, resolve
from dpforest.growers.budget import leaf_epsilon
from dpforest.ledger import Entry
from dpforest.mechanisms import DiscreteLaplaceCounts
from dpforest.schema import MOST_ROWS
from strategies.forests import grown_signal, model_arrays, save_forest
from strategies.method import Arrays, Charges, ClientUpdate, ServerSide, Signal, Task
from strategies.one_shot.settings import COUNT_SHARE, OneShotSettings


class OneShotServer(ServerSide):
    """Collects the clients' trees into one forest that votes."""

    def __init__(self, task: Task[OneShotSettings]) -> None:
        super().__init__(task)
        if not task.schema.is_classification:
            raise DPForestError("one_shot grows classification trees; use strategy=fext for a regression target")
        self._settings = task.settings
        self._epsilon = task.budget.epsilon * (1 - COUNT_SHARE if self._settings.rows == "noised" else 1)
        self.forest: Forest | None = None
        self._received: dict[int, Forest] = {}
        # Thousands of clients may have the same number of rows.
        self._resolve = lru_cache(maxsize=128)(lambda rows: resolve(task.settings, self._epsilon, rows))
        self._plan = lru_cache(maxsize=128)(self._planned_for)

    @property
    def exchanges(self) -> int:
        return 1

    def planned(self) -> list[Entry]:
        return list(self._plan(self._rows({})))

    def signal(self) -> Signal:
        schema = self.task.schema
        rows = self._settings.public_rows(schema)
        return grown_signal(self._resolve(rows), self._epsilon, rows, schema, self.task.clients)

    def charges(self, exchange: int, client: int, update: ClientUpdate | None = None) -> Charges:
        # How many trees there are, and how deep, may follow from the client's own noised number of rows.
        return Charges(each=self._plan(self._rows(update.metrics if update else {})))

    def _planned_for(self, rows: int) -> tuple[Entry, ...]:
        entries = planned_entries(self._resolve(rows), self._epsilon, self.task.schema)
        if self._settings.rows == "noised":
            entries.insert(0, DiscreteLaplaceCounts(COUNT_SHARE * self.task.budget.epsilon).entry("number of rows"))
        return tuple(entries)

    def check(self, update: ClientUpdate) -> None:
        self._received[update.client] = self._read(update)

    def aggregate(self, exchange: int, updates: list[ClientUpdate]) -> Arrays:
        forest = concatenate([self._received[update.client] for update in updates])
        self.forest = replace(forest, provenance={"method": "one_shot", "clients": len(updates)})
        return model_arrays(self.forest, pack(self.forest))

    def report(self) -> dict[str, Any]:
        assert self.forest is not None
        names = self.task.schema.feature_names
        importances = feature_importances(self.forest)
        return {
            "trees": self.forest.n_trees,
            "nodes": self.forest.n_nodes,
            "importances": {name: float(value) for name, value in zip(names, importances, strict=True)},
        }

    def save(self, folder: Path) -> None:
        assert self.forest is not None
        save_forest(self.forest, folder)

    def _rows(self, metrics: Mapping[str, float]) -> int:
        rows = self._settings.public_rows(self.task.schema)
        if self._settings.rows == "noised" and "rows" in metrics:
            if not 1 <= metrics["rows"] <= MOST_ROWS:
                raise DPForestError(f"the noised row count {metrics['rows']} is not between 1 and {MOST_ROWS}")
            rows = int(metrics["rows"])
        return rows

    def _read(self, update: ClientUpdate) -> Forest:
        """One client's trees as probabilities; raises InvalidForest if they are not sound."""
        settings = self._resolve(self._rows(update.metrics))
        limits = Limits.complete(settings.trees, settings.depth)
        counts = unpack(update.arrays, self.task.schema, "counts", limits=limits)
        finished = finish_classifier(
            counts, settings, leaf_epsilon(settings, self._epsilon, self.task.schema.n_features)
        )
        return balance_votes(finished, counts, self._settings.balance).with_owner(str(update.client))
