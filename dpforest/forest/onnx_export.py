"""Forests as ONNX models for phones and watches; needs the extra ``onnx``.

The trees become one ``TreeEnsembleRegressor`` (domain ai.onnx.ml) with an output a class, which adds up leaf values;
operators of the core set make probabilities of the sums. Whatever runs ONNX runs it, and nothing of this project.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dpforest.errors import InvalidForest
from dpforest.forest.forest import Forest
from dpforest.forest.onnx_graph import PROBABILITIES, TARGET, onnx_helper, onnx_model, write_onnx
from dpforest.forest.onnx_own_rows import OWN, RECENT, ROWS, OwnRowsGraph

INPUT = ROWS


def to_onnx(forest: Forest) -> Any:
    """An ONNX model with the predictions of a finished forest.

    The input ``rows`` is float32 of shape (n_rows, n_features), columns in the order of the schema, inside its bounds;
    a missing cell is its feature's ``missing_value``, or 1 in the column of the category ``missing``.
    Where trees ask rows on a person's own scale, a second input ``recent`` of the same width has that person's rows, 30
    or more; both may be the same rows.
    The outputs are ``probabilities`` (n_rows, n_classes) and ``class_index`` (n_rows,), or ``target`` (n_rows, 1). The
    names of features and classes, bounds, units and provenance are in the model's metadata as JSON.

    Parameters
    ----------
    forest : Forest
        A finished one.

    Returns
    -------
    onnx.ModelProto

    Raises
    ------
    DPForestError
        The package onnx is missing.
    InvalidForest
        The leaves still hold raw counts.
    """
    helper = onnx_helper()
    if forest.output == "counts":
        raise InvalidForest("a forest of raw counts is not finished and cannot be exported")
    width = forest.schema.n_outputs
    own = OwnRowsGraph(forest.own, helper) if forest.own else None
    widen, columns, constants = (own.nodes, OWN, own.constants) if own else _widen(forest, helper)
    ensemble = helper.make_node(
        "TreeEnsembleRegressor", [columns], ["leaves"], domain="ai.onnx.ml", n_targets=width, **_tree_attributes(forest)
    )
    finish, more = _finish(forest, helper)
    constants |= more
    asked = {INPUT: "n", RECENT: "m"} if own else {INPUT: "n"}
    n_features = (forest.own.schema if forest.own else forest.schema).n_features
    facts = {"schema": forest.schema.to_dict(), "provenance": dict(forest.provenance)}
    if forest.own:
        facts["own"] = forest.own.schema.to_dict()
    rows = {name: [n, n_features] for name, n in asked.items()}
    return onnx_model(helper, "forest", [*widen, ensemble, *finish], rows, forest.schema, constants, facts)


def save_onnx(forest: Forest, path: str | Path) -> Path:
    """Write `to_onnx` to a file, whole or not at all.

    Parameters
    ----------
    forest : Forest
        A finished one.
    path : str or Path
        The file; replaced if there is one.

    Returns
    -------
    Path
        The file.
    """
    return write_onnx(to_onnx(forest), path)


def _widen(forest: Forest, helper: Any) -> tuple[list[Any], str, dict[str, np.ndarray]]:
    """Operators that put a 0/1 column for each set of categories behind the rows; what they make, and from what.

    A row has at most one value of a column, so that its membership is the sum over the members.
    """
    if not len(forest.sets):
        return [], INPUT, {}
    nodes = [
        helper.make_node("MatMul", [INPUT, "sets"], ["members"]),
        helper.make_node("Concat", [INPUT, "members"], ["columns"], axis=1),
    ]
    return nodes, "columns", {"sets": forest.sets.T.astype(np.float64)}


def _tree_attributes(forest: Forest) -> dict[str, Any]:
    """Node lists as the operator wants them; node ids start anew in each tree."""
    sizes = np.diff(forest.offsets)
    tree = np.repeat(np.arange(forest.n_trees), sizes)
    start = np.repeat(forest.offsets[:-1], sizes)
    number = np.arange(forest.n_nodes) - start
    leaf = forest.is_leaf
    left = np.where(leaf, 0, forest.left - start)
    right = np.where(leaf, 0, forest.left + 1 - start)
    leaves, width = np.flatnonzero(leaf), forest.schema.n_outputs
    averaged = forest.output in ("probability", "score", "target")
    # Divided here in double precision, since a runtime adds up in single precision.
    value = forest.value[leaves] / (forest.n_trees if averaged else 1)
    return {
        "aggregate_function": "SUM",
        "nodes_treeids": tree.tolist(),
        "nodes_nodeids": number.tolist(),
        "nodes_featureids": np.where(leaf, 0, forest.feature).tolist(),
        "nodes_values": forest.threshold.tolist(),
        "nodes_modes": ["LEAF" if is_leaf else "BRANCH_LEQ" for is_leaf in leaf.tolist()],
        "nodes_truenodeids": left.tolist(),
        "nodes_falsenodeids": right.tolist(),
        "nodes_missing_value_tracks_true": [0] * forest.n_nodes,
        "target_treeids": np.repeat(tree[leaves], width).tolist(),
        "target_nodeids": np.repeat(number[leaves], width).tolist(),
        "target_ids": np.tile(np.arange(width), len(leaves)).tolist(),
        "target_weights": value.ravel().tolist(),
    }


def _finish(forest: Forest, helper: Any) -> tuple[list[Any], dict[str, np.ndarray]]:
    """Operators from summed leaves to the prediction, and the constants that they use."""
    if forest.output in ("probability", "target"):
        name = PROBABILITIES if forest.output == "probability" else TARGET
        return [helper.make_node("Identity", ["leaves"], [name])], {}
    if forest.output == "score":
        # Where all scores are 0 or less, equal shares: a constant far below any share decides then, and only then.
        nodes = [
            helper.make_node("Relu", ["leaves"], ["positive"]),
            helper.make_node("Add", ["positive", "tiny"], ["shares"]),
            helper.make_node("ReduceSum", ["shares", "axis"], ["total"], keepdims=1),
            helper.make_node("Div", ["shares", "total"], [PROBABILITIES]),
        ]
        return nodes, {"tiny": np.array([1e-30]), "axis": np.array([1])}
    added = helper.make_node("Add", ["leaves", "base"], ["sum"])
    if forest.output == "logit":
        return [added, helper.make_node("Softmax", ["sum"], [PROBABILITIES], axis=1)], {"base": forest.base}
    assert forest.schema.target_range is not None
    low, high = (np.array(end, dtype=np.float64) for end in forest.schema.target_range)
    return [added, helper.make_node("Clip", ["sum", "low", "high"], [TARGET])], {
        "base": forest.base,
        "low": low,
        "high": high,
    }
