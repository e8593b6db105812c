"""The forest: a handful of NumPy arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from scipy.special import softmax

from dpforest.errors import InvalidForest
from dpforest.forest import kernels
from dpforest.own_rows import OwnRows
from dpforest.schema import Schema

_ROWS_WITH_SETS = 1024
Output = Literal["counts", "probability", "logit", "target", "target_sum", "score"]


@dataclass(frozen=True, eq=False)
class Forest:
    """Decision trees over one schema.

    All trees lie behind each other in flat arrays; the two children of a node are neighbours and come after it.
    A row goes left where ``x[feature] <= threshold``, both in single precision, whatever type they come in.

    Parameters
    ----------
    schema : Schema
        What the columns and outputs mean.
    output : {"counts", "probability", "logit", "target", "target_sum", "score"}
        What a leaf value is: noised class counts (as grown, before `dpforest.growers.leaves` turns them into
        probabilities), class probabilities or target values that trees average, or class logits or target
        values that trees add to ``base`` (boosting). Scores are class shares with noise left on them, of any sign:
        only their mean over the trees is made a probability.
    offsets : ndarray of int64, shape (n_trees + 1,)
        Tree ``t`` owns nodes ``offsets[t]:offsets[t + 1]``; the first is its root.
    feature : ndarray of int32, shape (n_nodes,)
        Column that a node asks, -1 at a leaf.
    threshold : ndarray of float64, shape (n_nodes,)
        0 at a leaf.
    left : ndarray of int32, shape (n_nodes,)
        Index of the left child in the flat arrays, -1 at a leaf; the right child is ``left + 1``.
    value : ndarray of float64, shape (n_nodes, n_outputs)
        Output of each node; an inner node has the (weighted) outcome of its children.
    weight : ndarray of float64, shape (n_nodes,)
        Estimated records of each node, from noised counts; 0 where unknown.
    base : ndarray of float64, shape (n_outputs,)
        What a sum of trees starts from; zeros elsewhere.
    owners : tuple of str, length n_trees
        Which client a tree came from; empty strings where it is of all.
    provenance : mapping
        Plain data about how the forest was made (method, ledger summary).
    sets : ndarray of bool, shape (n_sets, n_features)
        Sets of values of one categorical column each, as members among its 0/1 features. A node whose ``feature`` is
        ``n_features + s`` asks set s, and a row goes right where its value is in it.
    stated_importances : ndarray of shape (n_features,), or None
        Importances that came with the trees; None where they follow from the trees themselves.
    own : OwnRows, or None
        How rows of a person come to that person's own scale, which is what ``schema`` then describes and trees ask;
        see `of_person`.
    """

    schema: Schema
    output: Output
    offsets: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    value: np.ndarray
    weight: np.ndarray
    base: np.ndarray
    owners: tuple[str, ...]
    provenance: Mapping[str, Any] = field(default_factory=dict)
    sets: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), dtype=bool))
    stated_importances: np.ndarray | None = None
    own: OwnRows | None = None

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.offsets) - 1

    @property
    def n_nodes(self) -> int:
        """Number of nodes of all trees."""
        return len(self.feature)

    @property
    def is_leaf(self) -> np.ndarray:
        """Mask of the leaves, shape (n_nodes,)."""
        return self.left < 0

    @cached_property
    def depths(self) -> np.ndarray:
        """Depth of every node, shape (n_nodes,)."""
        return kernels.node_depths(self.offsets, self.left)

    @cached_property
    def _walk(self) -> tuple[np.ndarray, ...]:
        leaf = self.is_leaf
        itself = np.arange(self.n_nodes, dtype=np.int32)
        tree_depths = np.maximum.reduceat(self.depths, self.offsets[:-1])
        return (
            self.offsets,
            tree_depths,
            np.where(leaf, 0, self.feature).astype(np.int32),
            np.where(leaf, np.inf, self.threshold).astype(np.float32),
            np.where(leaf, itself, self.left).astype(np.int32),
        )

    def of_person(self, X: np.ndarray) -> np.ndarray:
        """Rows as the trees ask them.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)
            As they come, inside the bounds; where the forest has ``own``, all of one person, without labels: 30 are
            enough, and one says nothing.
        """
        return X if self.own is None else self.own.rows(X)

    def apply(self, X: np.ndarray) -> np.ndarray:
        """Leaf of each row in each tree, as flat node indices; shape (n_rows, n_trees)."""
        return np.concatenate([kernels.leaves_of(rows, *self._walk) for rows in self._asked(X)])

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Class probabilities, shape (n_rows, n_classes).

        Raises
        ------
        InvalidForest
            The forest is a regression, or its leaves still hold raw counts.
        """
        if self.output == "probability":
            return self._sum(X) / self.n_trees
        if self.output == "logit":
            return softmax(self.base + self._sum(X), axis=1)
        if self.output == "score":
            share = np.maximum(self._sum(X), 0.0)
            total = share.sum(axis=1, keepdims=True)
            return np.where(total > 0, share / np.where(total > 0, total, 1.0), 1.0 / share.shape[1])
        raise InvalidForest(f"a forest of {self.output!r} has no class probabilities")

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Class indices (int64) or target values (float64), shape (n_rows,)."""
        if self.output == "target":
            return self._sum(X)[:, 0] / self.n_trees
        if self.output == "target_sum":
            assert self.schema.target_range is not None
            return np.clip((self.base + self._sum(X))[:, 0], *self.schema.target_range)
        return np.argmax(self.predict_proba(X), axis=1)

    def _sum(self, X: np.ndarray) -> np.ndarray:
        """Sum of the reached leaves' values, shape (n_rows, n_outputs)."""
        return np.concatenate([kernels.sum_of_leaf_values(rows, *self._walk, self.value) for rows in self._asked(X)])

    def _asked(self, X: np.ndarray) -> Iterator[np.ndarray]:
        """The rows, some at a time where nodes ask sets: then with a 0/1 column behind the features for each set."""
        X = self._rows(X)
        if not len(self.sets):
            yield X
            return
        n_features = self.schema.n_features
        asked = [np.flatnonzero(self.sets[:, features].any(axis=1)) for features in self.schema.category_features]
        for start in range(0, max(len(X), 1), _ROWS_WITH_SETS):
            rows = X[start : start + _ROWS_WITH_SETS]
            wide = np.empty((len(rows), n_features + len(self.sets)), dtype=X.dtype)
            wide[:, :n_features] = rows
            values = self.schema.category_positions(rows)
            for features, numbers, value in zip(self.schema.category_features, asked, values, strict=True):
                members = np.zeros((len(features) + 1, len(numbers)), dtype=X.dtype)
                members[:-1] = self.sets[np.ix_(numbers, features)].T
                wide[:, n_features + numbers] = members[value]
            yield wide

    def categories_of(self, number: int) -> tuple[str, tuple[str, ...]]:
        """Column and values of one of the ``sets``."""
        for (column, values), features in zip(
            self.schema.categories.items(), self.schema.category_features, strict=True
        ):
            if (inside := self.sets[number, features]).any():
                return column, tuple(value for value, member in zip(values, inside, strict=True) if member)
        raise InvalidForest(f"set {number} has no category")

    def tree(self, index: int) -> Forest:
        """One tree as a forest of its own."""
        start, stop = int(self.offsets[index]), int(self.offsets[index + 1])
        left = self.left[start:stop]
        return replace(
            self,
            offsets=np.array([0, stop - start], dtype=np.int64),
            feature=self.feature[start:stop],
            threshold=self.threshold[start:stop],
            left=np.where(left < 0, -1, left - start).astype(np.int32),
            value=self.value[start:stop],
            weight=self.weight[start:stop],
            owners=(self.owners[index],),
            stated_importances=None,
        )

    def with_owner(self, owner: str) -> Forest:
        """The same trees, all marked as coming from one client."""
        return replace(self, owners=(owner,) * self.n_trees)

    def _rows(self, X: np.ndarray) -> np.ndarray:
        X = np.ascontiguousarray(X)
        if X.ndim != 2 or X.shape[1] != self.schema.n_features:
            how = ": put a person's rows on its own scale first, by of_person" if self.own else ""
            raise InvalidForest(
                f"the forest asks {self.schema.n_features} features, the rows have shape {X.shape}{how}"
            )
        with np.errstate(over="ignore"):  # what single precision cannot hold lies beyond every threshold
            return X.astype(np.float32, copy=False)


