"""Candidate thresholds: public numbers, never data values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np

from dpforest.errors import SchemaError
from dpforest.growers import kernels
from dpforest.growers.settings import ResolvedSettings
from dpforest.noise import Noise
from dpforest.schema import Feature, Schema, check_range

# Range below the lower bound, in parts of its width, for random thresholds that ask whether a cell is missing.
_BELOW = 0.25


@dataclass(frozen=True)
class Bounds:
    """Public bounds inside which candidate thresholds lie; arrays of shape (n_features,)."""

    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, schema: Schema, overrides: dict[str, tuple[float, float]] | None = None) -> Bounds:
        """Bounds of the schema, replaced for features whose name starts with a key of ``overrides``.

        Raises
        ------
        SchemaError
            A key matches no feature, or a range is empty.
        """
        low, high = schema.low.astype(np.float64), schema.high.astype(np.float64)
        # A threshold anywhere between the number of missing cells and the lower bound tells those from all others.
        branches = np.array([feature.has_branch for feature in schema.features])
        low[branches] -= _BELOW * (high - low)[branches]
        for prefix, (a, b) in (overrides or {}).items():
            matching = [i for i, name in enumerate(schema.feature_names) if name.startswith(prefix)]
            if not matching:
                raise SchemaError(f"candidate_bounds names {prefix!r}, with which no feature's name starts")
            check_range(f"candidate_bounds {prefix!r}:", a, b)
            low[matching], high[matching] = a, b
        return cls(low, high)

    def random_thresholds(self, nodes: int, thresholds: int, rng: np.random.Generator) -> np.ndarray:
        """Uniform thresholds, sorted a feature; float32 numbers of shape (nodes, n_features, thresholds)."""
        points = rng.uniform(self.low[:, None], self.high[:, None], (nodes, len(self.low), thresholds))
        return np.sort(points, axis=2).astype(np.float32).astype(np.float64)


class Candidates(Protocol):
    """The candidate splits of one tree, and the tree's rows coded against them and sorted by node."""

    n_thresholds: int
    fixed: bool  # whether all nodes of all depths have the same candidates

    def codes(self, starts: np.ndarray, group: np.ndarray, n_groups: int) -> np.ndarray:
        """Codes of the rows of the next depth (see `kernels`), shape (n_rows, n_features).

        Parameters
        ----------
        starts : ndarray of int64, shape (n_nodes + 1,)
            Where the rows of each node begin.
        group : ndarray of int64, shape (n_nodes,)
            Which nodes share their candidates.
        n_groups : int
        """

    def useful(self, n_groups: int) -> np.ndarray:
        """Mask of candidates that may cut something, shape (n_groups, n_features, n_thresholds)."""

    def thresholds_of(self, group: np.ndarray, feature: np.ndarray, split: np.ndarray) -> np.ndarray:
        """Thresholds of the chosen candidates of ``group``; all arrays of shape (n_nodes,)."""

    def route(self, positions: np.ndarray, feature: np.ndarray, split: np.ndarray) -> None:
        """Sort the rows into the children of their nodes, split as chosen, arrays of shape (n_nodes,).

        ``positions``, of shape (n_rows,), are those of `kernels.child_positions`.
        """

    def keep(self, nodes: np.ndarray, rows: np.ndarray) -> None:
        """Forget all nodes and rows but those of two masks, of shape (n_nodes,) and (n_rows,)."""


class GridCandidates:
    """The public grid of the schema, the same in every node."""

    fixed = True

    def __init__(self, X: np.ndarray, schema: Schema, bins: int) -> None:
        self._thresholds = _grid_of(tuple(schema.features), bins)
        self.n_thresholds = bins - 1
        # Grid values are float32 numbers, so comparing in the rows' own precision is exact.
        self._codes = kernels.bin_rows(X, self._thresholds.astype(X.dtype))
        self._spare = np.empty_like(self._codes)
        self._box = _Box(schema.n_features, self.n_thresholds)

    def codes(self, starts: np.ndarray, group: np.ndarray, n_groups: int) -> np.ndarray:
        return self._codes

    def useful(self, n_groups: int) -> np.ndarray:
        return self._box.useful(n_groups)

    def thresholds_of(self, group: np.ndarray, feature: np.ndarray, split: np.ndarray) -> np.ndarray:
        return self._thresholds[feature, split]

    def route(self, positions: np.ndarray, feature: np.ndarray, split: np.ndarray) -> None:
        kernels.route_rows(self._codes, positions, self._spare)
        self._codes, self._spare = self._spare, self._codes
        self._box.split(feature, split)

    def keep(self, nodes: np.ndarray, rows: np.ndarray) -> None:
        self._codes, self._spare = _take(self._codes, rows, self._spare)
        self._box.keep(nodes)


