"""Made-up tables on which learners have gone wrong, with what is public about each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

ROWS = 3000
Table = tuple[np.ndarray, np.ndarray, list[tuple[float, float]], tuple[float, float]]
"""Rows, a target of a regression, bounds of the columns, range of the target."""
MakeTable = Callable[[np.random.Generator], Table]
EPSILONS = (0.3, 1.0, 3.0, 10.0, 100.0)


def independent(rng: np.random.Generator) -> Table:
    X = rng.uniform(0, 1, (ROWS, 8))
    return X, 4 * X[:, 0] + 2 * np.sin(6 * X[:, 1]), [(0, 1)] * 8, (-3, 7)


def together(rng: np.random.Generator) -> Table:
    z = rng.uniform(0, 1, ROWS)
    X = np.column_stack([np.clip(z + rng.normal(0, 0.03, ROWS), 0, 1) for _ in range(16)])
    return X, 30 * z, [(0, 1)] * 16, (0, 30)


def skewed_copies(rng: np.random.Generator) -> Table:
    z = rng.exponential(1, ROWS)
    X = np.column_stack([np.clip(z * (1 + rng.normal(0, 0.02, ROWS)), 0, 50) for _ in range(6)])
    return X, np.clip(np.sqrt(z), 0, 5), [(0, 50)] * 6, (0, 5)


def heavy_tails(rng: np.random.Generator) -> Table:
    X = np.clip(rng.lognormal(0, 1.5, (ROWS, 6)), 0, 1000)
    return X, np.clip(np.log(X[:, 0]) + np.log(X[:, 1]), -6, 6), [(0, 1000)] * 6, (-6, 6)


def rare_ones(rng: np.random.Generator) -> Table:
    X = (rng.random((ROWS, 20)) < 0.02).astype(float)
    return X, 3 * X[:, :5].sum(axis=1) + rng.normal(0, 0.3, ROWS), [(0, 1)] * 20, (-2, 10)


def constant_columns(rng: np.random.Generator) -> Table:
    X = rng.uniform(0, 1, (ROWS, 5))
    X[:, 1:4] = 0.3
    return X, 3 * X[:, 0] + rng.normal(0, 0.2, ROWS), [(0, 1)] * 5, (-1, 4)


def few_rows(rng: np.random.Generator) -> Table:
    X = rng.uniform(0, 1, (300, 5))
    return X, X[:, 0] + X[:, 1], [(0, 1)] * 5, (0, 2)


def rare_values(rng: np.random.Generator) -> Table:
    """Two columns of 12 values, most of them rare, as 0/1 columns."""
    share = 0.6 ** np.arange(12)
    codes = rng.choice(12, (ROWS, 2), p=share / share.sum())
    X = np.concatenate([np.eye(12)[codes[:, 0]], np.eye(12)[codes[:, 1]]], axis=1)
    return (
        X,
        np.where(codes[:, 0] % 3 == 0, 2.0, 0.0) + codes[:, 1] / 6 + rng.normal(0, 0.2, ROWS),
        [(0, 1)] * 24,
        (-1, 5),
    )


MADE_UP: tuple[MakeTable, ...] = (
    independent, together, skewed_copies, heavy_tails, rare_ones, rare_values, constant_columns, few_rows
)  # fmt: skip
TASKS = ("regression", "classes", "rare class")


def targets(y: np.ndarray, task: str) -> np.ndarray:
    """The target itself, or whether it is above its median or among the largest 7 per cent."""
    return y if task == "regression" else (y > np.quantile(y, 0.5 if task == "classes" else 0.93)).astype(int)


def largest_fall(score: Callable[[float, int], float], epsilons: tuple[float, ...], seeds: int) -> tuple[float, str]:
    """How far the mean score over seeds falls below that of any smaller budget, and the means in words."""
    means = np.array([np.mean([score(epsilon, seed) for seed in range(seeds)]) for epsilon in epsilons])
    words = ", ".join(f"{epsilon:g}: {mean:.3f}" for epsilon, mean in zip(epsilons, means.tolist(), strict=True))
    return float((np.maximum.accumulate(means) - means).max()), words
