"""Which users are alike: p-stable locality-sensitive hashing (Datar et al. 2004; Liu et al. 2022, section 4.1)."""

from __future__ import annotations

import numpy as np

from dpforest.mechanisms import whole_numbers
from dpforest.schema import Schema
from strategies.pp_fprf import kernels
from strategies.pp_fprf.settings import PersonalSettings

_LARGEST = 2**31 - 1


def hash_rows(X: np.ndarray, schema: Schema, settings: PersonalSettings, seed: int) -> np.ndarray:
    """Hash values ``floor((a . v + b) / r)`` of every row, with ``a`` from a normal (2-stable) distribution.

    Features of all units meet in a distance, so each is scaled to -1/2 to 1/2 along its public grid.

    Returns
    -------
    ndarray of int32, shape (n_rows, functions)
    """
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((schema.n_features, settings.functions))
    b = rng.uniform(0, settings.window, settings.functions)
    hashes = np.floor(((schema.grid_position(X) - 0.5) @ a + b) / settings.window)
    return whole_numbers(hashes, _LARGEST).astype(np.int32)


def histograms(hashes: np.ndarray, buckets: int) -> np.ndarray:
    """Rows in each public bucket of each function, the outermost buckets open; int64 (functions, buckets)."""
    inside = np.clip(hashes.astype(np.int64) + buckets // 2, 0, buckets - 1)
    counts = np.zeros((hashes.shape[1], buckets), dtype=np.int64)
    np.add.at(counts, (np.arange(hashes.shape[1])[None, :], inside), 1)
    return counts


def similarity_of_hashes(tables: dict[int, np.ndarray], least_equal: float) -> dict[tuple[int, int], float]:
    """Share of the rows of ``j`` that are similar to some row of ``i``, by (i, j).

    Parameters
    ----------
    tables : mapping of int to ndarray
        Hash values of each user's rows.
    least_equal : float
        Part of the hash values that two similar rows share at least.
    """
    functions = next(iter(tables.values())).shape[1] if tables else 0
    least = max(1, int(np.ceil(least_equal * functions)))
    return {
        (i, j): kernels.similar_rows(own, other, least) / max(1, len(other))
        for i, own in tables.items()
        for j, other in tables.items()
        if i != j
    }


def similarity_of_histograms(tables: dict[int, np.ndarray]) -> dict[tuple[int, int], float]:
    """Mean overlap of the two users' (noised) histograms as distributions, by (i, j); symmetric."""
    shares = {}
    for user, counts in tables.items():
        clipped = np.maximum(counts, 0).astype(np.float64)
        shares[user] = clipped / np.maximum(clipped.sum(axis=1, keepdims=True), 1.0)
    return {
        (i, j): float(np.minimum(own, other).sum(axis=1).mean())
        for i, own in shares.items()
        for j, other in shares.items()
        if i != j
    }


def choose_similar(
    similarity: dict[tuple[int, int], float], users: list[int], k: int, most_sessions: int | None
) -> dict[int, list[int]]:
    """The ``k`` most similar users of each, best first; nobody takes part in more than ``most_sessions``.

    Masters choose one user each in turn, the most similar pairs first, so that a limit leaves none without.
    """
    chosen: dict[int, list[int]] = {user: [] for user in users}
    left = {i: sorted((j for j in users if j != i), key=lambda j, i=i: (-similarity[i, j], j)) for i in users}  # type: ignore[misc]
    taken = dict.fromkeys(users, 1)
    for _ in range(k):
        for i in sorted(users, key=lambda i: (-max((similarity[i, j] for j in left[i]), default=0.0), i)):
            free = [j for j in left[i] if most_sessions is None or taken[j] < most_sessions]
            if free:
                chosen[i].append(free[0])
                taken[free[0]] += 1
                left[i].remove(free[0])
    return chosen
