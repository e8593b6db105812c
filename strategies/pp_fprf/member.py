"""A user's rows in the trees that it helps to grow: algorithm 3, for all trees at once.

The place of every row in every tree is kept between exchanges, so that nothing is sent or computed twice. Nothing here
is noised: `strategies.pp_fprf.client` sends what a mechanism let through.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from dpforest.schema import Schema
from strategies.messages import BadMessage, RowsChanged
from strategies.method import Arrays
from strategies.pp_fprf import kernels
from strategies.pp_fprf.settings import TreeSettings

_MOST_NODES = 50_000_000


class Member:
    """Where a user's rows are.

    Parameters
    ----------
    X, y : ndarray
        The rows that trees may see.
    slices : ndarray of int, shape (n_rows,)
        Which slice each row belongs to.
    n_slices : int
        The user's ``i``-th tree sees slice ``i % n_slices``.
    schema : Schema
    settings : TreeSettings
    """

    def __init__(
        self, X: np.ndarray, y: np.ndarray, slices: np.ndarray, n_slices: int, schema: Schema, settings: TreeSettings
    ) -> None:
        self.X, self.y = np.ascontiguousarray(X), np.ascontiguousarray(y, dtype=np.int64)
        self.n_slices = n_slices
        self._slices = slices
        self._schema = schema
        self._settings = settings
        self.level = 0
        self.trees = np.empty(0, dtype=np.int64)
        self.masters = np.empty(0, dtype=np.int64)
        self._nodes = np.empty(0, dtype=np.int64)
        self._leaves = np.empty(0, dtype=np.int64)
        self._place = np.empty((0, len(y)), dtype=np.int32)

    def state(self) -> dict[str, np.ndarray]:
        """What has to be kept until the next exchange."""
        level = np.full(len(self.trees), self.level)
        trees = np.stack([self.trees, self.masters, self._nodes, self._leaves, level])
        return {"trees": trees, "place": self._place}

    def restore(self, state: Arrays) -> Self:
        """Go on from `state`."""
        if state["place"].shape[1] != len(self.y):
            raise RowsChanged
        self.trees, self.masters, self._nodes, self._leaves, level = state["trees"].astype(np.int64)
        self.level, self._place = int(level[0]), state["place"].copy()
        return self

    def follow(self, arrays: Arrays) -> None:
        """Take part in the trees that a message names, and move the rows along the splits that it gives.

        Raises
        ------
        BadMessage
            It does not fit what this user received before.
        """
        named = _whole(arrays, "trees", 2).astype(np.int64)
        if len(named) != 3 or not named.size or not (np.diff(named[0]) > 0).all():
            raise BadMessage("the message does not say which trees it is about")
        trees, masters, nodes = named
        if not len(self.trees):
            self._begin(trees, masters)
        if not (np.array_equal(trees, self.trees) and np.array_equal(masters, self.masters)):
            raise BadMessage("the message is about other trees than those this user began with")
        if "split_feature" in arrays:
            self._advance(_whole(arrays, "split_feature", 1), arrays.get("split_value"))
        if not np.array_equal(nodes, self._nodes):
            raise BadMessage("the message names other numbers of nodes than there are: an exchange was missed")

    def propose(self, seed: int, shares: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Sizes of the nodes, and a random value of each candidate feature between the smallest and the largest.

        Returns
        -------
        sizes : int64 (n_nodes,)
        values : float32 (n_nodes, n_candidates)
            NaN where the user has no row.
        """
        low, high = kernels.node_ranges(
            self.X, self._place, self._starts, seed, self.level, self.trees, self._n_candidates
        )
        values = low + shares.random(low.shape, dtype=np.float32) * (high - low)
        return self.sizes(), values

    def sizes(self) -> np.ndarray:
        """Rows in each node of the level; int64 (n_nodes,)."""
        return kernels.node_sizes(self._place, self._starts)

    def scores(self, seed: int, arrays: Arrays, published: bool) -> np.ndarray:
        """Scores of the candidates of the nodes that are asked about.

        Returns
        -------
        ndarray of int64, shape (n_asked, n_candidates)
            Information gain in units of ``1 / GAIN_UNIT`` bits, or the sum of the children's norms in units of
            ``1 / SCORE_UNIT``.
        """
        asked = self.asked(arrays)
        values = arrays.get("values")
        if values is None or values.shape != (int(asked.sum()), self._n_candidates) or values.dtype.kind != "f":
            raise BadMessage("the message does not give one value to each candidate")
        return kernels.candidate_scores(
            self.X,
            self.y,
            self._schema.n_outputs,
            self._place,
            self._starts,
            seed,
            self.level,
            self.trees,
            asked,
            values.astype(np.float32),
            published,
        )

    def asked(self, arrays: Arrays) -> np.ndarray:
        """Mask of the nodes that a message asks about; all where it does not say."""
        active = arrays.get("active")
        n_nodes = int(self._nodes.sum())
        if active is None:
            return np.ones(n_nodes, dtype=bool)
        if active.shape != (n_nodes,) or active.dtype.kind != "b":
            raise BadMessage(f"the message marks {active.shape} nodes of {n_nodes}")
        return active

    def tree_of_node(self) -> np.ndarray:
        """Which of the user's trees (from 0) each node of the level belongs to."""
        return np.repeat(np.arange(len(self.trees)), self._nodes)

    def tree_of_leaf(self) -> np.ndarray:
        """Which of the user's trees each leaf belongs to, after `close`."""
        return np.repeat(np.arange(len(self.trees)), self._leaves)

    def close(self) -> np.ndarray:
        """Make leaves of all nodes that are left; class counts of all leaves, int64 (n_leaves, n_classes)."""
        n_nodes = int(self._nodes.sum())
        nothing = np.full(n_nodes, -1, dtype=np.int32), np.zeros(n_nodes, dtype=np.float32)
        kernels.advance(self.X, self._place, self._leaves, self._starts, *nothing)
        self._nodes = np.zeros_like(self._nodes)
        starts = np.concatenate([[0], np.cumsum(self._leaves)])
        return kernels.leaf_counts(self.y, self._schema.n_outputs, self._place, starts)

    def _begin(self, trees: np.ndarray, masters: np.ndarray) -> None:
        self.trees, self.masters = trees, masters
        self._nodes = np.ones(len(trees), dtype=np.int64)
        self._leaves = np.zeros(len(trees), dtype=np.int64)
        sees = self._slices[None, :] == (np.arange(len(trees)) % self.n_slices)[:, None]
        self._place = np.where(sees, 0, kernels.NOWHERE).astype(np.int32)

    def _advance(self, feature: np.ndarray, value: np.ndarray | None) -> None:
        n_nodes = int(self._nodes.sum())
        fits = value is not None and feature.shape == value.shape == (n_nodes,) and value.dtype.kind == "f"
        if not fits or (feature >= self._schema.n_features).any() or not np.isfinite(value).all():  # type: ignore[arg-type]
            raise BadMessage("the splits of the level before do not fit the nodes that there are")
        kernels.advance(self.X, self._place, self._leaves, self._starts, feature, value)
        split = feature >= 0
        self._nodes = 2 * np.bincount(self.tree_of_node()[split], minlength=len(self.trees))
        self.level += 1
        if self.level > self._settings.depth or self._nodes.sum() > _MOST_NODES:
            raise BadMessage(f"the trees grow beyond depth {self._settings.depth} or {_MOST_NODES} nodes")

    @property
    def _n_candidates(self) -> int:
        return self._settings.candidates(self._schema.n_features)

    @property
    def _starts(self) -> np.ndarray:
        return np.concatenate([[0], np.cumsum(self._nodes)])


def _whole(arrays: Arrays, name: str, dimensions: int) -> np.ndarray:
    array: Any = arrays.get(name)
    if array is None or array.ndim != dimensions or array.dtype.kind not in "iu":
        raise BadMessage(f"array {name!r} is missing or holds no whole numbers")
    return array.astype(np.int32)
