"""The wire form of a forest: a few compact arrays under fixed names, never a pickle.

Only what cannot be derived travels: thresholds and children of inner nodes, values of leaves, each in the
smallest type that holds it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dpforest.errors import InvalidForest
from dpforest.forest import kernels
from dpforest.forest.forest import Forest, Output
from dpforest.forest.validate import Limits, to_single, validate
from dpforest.schema import Schema

SETS = "sets"
KEYS = ("offsets", "feature", "threshold", "left", "value", "weight", "base")


def pack(forest: Forest) -> dict[str, np.ndarray]:
    """Arrays to send; `unpack` reads them back.

    Parameters
    ----------
    forest : Forest
        Finished, or of counts.

    Returns
    -------
    dict of str to ndarray
        ``offsets`` int64 (n_trees + 1,), ``feature`` int (n_nodes,), ``threshold`` float32 (n_inner,), ``left``
        int32 (n_inner,), ``value`` (n_leaves, n_outputs) integers for counts and float32 else, ``weight`` float32
        (n_leaves,), empty for counts, ``base`` float64 (n_outputs,); ``sets`` uint8 (n_sets, ceil(n_features / 8)), a
        bit a feature, only where nodes ask sets.
    """
    leaf = forest.is_leaf
    counts = forest.output == "counts"
    values = forest.value[leaf]
    packed = {
        "offsets": forest.offsets,
        "feature": _smallest_integers(forest.feature),
        "threshold": forest.threshold[~leaf].astype(np.float32),
        "left": forest.left[~leaf],
        "value": _smallest_integers(values.astype(np.int64)) if counts else values.astype(np.float32),
        "weight": np.empty(0, np.float32) if counts else forest.weight[leaf].astype(np.float32),
        "base": forest.base,
    }
    return packed | {SETS: np.packbits(forest.sets, axis=1)} if len(forest.sets) else packed


def unpack(
    arrays: Mapping[str, np.ndarray],
    schema: Schema,
    output: Output,
    owners: tuple[str, ...] | None = None,
    limits: Limits | None = None,
) -> Forest:
    """Rebuild and validate a forest from untrusted arrays.

    Parameters
    ----------
    arrays : mapping of str to ndarray
        As made by `pack`; nothing about them is believed.
    schema : Schema
        The receiver's own schema.
    output : str
        What the leaves must hold, by the receiver's own knowledge.
    owners : tuple of str, optional
        Which client each tree is from; empty strings by default.
    limits : Limits, optional
        Largest size to accept.

    Raises
    ------
    InvalidForest
        An array is missing, of a wrong kind or shape, or the forest is not sound.
    """
    limits = limits or Limits()
    offsets = _array(arrays, "offsets", 1, "iu")
    feature = _array(arrays, "feature", 1, "iu")
    threshold = _array(arrays, "threshold", 1, "f")
    left = _array(arrays, "left", 1, "iu")
    value = _array(arrays, "value", 2, "iu" if output == "counts" else "f")
    weight = _array(arrays, "weight", 1, "f")
    base = _array(arrays, "base", 1, "f")
    n_nodes = len(feature)
    if n_nodes > limits.nodes or not 2 <= len(offsets) <= limits.trees + 1:
        raise InvalidForest(
            f"{n_nodes} nodes in {len(offsets) - 1} trees; allowed: {limits.nodes} nodes, 1 to {limits.trees} trees"
        )
    leaf = feature < 0
    n_leaves = int(leaf.sum())
    n_inner = n_nodes - n_leaves
    if len(threshold) != n_inner or len(left) != n_inner or value.shape != (n_leaves, schema.n_outputs):
        raise InvalidForest(
            f"{n_inner} inner nodes and {n_leaves} leaves of {schema.n_outputs} outputs do not fit "
            f"{len(threshold)} thresholds, {len(left)} children and values of shape {value.shape}"
        )
    if len(weight) != (0 if output == "counts" else n_leaves):
        raise InvalidForest(f"{len(weight)} weights for {n_leaves} leaves")
    full_threshold = np.zeros(n_nodes)
    full_threshold[~leaf] = to_single(threshold)  # sent in more digits, they would be others where they are sent on
    full_left = np.full(n_nodes, -1, dtype=np.int32)
    full_left[~leaf] = left
    full_value = np.zeros((n_nodes, schema.n_outputs))
    full_value[leaf] = value if output == "counts" else to_single(value)
    full_weight = np.zeros(n_nodes)
    full_weight[leaf] = np.maximum(full_value[leaf], 0).sum(axis=1) if output == "counts" else to_single(weight)
    forest = Forest(
        schema=schema,
        output=output,
        offsets=offsets.astype(np.int64),
        feature=np.where(leaf, -1, feature).astype(np.int32),
        threshold=full_threshold,
        left=full_left,
        value=full_value,
        weight=full_weight,
        base=base.astype(np.float64),
        owners=owners if owners is not None else ("",) * (len(offsets) - 1),
        sets=_sets(arrays, schema, limits),
    )
    validate(forest, limits)
    fill_inner_nodes(forest)
    return forest


def _sets(arrays: Mapping[str, np.ndarray], schema: Schema, limits: Limits) -> np.ndarray:
    if SETS not in arrays:
        return np.zeros((0, schema.n_features), dtype=bool)
    bits = _array(arrays, SETS, 2, "u")
    wanted = (schema.n_features + 7) // 8
    if bits.dtype != np.uint8 or bits.shape[1] != wanted or len(bits) > limits.sets:
        raise InvalidForest(
            f"sets of categories are {bits.dtype} of shape {bits.shape}, expected uint8 of {wanted} bytes, "
            f"{limits.sets} at most"
        )
    return np.unpackbits(bits, axis=1, count=schema.n_features).astype(bool)


def fill_inner_nodes(forest: Forest) -> None:
    """Derive values and weights of inner nodes from the leaves below them, in place.

    Counts add up; averaged values are means weighted by the leaves' weights (plain means where all are 0).
    """
    if forest.output == "counts":
        kernels.sums_to_root(forest.offsets, forest.left, forest.value)
    else:
        kernels.means_to_root(forest.offsets, forest.left, forest.value, forest.weight)
    kernels.sums_to_root(forest.offsets, forest.left, forest.weight[:, None])


def _array(arrays: Mapping[str, np.ndarray], name: str, ndim: int, kinds: str) -> np.ndarray:
    if name not in arrays:
        raise InvalidForest(f"array {name!r} is missing; expected {', '.join(KEYS)}")
    array = np.asarray(arrays[name])
    if array.ndim != ndim or array.dtype.kind not in kinds:
        raise InvalidForest(
            f"array {name!r} has {array.ndim} dimensions of {array.dtype}, expected {ndim} of {kinds!r}"
        )
    return array


def _smallest_integers(array: np.ndarray) -> np.ndarray:
    if array.size == 0:
        return array.astype(np.int8)
    for dtype in (np.int8, np.int16, np.int32):
        info = np.iinfo(dtype)
        if info.min <= array.min() and array.max() <= info.max:
            return array.astype(dtype)
    return array.astype(np.int64)