@lru_cache(maxsize=8)  # all trees, of all clients of a simulation that play in this process, have the same
def _grid_of(features: tuple[Feature, ...], bins: int) -> np.ndarray:
    grid = np.stack([feature.grid(bins) for feature in features])
    grid.flags.writeable = False
    return grid


class RandomCandidates:
    """Thresholds drawn anew in every node (or group of nodes), uniformly inside public bounds."""

    fixed = False

    def __init__(self, X: np.ndarray, bounds: Bounds, thresholds: int, noise: Noise) -> None:
        self.n_thresholds = thresholds
        self._rows, self._spare = X.copy(), np.empty_like(X)
        self._bounds = bounds
        self._rng = noise.generator()

    def codes(self, starts: np.ndarray, group: np.ndarray, n_groups: int) -> np.ndarray:
        self._thresholds = self._bounds.random_thresholds(n_groups, self.n_thresholds, self._rng)
        self._codes = kernels.bin_rows_by_node(self._rows, starts, group, self._thresholds.astype(self._rows.dtype))
        return self._codes

    def useful(self, n_groups: int) -> np.ndarray:
        return np.ones((n_groups, self._rows.shape[1], self.n_thresholds), dtype=bool)

    def thresholds_of(self, group: np.ndarray, feature: np.ndarray, split: np.ndarray) -> np.ndarray:
        return self._thresholds[group, feature, split]

    def route(self, positions: np.ndarray, feature: np.ndarray, split: np.ndarray) -> None:
        kernels.route_rows(self._rows, positions, self._spare)
        self._rows, self._spare = self._spare, self._rows

    def keep(self, nodes: np.ndarray, rows: np.ndarray) -> None:
        self._rows, self._spare = _take(self._rows, rows, self._spare)


def _take(rows: np.ndarray, mask: np.ndarray, spare: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows of a mask, written to the spare buffer, and what was ``rows`` as the new spare of that size."""
    taken = np.flatnonzero(mask)
    if len(taken) == len(rows):
        return rows, spare
    # Without a mode that cannot fail, NumPy would work on a copy of the output.
    return np.take(rows, taken, axis=0, out=spare[: len(taken)], mode="clip"), rows[: len(taken)]


class _Box:
    """Which grid thresholds still cut something, a node: known from released splits alone.

    ``lower[v, f] <= b < upper[v, f]`` are the thresholds of feature ``f`` inside the box of node ``v``.
    """

    def __init__(self, n_features: int, n_thresholds: int) -> None:
        self._n_thresholds = n_thresholds
        self.lower = np.zeros((1, n_features), dtype=np.int16)
        self.upper = np.full((1, n_features), n_thresholds, dtype=np.int16)

    def useful(self, n_groups: int) -> np.ndarray:
        """Mask of candidates that cut the box of some node of a group; (n_groups, n_features, n_thresholds).

        Groups are equal runs of neighbouring nodes.
        """
        return kernels.useful_thresholds(self.lower, self.upper, n_groups, self._n_thresholds)

    def keep(self, nodes: np.ndarray) -> None:
        """Forget all nodes but those of a mask."""
        self.lower, self.upper = self.lower[nodes], self.upper[nodes]

    def split(self, feature: np.ndarray, threshold: np.ndarray) -> None:
        """Replace every node's box by those of its two children."""
        nodes = np.arange(len(feature))
        lower = np.repeat(self.lower, 2, axis=0)
        upper = np.repeat(self.upper, 2, axis=0)
        upper[2 * nodes, feature] = np.minimum(upper[2 * nodes, feature], threshold)
        lower[2 * nodes + 1, feature] = np.maximum(lower[2 * nodes + 1, feature], threshold + 1)
        self.lower, self.upper = lower, upper


def candidates_of(
    X: np.ndarray, schema: Schema, settings: ResolvedSettings, bounds: Bounds, noise: Noise
) -> Candidates:
    """The candidates that the settings ask for, for a tree on the rows ``X`` of shape (n_rows, n_features)."""
    if settings.candidates == "grid":
        return GridCandidates(X, schema, settings.bins)
    return RandomCandidates(X, bounds, settings.thresholds, noise)


def rows_of_trees(settings: ResolvedSettings, n_rows: int, noise: Noise) -> list[np.ndarray | slice]:
    """Which of a client's rows each tree sees: all, or the positions of a part of its own."""
    if settings.tree_rows != "disjoint" or settings.trees == 1:
        return [slice(None)] * settings.trees
    # Each row draws its part for itself, so that one row more leaves all others where they were.
    chosen = noise.generator().integers(settings.trees, size=n_rows)
    return [np.flatnonzero(chosen == tree) for tree in range(settings.trees)]