def concatenate(forests: Sequence[Forest]) -> Forest:
    """Join forests over one schema and of one kind into one.

    Parameters
    ----------
    forests : sequence of Forest
        One or more.

    Returns
    -------
    Forest
        Their trees, one forest's after another's.

    Raises
    ------
    InvalidForest
        There is none, or they differ in what their leaves hold or in what is done about missing cells.
    """
    if not forests:
        raise InvalidForest("no forest to join")
    first = forests[0]

    def kind(forest: Forest) -> tuple[object, ...]:
        return forest.output, forest.schema.feature_names, forest.schema.classes

    if any(kind(forest) != kind(first) for forest in forests):
        raise InvalidForest("only forests over the same features and classes and with the same leaves can be joined")
    for forest in forests:
        _check_rules(first.schema, forest.schema)
    starts = np.concatenate([[0], np.cumsum([f.n_nodes for f in forests])])
    with_sets = [f for f in forests if len(f.sets)]
    first_sets = np.concatenate([[0], np.cumsum([len(f.sets) for f in forests])])
    return replace(
        first,
        offsets=np.concatenate([[0], *(f.offsets[1:] + s for f, s in zip(forests, starts, strict=False))]).astype(
            np.int64
        ),
        feature=np.concatenate(
            [
                np.where(f.feature < f.schema.n_features, f.feature, f.feature + s)
                for f, s in zip(forests, first_sets, strict=False)
            ]
        ).astype(np.int32),
        sets=np.concatenate([f.sets for f in with_sets]) if with_sets else first.sets,
        threshold=np.concatenate([f.threshold for f in forests]),
        left=np.concatenate(
            [np.where(f.left < 0, -1, f.left + s) for f, s in zip(forests, starts, strict=False)]
        ).astype(np.int32),
        value=np.concatenate([f.value for f in forests]),
        weight=np.concatenate([f.weight for f in forests]),
        owners=tuple(owner for f in forests for owner in f.owners),
        stated_importances=None,
    )


def _check_rules(one: Schema, other: Schema) -> None:
    """Refuse to read rows by two rules for missing cells."""
    if one is other:
        return
    rules = other.missing_rules
    for column, rule in one.missing_rules.items():
        if (own := rules.get(column, rule)) != rule:
            raise InvalidForest(
                f"column {column!r} has missing: {rule} in the schema of one forest and missing: {own} in that of "
                "another: train all with one schema"
            )
