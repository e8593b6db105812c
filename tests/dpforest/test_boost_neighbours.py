"""What a whole run of boosting tells about one record: all its releases together, each asking by what came before."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from dpforest.boosting import BoostSettings, boost
from dpforest.ledger import Budget, Ledger
from dpforest.mechanisms import DiscreteGaussianSums, DiscreteLaplaceCounts
from dpforest.noise import Seeded
from dpforest.schema import Feature, Schema

SCHEMAS = {
    "classes": Schema((Feature("a", 0, 1), Feature("b", 0, 1)), classes=("x", "y", "z")),
    "target": Schema((Feature("a", 0, 1), Feature("b", 0, 1)), target_range=(0.0, 1.0)),
}
# So small a clip that the odd record's gradient always reaches it: nobody is easier to find.
TINY = {"depth": 1, "trees_per_round": 1, "bins": 2, "cuts": 1, "clip": 0.01, "marginal_share": 0.2,
        "linear_share": 0}  # fmt: skip


@contextmanager
def watched(seen: list[tuple[Any, np.ndarray, np.ndarray]], halved: bool, forced: list[np.ndarray] | None) -> Iterator:
    """Releases of a run, with the sums under them; their noise halved, or what they show given from outside."""

    def watching(original: Any) -> Any:
        def release(mechanism: Any, sums: np.ndarray, entry: Any, ledger: Ledger, noise: Any) -> np.ndarray:
            shown = original(mechanism, sums, entry, ledger, noise)
            if halved:
                shown = sums + np.rint((shown - sums) / 2).astype(np.int64)
            if forced is not None:
                shown = forced[len(seen)]
            seen.append((mechanism, sums.copy(), shown))
            return shown

        return release

    with pytest.MonkeyPatch.context() as patch:
        for kind in (DiscreteGaussianSums, DiscreteLaplaceCounts):
            patch.setattr(kind, "release", watching(kind.release))
        yield


def evidence(
    kind: str, with_record: bool, budget: Budget, seed: int, halved: bool = False, linear_share: float = 0.0
) -> float:
    """How much likelier all that a run shows is with the odd record than without it, as a logarithm.

    The run on the true table is followed by one on its neighbour that is made to show the same: it then asks the same
    questions, and the sums under its releases are what the table would have had to say to them.
    """
    schema = SCHEMAS[kind]
    X = np.array([[0.2, 0.3], [0.7, 0.8], [0.4, 0.9], [0.9, 0.1]])
    y = np.array([0, 1, 2, 1]) if kind == "classes" else np.array([0.4, 0.5, 0.6, 0.5])
    odd = (np.array([[0.9, 0.9]]), y[:1] if kind == "classes" else np.array([1.0]))
    tables = {False: (X, y), True: (np.concatenate([X, odd[0]]), np.concatenate([y, odd[1]]))}
    settings = BoostSettings(**TINY | {"linear_share": linear_share}, pure=not budget.delta)

    def run(table: bool, forced: list[np.ndarray] | None = None) -> list[tuple[Any, np.ndarray, np.ndarray]]:
        seen: list[tuple[Any, np.ndarray, np.ndarray]] = []
        with watched(seen, halved, forced):
            boost(*tables[table], schema, settings, 2, Ledger(budget), Seeded(seed))
        return seen

    true = run(with_record)
    other = run(not with_record, [shown for *_, shown in true])
    total = 0.0
    for (mechanism, sums, shown), (_, others, _) in zip(true, other, strict=True):
        if budget.delta:
            total += ((shown - others) ** 2 - (shown - sums) ** 2).sum() / (2 * mechanism.variance)
        else:
            scale = mechanism.sensitivity / mechanism.epsilon
            total += (np.abs(shown - others) - np.abs(shown - sums)).sum() / scale
    return total if with_record else -total


def excess(kind: str, budget: Budget, threshold: float, halved: bool = False, linear_share: float = 0.0) -> float:
    """What delta would have to be at least, by how often runs point to the right table, and to the wrong one."""
    # Gaussian noise of half the scale speaks four times as loudly, Laplace noise twice.
    loudness = (4 if budget.delta else 2) if halved else 1
    with_, without = (
        loudness * np.array([evidence(kind, table, budget, seed, halved, linear_share) for seed in range(150)])
        for table in (True, False)
    )
    factor = math.exp(budget.epsilon)
    return max(
        (with_ > threshold).mean() - factor * (without > threshold).mean(),
        (without < -threshold).mean() - factor * (with_ < -threshold).mean(),
    )


@pytest.mark.parametrize("kind", SCHEMAS)
@pytest.mark.parametrize("linear_share", [0, 0.5])
def test_a_whole_gaussian_run_keeps_its_guarantee(kind: str, linear_share: float) -> None:
    budget = Budget(8.0, 9e-4)
    # 150 runs tell a share to 0.04; the exact excess is delta, and 0.5 under half the noise.
    assert excess(kind, budget, 8.0, linear_share=linear_share) < budget.delta + 0.1
    assert excess(kind, budget, 8.0, True, linear_share) > budget.delta + 0.2, "half the noise is found out"


def test_a_whole_pure_run_keeps_its_guarantee() -> None:
    budget = Budget(1.0)
    found = [evidence("target", table, budget, seed) for table in (True, False) for seed in range(150)]
    assert 0.95 < np.abs(found).max() <= 1 + 1e-9, "no run at all is likelier by more than epsilon"
    assert excess("target", budget, 0.9) < 0.03
    assert excess("target", budget, 0.9, halved=True) > 0.08, "half the noise is found out"
