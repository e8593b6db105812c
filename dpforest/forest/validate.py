"""What a forest must satisfy before anyone walks down it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpforest.errors import InvalidForest
from dpforest.forest.forest import Forest

# Counts of leaves are added up and turned into 64-bit integers and back. Their noise may be far larger than they are.
_LARGEST_COUNT = 2.0**62


@dataclass(frozen=True)
class Limits:
    """How large a forest from an untrusted sender may be.

    Parameters
    ----------
    trees : int
        Most trees.
    nodes : int
        Most nodes of all trees.
    depth : int
        Most levels of splits.
    sets : int
        Most sets of categories.
    """

    trees: int = 100_000
    nodes: int = 5_000_000
    depth: int = 40
    sets: int = 200_000

    @classmethod
    def complete(cls, trees: int, depth: int) -> Limits:
        """What so many trees may have that split every node down to a depth."""
        return cls(trees=trees, nodes=trees * (2 ** (depth + 1) - 1), depth=depth)


def validate(forest: Forest, limits: Limits | None = None) -> Forest:
    """Return the forest if it is sound.

    Every node is reached from its root exactly once (no cycle, no orphan), every index is in range and every
    number finite in single precision, so that prediction ends and stays inside its arrays, and whoever is sent the
    forest or reads it from a file finds it sound too.

    Parameters
    ----------
    forest : Forest
        From anywhere.
    limits : Limits, optional
        How large it may be; the usual ones if left out.

    Returns
    -------
    Forest
        The same one.

    Raises
    ------
    InvalidForest
        Names the first rule that is broken.
    """
    limits = limits or Limits()
    _check_sizes(forest, limits)
    _check_sets(forest)
    _check_structure(forest, limits)
    _check_numbers(forest)
    return forest


def _check_sizes(forest: Forest, limits: Limits) -> None:
    if not 1 <= forest.n_trees <= limits.trees:
        raise InvalidForest(f"{forest.n_trees} trees; allowed are 1 to {limits.trees}")
    if forest.n_nodes > limits.nodes:
        raise InvalidForest(f"{forest.n_nodes} nodes; at most {limits.nodes} are allowed")
    if len(forest.sets) > limits.sets:
        raise InvalidForest(f"{len(forest.sets)} sets of categories; at most {limits.sets} are allowed")
    width = forest.schema.n_outputs
    shapes = {
        "feature": (forest.n_nodes,),
        "threshold": (forest.n_nodes,),
        "left": (forest.n_nodes,),
        "value": (forest.n_nodes, width),
        "weight": (forest.n_nodes,),
        "base": (width,),
    }
    if forest.stated_importances is not None:
        shapes["stated_importances"] = (forest.schema.n_features,)
    for name, shape in shapes.items():
        if getattr(forest, name).shape != shape:
            raise InvalidForest(f"{name} has shape {getattr(forest, name).shape}, expected {shape}")
    if len(forest.owners) != forest.n_trees:
        raise InvalidForest(f"{len(forest.owners)} owners for {forest.n_trees} trees")
    offsets = forest.offsets  # compared and not subtracted: a difference may overflow
    if offsets[0] != 0 or offsets[-1] != forest.n_nodes or (offsets[1:] <= offsets[:-1]).any():
        raise InvalidForest("offsets must rise from 0 to the number of nodes, at least one node a tree")


def _check_sets(forest: Forest) -> None:
    sets = forest.sets
    if not len(sets):
        return
    if sets.dtype != bool or sets.shape != (len(sets), forest.schema.n_features):
        raise InvalidForest(
            f"sets of categories are {sets.dtype} of shape {sets.shape}, expected truth values a feature"
        )
    of_columns = np.array([sets[:, features].any(axis=1) for features in forest.schema.category_features])
    inside = np.zeros(forest.schema.n_features, dtype=bool)
    for features in forest.schema.category_features:
        inside[features] = True
    if sets[:, ~inside].any() or (of_columns.reshape(-1, len(sets)).sum(axis=0) != 1).any():
        raise InvalidForest("a set must hold one or more values of one categorical column, and nothing else")
    if (forest.threshold[forest.feature >= forest.schema.n_features] != 0.5).any():
        raise InvalidForest("a node that asks a set of categories has the threshold 0.5")


def _check_structure(forest: Forest, limits: Limits) -> None:
    leaf = forest.is_leaf
    if not ((forest.feature >= 0) == ~leaf).all() or (forest.left[leaf] != -1).any():
        raise InvalidForest("a node has either a feature and children, or neither (-1)")
    known, of_sets = forest.schema.n_features, len(forest.sets)
    if (forest.feature >= known + of_sets).any():
        sets = f", and there are {of_sets} sets of categories" if of_sets else ""
        raise InvalidForest(f"feature {forest.feature.max()} does not exist; the schema has {known}{sets}")
    inner = np.flatnonzero(~leaf)
    children = forest.left[inner].astype(np.int64)
    tree_of = np.searchsorted(forest.offsets, np.arange(forest.n_nodes), side="right") - 1
    if (children <= inner).any() or (children + 1 >= forest.offsets[tree_of[inner] + 1]).any():
        raise InvalidForest("children must come after their parent, inside the same tree (no cycles)")
    parents = np.zeros(forest.n_nodes, dtype=np.int64)
    np.add.at(parents, children, 1)
    np.add.at(parents, children + 1, 1)
    parents[forest.offsets[:-1]] += 1
    if (parents != 1).any():
        raise InvalidForest(f"node {int(np.flatnonzero(parents != 1)[0])} must have exactly one parent")
    if forest.depths.max() > limits.depth:
        raise InvalidForest(f"depth {forest.depths.max()}; at most {limits.depth} is allowed")


def _check_numbers(forest: Forest) -> None:
    leaf = forest.is_leaf
    # Weights of inner nodes do not travel, and may add up to more than single precision holds.
    sent = {
        "threshold": forest.threshold,
        "value": forest.value,
        "weight": forest.weight[leaf],
        "base": forest.base,
        "stated_importances": forest.stated_importances,
    }
    for name, numbers in sent.items():
        if numbers is not None and not np.isfinite(to_single(numbers)).all():
            raise InvalidForest(f"{name} holds NaN or infinity, or more than single precision can hold")
    if not np.isfinite(forest.weight).all() or (forest.weight < 0).any():
        raise InvalidForest("weight must not be negative, and finite")
    # As they arrive at whoever is sent them: at the edge of what is allowed, rounding must not decide otherwise there.
    leaf_values = to_single(forest.value[leaf])
    if forest.output == "counts" and (np.abs(leaf_values) > _LARGEST_COUNT).any():
        raise InvalidForest(f"a leaf counts more than {_LARGEST_COUNT:.2g} rows")
    if forest.output == "probability":
        total = leaf_values.sum(axis=1, dtype=np.float64)
        if (leaf_values < 0).any() or not np.allclose(total, 1.0, atol=1e-4):
            raise InvalidForest("leaf probabilities must be non-negative and add up to 1")
    if forest.output == "target" and forest.schema.target_range is not None:
        low, high = forest.schema.target_range
        slack = 1e-4 * (high - low)
        if (leaf_values < low - slack).any() or (leaf_values > high + slack).any():
            raise InvalidForest(f"leaf targets must lie in [{low:g}, {high:g}]")


def to_single(numbers: np.ndarray) -> np.ndarray:
    """Numbers as they travel: in single precision, infinite where it cannot hold them."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(numbers).astype(np.float32)
