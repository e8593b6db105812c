"""The server's side of LDP bagged trees."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dpforest.errors import DPForestError
from dpforest.forest import Forest, Limits, concatenate, feature_importances, pack, unpack
from dpforest.forest.validate import to_single
from dpforest.growers import finish_classifier
from dpforest.ledger import Entry, json_number, rounded_up
from strategies.forests import grown_signal, model_arrays, save_forest
from strategies.ldp_bagging.noise_report import NoiseReport, expected_noise
from strategies.ldp_bagging.published import BASE, IMPORTANCES, KINDS, NOISE, NOISE_COLUMNS, STEPS, TIMES, UNPROTECTED
from strategies.ldp_bagging.rounds import plan_rounds
from strategies.ldp_bagging.settings import LdpBaggingSettings, check_target
from strategies.method import Arrays, Charges, ClientUpdate, ServerSide, Signal, Task

_MOST_BARS, _BAR = 8, 30
_LONGEST_STEP = 1e7  # ms


@dataclass(frozen=True)
class _Contribution:
    """What one client sent in one round, checked."""

    client: int
    trees: Forest
    importances: np.ndarray
    base: float = 0.0
    noise: np.ndarray | None = None
    milliseconds: np.ndarray | None = None


class LdpBaggingServer(ServerSide):
    """Puts all trees side by side and averages the importances."""

    def __init__(self, task: Task[LdpBaggingSettings]) -> None:
        super().__init__(task)
        self._settings = task.settings
        check_target(self._settings, task.schema)
        self._published = self._settings.accounting == "published"
        self._plan = None if self._published else plan_rounds(task)
        self._received: dict[int, _Contribution] = {}
        self._kept: list[_Contribution] = []
        self.forest: Forest | None = None
        self._noise = NoiseReport(task.budget.epsilon)
        self._facts: dict[str, Any] = {}
        self._round = 0

    def planned(self) -> list[Entry]:
        return [] if self._plan is None else self._plan.entries(self.task.schema)

    def signal(self) -> Signal | None:
        if self._plan is None:
            return None
        plan, schema = self._plan, self.task.schema
        rows = self._settings.public_number_of_rows(schema)
        of_round = max(1, rows // plan.rounds) if plan.disjoint else rows
        return grown_signal(plan.resolved, plan.epsilon, of_round, schema, self.task.clients, plan.rounds)

    def charges(self, exchange: int, client: int, update: ClientUpdate | None = None) -> Charges:
        return Charges(each=[] if self._plan is None else self._plan.round_entries(exchange, self.task.schema))

    def unprotected(self) -> list[str]:
        return list(UNPROTECTED) if self._published else []

    def participants(self, exchange: int, clients: list[int]) -> list[int]:
        """All, or those whose turn it is; with fewer clients than rounds, some rounds ask nobody."""
        if self._published or self._settings.round_budget != "turns":
            return clients
        return clients[exchange - 1 :: self.task.rounds]

    def check(self, update: ClientUpdate) -> None:
        read = self._read_published if self._published else self._read_tight
        self._received[update.client] = read(update)

    def aggregate(self, exchange: int, updates: list[ClientUpdate]) -> Arrays | None:
        start = time.perf_counter()
        self._round = exchange
        if not updates:  # with fewer clients than rounds it was nobody's turn
            self._facts = {"trees": len(self._kept), "epsilon_so_far": self._spent()}
            return None
        fresh = [self._received[update.client] for update in updates]
        self._received.clear()
        self._kept = fresh if self._settings.keep == "round" else [*self._kept, *fresh]
        forest = concatenate([contribution.trees for contribution in self._kept])
        provenance: dict[str, Any] = {"accounting": self._settings.accounting, "rounds": exchange}
        if self._published:
            # As in the document: the configuration of the aggregate is that of its first client.
            provenance["base_prediction"] = self._kept[0].base
        importances = np.mean([contribution.importances for contribution in self._kept], axis=0)
        self.forest = replace(forest, provenance=provenance, stated_importances=importances)
        arrays = model_arrays(self.forest, pack(self.forest))
        self._facts = self._facts_about(fresh) | {"aggregation_ms": 1000 * (time.perf_counter() - start)}
        return arrays

    def _facts_about(self, fresh: list[_Contribution]) -> dict[str, Any]:
        facts: dict[str, Any] = {"trees": len(self._kept), "epsilon_so_far": self._spent()}
        noises = [c.noise for c in fresh if c.noise is not None]
        if noises:
            self._noise.add(noises)
            facts |= self._noise.round_columns()
        times = [c.milliseconds for c in fresh if c.milliseconds is not None]
        if times:
            facts |= {f"{step}_ms": float(x) for step, x in zip(STEPS, np.mean(times, axis=0), strict=True)}
        return facts

    def _spent(self) -> float:
        """Epsilon after the rounds so far; published: as the document counts, once a round."""
        epsilon = self.task.budget.epsilon
        if self._published:
            return epsilon * self._round
        assert self._plan is not None
        return epsilon if self._settings.round_budget != "split" else epsilon * self._round / self.task.rounds

    def round_facts(self) -> dict[str, Any]:
        return self._facts

    def progress(self) -> str:
        """Importances as bars, sizes of noise and what is spent, one line each."""
        assert self.forest is not None
        spent, budget = rounded_up(self._spent()), rounded_up(self.task.budget.epsilon)
        lines = [f"{self.forest.n_trees} trees", "importance:", *_bars(self.task.schema.feature_names, self.forest)]
        if self._published:
            lines += self._noise.lines()
            lines.append(f"budget: the document counts epsilon {spent} so far, {budget} a round; guaranteed is none")
        else:
            lines.append(f"noise: {self._expected_words()}")
            lines.append(f"budget: epsilon {spent} of {budget} spent, {self._how()}")
        return "\n  ".join(lines)

    def _how(self) -> str:
        ways = {
            "turns": "by those who had their turn, each in one round",
            "disjoint": "each row in one round",
            "split": "a part in every round",
        }
        return ways[self._settings.round_budget]

    def _expected_words(self) -> str:
        assert self._plan is not None
        epsilon = self._plan.leaf_epsilon(self.task.schema)
        size = expected_noise(epsilon)
        noise = f"mean size of discrete Laplace, epsilon {rounded_up(epsilon, 3)}"
        return f"{size:.3g} records on each class count of a leaf ({noise})"

    def report(self) -> dict[str, Any]:
        assert self.forest is not None
        names = self.task.schema.feature_names
        owners = list(dict.fromkeys(c.client for c in self._kept))
        facts: dict[str, Any] = {
            "trees": self.forest.n_trees,
            "nodes": self.forest.n_nodes,
            "depth": int(self.forest.depths.max()),
            "importances": {n: float(v) for n, v in zip(names, feature_importances(self.forest), strict=True)},
            "client_contributions": [
                {
                    "client_id": client,
                    "num_trees": sum(c.trees.n_trees for c in self._kept if c.client == client),
                    "num_features": len(names),
                }
                for client in owners
            ],
            "epsilon_a_round": json_number(self.task.budget.epsilon if self._plan is None else self._plan.epsilon),
            "epsilon_counted": json_number(self._spent()),
        }
        if self._published:
            return facts | {"noise": self._noise.report(), "not_covered": UNPROTECTED}
        assert self._plan is not None
        return facts | {"expected_noise_of_leaf_counts": expected_noise(self._plan.leaf_epsilon(self.task.schema))}

    def save(self, folder: Path) -> None:
        assert self.forest is not None
        save_forest(self.forest, folder)

    def _read_tight(self, update: ClientUpdate) -> _Contribution:
        """A client's tree as probabilities; raises InvalidForest if it is not sound."""
        assert self._plan is not None
        resolved = self._plan.resolved
        limits = Limits.complete(1, resolved.depth)
        counts = unpack(update.arrays, self.task.schema, "counts", limits=limits)
        finished = finish_classifier(counts, resolved, self._plan.leaf_epsilon(self.task.schema))
        tree = finished.with_owner(str(update.client))
        return _Contribution(update.client, tree, feature_importances(tree))

    def _read_published(self, update: ClientUpdate) -> _Contribution:
        depth = int(self._settings.depth)
        limits = Limits.complete(1, depth)
        tree = unpack(update.arrays, self.task.schema, "score", limits=limits).with_owner(str(update.client))
        if self._settings.leaf_values == "clipped":
            tree = replace(tree, value=np.clip(tree.value, 0.0, 1.0))
        noise = _numbers(update.arrays, NOISE, (len(KINDS), len(NOISE_COLUMNS)))
        times = _numbers(update.arrays, TIMES, (len(STEPS),))
        if (noise < 0).any() or (times < 0).any() or (times > _LONGEST_STEP).any():
            raise DPForestError("sizes of noise and computing times must not be negative, nor times endless")
        return _Contribution(
            update.client,
            tree,
            _numbers(update.arrays, IMPORTANCES, (self.task.schema.n_features,)),
            float(_numbers(update.arrays, BASE, (1,))[0]),
            noise,
            times,
        )


def _numbers(arrays: Arrays, name: str, shape: tuple[int, ...]) -> np.ndarray:
    values = arrays.get(name)
    if values is None or values.shape != shape or values.dtype.kind != "f" or not np.isfinite(to_single(values)).all():
        found = "missing" if values is None else f"{values.dtype} of shape {values.shape}"
        raise DPForestError(f"array {name!r} is {found}, expected finite numbers of shape {shape}")
    return values


def _bars(names: list[str], forest: Forest) -> list[str]:
    """The largest importances as text."""
    importances = feature_importances(forest)
    order = np.argsort(-importances, kind="stable")[:_MOST_BARS]
    widest = max(len(names[i]) for i in order)
    most = max(float(importances[order[0]]), 1e-12)
    lengths = np.clip(np.round(_BAR * importances / most), 0, _BAR).astype(int)
    return [f"  {names[i]:<{widest}}  {'#' * lengths[i]:<{_BAR}}  {importances[i]:.3f}" for i in order]
