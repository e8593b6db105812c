"""Reconstruction of a run's training rows, next to two guesses that need no model."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpforest.attacks import Cells, Known, agreement, rebuild
from dpforest.errors import DPForestError
from dpforest.forest import Forest
from fl_app.attack.model import Model
from fl_app.attack.shadows import counts_of
from fl_app.attack.target import Target
from fl_app.results.attack import THIS_MODEL, WITHOUT_NOISE
from strategies.boost.settings import plan_of

_SEEDS = 3
_MOVES_A_CELL = 40
_MOST_MOVES = 3_000_000
_MOST_ROWS = 5000


@dataclass(frozen=True, eq=False)
class _Victims:
    """Whose rows are sought: one client's where trees are known to be its, else all clients' together."""

    forest: Forest
    trees: np.ndarray
    counts: np.ndarray
    X: np.ndarray
    y: np.ndarray
    others_X: np.ndarray
    others_y: np.ndarray
    of_classes: bool

    @property
    def whose(self) -> np.ndarray:
        """Classes, where counts are by class; else none are guessed."""
        return self.y.astype(np.int64) if self.of_classes else np.zeros(len(self.y), dtype=np.int64)


def rebuild_rows(target: Target, open_model: Callable[[], Model] | None, seed: int) -> dict[str, Any]:
    """What reconstruction reaches on the run, and on the same run without noise.

    Returns
    -------
    dict
        ``lines``, and ``note`` with what was sought, or why nothing was.
    """
    try:
        victims = _victims(target, target.model)
    except DPForestError as error:
        return {"lines": [], "note": f"Nothing was rebuilt: {error}."}
    lines = _lines(THIS_MODEL, victims, _variance(target), seed)
    if open_model is not None:
        lines += _lines(WITHOUT_NOISE, _victims(target, open_model()), 0.0, seed)
    note = (
        f"{len(victims.y)} rows were sought, in {len(Cells.of(victims.forest, victims.trees).features)} columns that "
        "the trees ask; their number was given to the attacker. Compare within one model: another one has other cells."
    )
    return {"lines": lines, "note": note}


def _victims(target: Target, model: Model) -> _Victims:
    pools = target.pools
    client = min(pools, key=lambda each: pools[each].trained)
    found = model.forest_of(client)
    if found is None:
        raise DPForestError("a network holds no counts of records, and rows are sought by counts")
    forest, trees = found
    alone = model.is_own or model.has_owners()
    counts = counts_of(model, forest)
    if not counts.any() or not len(trees):
        raise DPForestError("the file says nothing about numbers of records")
    sought = [pools[client]] if alone else list(pools.values())
    X = np.concatenate([model.asked(pool.X)[: pool.trained] for pool in sought])
    y = np.concatenate([pool.y[: pool.trained] for pool in sought])
    if len(y) > _MOST_ROWS:
        raise DPForestError(f"{len(y)} rows are more than the {_MOST_ROWS} that are sought at once")
    others = [(model.asked(pool.X), pool.y) for each, pool in pools.items() if alone and each != client]
    others = others or [(model.asked(pool.X)[pool.trained :], pool.y[pool.trained :]) for pool in pools.values()]
    others_X, others_y = (np.concatenate(parts) for parts in zip(*others, strict=True))
    if not len(others_y):
        raise DPForestError("there are no rows of others to compare with")
    Cells.of(forest, trees)
    return _Victims(forest, trees, counts, X, y, others_X, others_y, counts.shape[1] > 1)


def _lines(of: str, victims: _Victims, variance: float, seed: int) -> list[dict[str, Any]]:
    """Each way to guess, over seeds: mean, lowest and highest."""
    cells = Cells.of(victims.forest, victims.trees)
    n_classes = victims.forest.schema.n_outputs if victims.of_classes else 1
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(victims.y))
    truth = np.column_stack([cells.codes(victims.X), victims.whose])[order]
    other_classes = victims.others_y.astype(np.int64) if victims.of_classes else np.zeros(len(victims.others_y), int)
    others = np.column_stack([cells.codes(victims.others_X), other_classes])
    known = Known.of(len(truth), cells, victims.others_X, other_classes, n_classes)
    moves = min(_MOST_MOVES, _MOVES_A_CELL * truth.size)

    def annealed(what: Known) -> Callable[[int], np.ndarray]:
        return lambda number: rebuild(
            victims.forest, victims.trees, victims.counts, what, variance, seed + number, moves
        )

    ways: dict[str, Callable[[int], np.ndarray]] = {
        "annealing": annealed(known.without_prior()),
        "annealing, marginals known": annealed(known),
        "marginals of others": lambda number: known.draw(np.random.default_rng([seed, number])),
        "rows of others": lambda number: others[
            np.random.default_rng([seed, number]).choice(len(others), len(truth), replace=len(others) < len(truth))
        ],
    }
    columns = slice(None) if victims.of_classes else slice(None, -1)
    found = []
    for name, guess in ways.items():
        scores = np.array([agreement(guess(number)[:, columns], truth[:, columns]) for number in range(_SEEDS)])
        cells_right, rows_right = ([float(f(column)) for f in (np.mean, np.min, np.max)] for column in scores.T)
        found.append({
            "of": of, "attack": name, "needs_model": name.startswith("annealing"),
            "cells": [round(each, 5) for each in cells_right], "rows": [round(each, 5) for each in rows_right],
        })  # fmt: skip
    return found


def _variance(target: Target) -> float:
    """Of the noise of one count, which is public: by the plan of boosting, or the ledger's line about leaves."""
    if target.run.method == "boost":
        task = target.experiment.task(target.clients)
        plan = plan_of(task)
        return task.clients * plan.sums.variance / plan.count_unit**2
    ledger = next(iter(target.run.privacy["clients"].values()))
    scales = [entry["scale"] for entry in ledger["entries"] if entry["mechanism"] == "discrete Laplace"]
    if not scales or not scales[-1]:
        return 0.0
    rate = 1 / scales[-1]
    return 2 * math.exp(-rate) / math.expm1(-rate) ** 2
