"""Many trees grown level by level out of what their members say: the master's part of algorithm 2, for all masters.

All trees of all groups grow at once, so that a level costs one or two exchanges. `Growth` knows nothing of rows or
noise; it asks, adds up the answers, and tells each member which splits were chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from dpforest.errors import DPForestError
from dpforest.forest import Forest, validate
from dpforest.forest.codec import fill_inner_nodes
from dpforest.forest.validate import Limits, to_single
from dpforest.schema import Schema
from strategies.method import Arrays
from strategies.pp_fprf import kernels
from strategies.pp_fprf.settings import TreeSettings

Phase = Literal["propose", "vote", "count", "done"]
NO_MASTER = -1
GRID = 256
_LARGEST_COUNT = 2**50
LIMITS = Limits(trees=1_000_000, nodes=20_000_000)


@dataclass(frozen=True)
class Group:
    """Users that grow trees together.

    Parameters
    ----------
    master : int
        Whose trees they are; `NO_MASTER` where they are everybody's.
    members : tuple of int
        All that take part, the master among them.
    """

    master: int
    members: tuple[int, ...]


class Growth:
    """The trees of some groups while they grow.

    Parameters
    ----------
    groups : sequence of Group
    schema : Schema
    settings : TreeSettings
    seed : int
        Of candidate features and values.
    values_of_users : bool
        Candidate values lie between values that the members propose, who also send exact sizes (two exchanges a level;
        Liu et al. 2020, RANDOMPICK). Otherwise they are drawn from the public grid, and sizes come with the votes.
    """

    def __init__(
        self, groups: Sequence[Group], schema: Schema, settings: TreeSettings, seed: int, values_of_users: bool
    ) -> None:
        self.groups = tuple(groups)
        self.phase: Phase = "propose" if values_of_users else "vote"
        self.level = 0
        self.seed = seed
        self._schema = schema
        self._settings = settings
        self._two_steps = values_of_users
        self._rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(2,)))
        n_trees = len(groups) * settings.trees
        # Session j of all groups comes before session j + 1 of any.
        self.tree_group = np.tile(np.arange(len(groups)), settings.trees)
        users = sorted({user for group in groups for user in group.members})
        self._has = {
            user: np.array([user in group.members for group in groups], dtype=bool)[self.tree_group] for user in users
        }
        # Levels in which each user was asked to vote, in each of its trees, and who was asked for leaves: what was
        # asked for may have been spent, also where no answer came.
        self.levels_asked = {user: np.zeros(int(has.sum()), dtype=np.int64) for user, has in self._has.items()}
        self.leaves_asked: set[int] = set()
        self._node_tree = np.arange(n_trees)
        self._levels: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self._counts: np.ndarray | None = None
        self._latest: tuple[np.ndarray, dict[str, np.ndarray]] | None = None
        self._grid = None if values_of_users else np.stack(schema.grid(GRID)).astype(np.float32)
        self._start_level()

    @property
    def members(self) -> list[int]:
        """Users that still take part."""
        return sorted(self._has)

    @property
    def n_nodes(self) -> int:
        """Nodes of the level."""
        return len(self._node_tree)

    def trees_of(self, user: int) -> np.ndarray:
        """Trees that a user takes part in, in the order of their numbers."""
        return np.flatnonzero(self._has[user])

    def masters_of(self, user: int) -> np.ndarray:
        """Masters of a user's trees, in the same order."""
        return np.array([group.master for group in self.groups])[self.tree_group[self.trees_of(user)]]

    def trees_asked(self, user: int) -> np.ndarray:
        """Mask of a user's trees that this phase asks it to release something about."""
        if self.phase == "count":
            return np.ones(len(self.trees_of(user)), dtype=bool)
        mine = self._nodes_of(user)
        return np.isin(self.trees_of(user), self._node_tree[mine[self._active[mine]]])

    def drop(self, user: int) -> None:
        """Go on without a user; what it said so far stays."""
        del self._has[user]

    def message(self, user: int) -> dict[str, np.ndarray]:
        """What a member receives in this phase; `strategies.pp_fprf.member` reads it.

        One object for members of the same trees who ask one after another, as all do in PP-FGRF.
        """
        has = self._has[user]
        if self._latest is None or not np.array_equal(self._latest[0], has):
            self._latest = has, self._message(user)
        return self._latest[1]

    def check(self, user: int, arrays: Arrays) -> None:
        """Hold a member's answer against the form that it must have.

        Raises
        ------
        DPForestError
            Names what is wrong.
        """
        mine = self._nodes_of(user)
        shapes: dict[str, tuple[tuple[int, ...], str]]
        count = self._settings.candidates(self._schema.n_features)
        if self.phase == "propose":
            shapes = {"sizes": ((len(mine),), "iu"), "values": ((len(mine), count), "f")}
        elif self.phase == "vote":
            asked = int(self._active[mine].sum())
            shapes = dict.fromkeys(["votes"] if self._two_steps else ["votes", "sizes"], ((asked,), "iu"))
        else:
            leaves = int(self._has[user][self._leaf_tree].sum())
            shapes = {"counts": ((leaves, self._schema.n_outputs), "iu")}
        for name, (shape, kinds) in shapes.items():
            array = arrays.get(name)
            if array is None or array.shape != shape or array.dtype.kind not in kinds:
                form = "missing" if array is None else f"of shape {array.shape} and type {array.dtype}"
                raise DPForestError(f"array {name!r} is {form}, expected shape {shape} of kind {kinds!r}")
            if array.dtype.kind in "iu" and array.size:
                low, high = (0, count - 1) if name == "votes" else (-_LARGEST_COUNT, _LARGEST_COUNT)
                for found in (int(array.min()), int(array.max())):
                    if not low <= found <= high:
                        raise DPForestError(f"array {name!r} holds {found}, expected {low} to {high}")
            if array.dtype.kind == "f" and np.isinf(to_single(array)).any():
                raise DPForestError(f"array {name!r} holds infinity, expected finite numbers, or NaN for none")

    def receive(self, answers: Mapping[int, Arrays]) -> None:
        """Take the (checked) answers of this phase; who did not answer is no longer a member."""
        self._latest = None
        if self.phase == "vote":
            for user in self._has:
                self.levels_asked[user] += self.trees_asked(user)
        elif self.phase == "count":
            self.leaves_asked = set(self._has)
        for user in set(self._has) - set(answers):
            self.drop(user)
        if self.phase == "propose":
            self._take_proposals(answers)
            self.phase = "vote"
        elif self.phase == "vote":
            self._take_votes(answers)
        elif self.phase == "count":
            self._take_counts(answers)
            self.phase = "done"

    def counts_forest(self) -> Forest:
        """The finished trees with the sum of all members' class counts in their leaves."""
        assert self._counts is not None
        node_tree, feature, value = self._breadth_first
        sizes = np.bincount(node_tree, minlength=len(self.tree_group))
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        split = feature >= 0
        before: np.ndarray = np.cumsum(split) - split
        # In breadth-first order the i-th split node of a tree has children 2 i + 1 and 2 i + 2.
        rank: np.ndarray = before - before[offsets[node_tree]]
        left = np.where(split, offsets[node_tree] + 2 * rank + 1, -1).astype(np.int32)
        counts = np.zeros((len(node_tree), self._schema.n_outputs))
        counts[~split] = self._counts
        forest = Forest(
            schema=self._schema,
            output="counts",
            offsets=offsets,
            feature=np.where(split, feature, -1).astype(np.int32),
            threshold=np.where(split, value, 0.0).astype(np.float64),
            left=left,
            value=counts,
            weight=np.where(split, 0.0, np.maximum(counts, 0).sum(axis=1)),
            base=np.zeros(self._schema.n_outputs),
            owners=tuple(self._owner(int(group)) for group in self.tree_group),
        )
        fill_inner_nodes(forest)
        return validate(forest, LIMITS)

    def _owner(self, group: int) -> str:
        master = self.groups[group].master
        return "" if master == NO_MASTER else str(master)

    def _nodes_of(self, user: int) -> np.ndarray:
        return np.flatnonzero(self._has[user][self._node_tree])

    def _message(self, user: int) -> dict[str, np.ndarray]:
        trees = self.trees_of(user)
        mine = self._nodes_of(user)
        nodes = np.bincount(self._node_tree, minlength=len(self.tree_group))[trees]
        message = {"trees": np.stack([trees, self.masters_of(user), nodes]).astype(np.int32)}
        if self.phase == "vote" and self._two_steps:
            active = self._active[mine]
            return message | {"active": active, "values": self.values[mine[active]]}
        if self._levels:
            node_tree, feature, value = self._levels[-1]
            before = self._has[user][node_tree]
            message |= {"split_feature": feature[before], "split_value": value[before]}
        return message | ({"values": self.values[mine]} if self.phase == "vote" else {})

    def _start_level(self) -> None:
        """Sizes and votes start from nothing; values from the public grid, where there are no proposals."""
        self._sizes: dict[int, np.ndarray] = {}
        self._active = np.ones(self.n_nodes, dtype=bool)
        if self._grid is not None:
            features = self.features()
            place = self._rng.integers(self._grid.shape[1], size=features.shape)
            self.values = self._grid[features, place]

    def features(self) -> np.ndarray:
        """Candidate features of the nodes of the level, shape (n_nodes, n_candidates)."""
        sizes = np.bincount(self._node_tree, minlength=len(self.tree_group))
        starts = np.concatenate([[0], np.cumsum(sizes)])
        count = self._settings.candidates(self._schema.n_features)
        trees = np.arange(len(self.tree_group))
        return kernels.draw_features(self.seed, self.level, trees, starts, self._schema.n_features, count)

    def _take_proposals(self, answers: Mapping[int, Arrays]) -> None:
        shape = self.n_nodes, self._settings.candidates(self._schema.n_features)
        low = np.full(shape, np.nan, dtype=np.float32)
        high = low.copy()
        total = np.zeros(self.n_nodes, dtype=np.int64)
        for user, arrays in answers.items():
            mine = self._nodes_of(user)
            self._sizes[user] = np.maximum(arrays["sizes"].astype(np.int64), 0)
            total[mine] += self._sizes[user]
            low[mine] = np.fmin(low[mine], arrays["values"])
            high[mine] = np.fmax(high[mine], arrays["values"])
        share = self._rng.random(shape, dtype=np.float32)
        # A value that nobody proposed sends all rows to one side; zero is as good as any.
        self.values = np.nan_to_num(low + share * (high - low))
        self._active = total >= self._settings.min_rows

    def _take_votes(self, answers: Mapping[int, Arrays]) -> None:
        features = self.features()
        weight = np.zeros(features.shape)
        total = np.zeros(self.n_nodes)
        for user, arrays in answers.items():
            mine = self._nodes_of(user)
            sizes = self._sizes[user] if self._two_steps else arrays["sizes"].astype(np.int64)
            asked = self._active[mine]
            weight[mine[asked], arrays["votes"].astype(np.int64)] += np.maximum(sizes[asked], 0)
            total[mine] += sizes
        split = self._active & (total >= self._settings.min_rows)
        picked = np.argmax(weight, axis=1)
        nodes = np.arange(self.n_nodes)
        feature = np.where(split, features[nodes, picked], -1).astype(np.int32)
        value = np.where(split, self.values[nodes, picked], 0).astype(np.float32)
        self._levels.append((self._node_tree, feature, value))
        self._node_tree = np.repeat(self._node_tree[split], 2)
        self.level += 1
        if self.level == self._settings.depth or not split.any():
            self.phase = "count"
            return
        self.phase = "propose" if self._two_steps else "vote"
        self._start_level()

    @cached_property
    def _breadth_first(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Tree, feature (-1: leaf) and value of all nodes of grown trees, tree by tree and level by level."""
        last = np.full(self.n_nodes, -1, dtype=np.int32), np.zeros(self.n_nodes, dtype=np.float32)
        levels = [*self._levels, (self._node_tree, *last)]
        node_tree = np.concatenate([level[0] for level in levels])
        order = np.argsort(node_tree, kind="stable")
        return (
            node_tree[order],
            np.concatenate([level[1] for level in levels])[order],
            np.concatenate([level[2] for level in levels])[order],
        )

    @cached_property
    def _leaf_tree(self) -> np.ndarray:
        node_tree, feature, _ = self._breadth_first
        return node_tree[feature < 0]

    def _take_counts(self, answers: Mapping[int, Arrays]) -> None:
        leaf_tree = self._leaf_tree
        self._counts = np.zeros((len(leaf_tree), self._schema.n_outputs), dtype=np.int64)
        for user, arrays in answers.items():
            self._counts[self._has[user][leaf_tree]] += arrays["counts"]
