"""Forests as ONNX models for phones and watches; needs the extra ``onnx``.

The trees become one ``TreeEnsembleRegressor`` (domain ai.onnx.ml) with an output a class, which adds up leaf values;
operators of the core set make probabilities of the sums. Whatever runs ONNX runs it, and nothing of this project.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from dpforest.errors import DPForestError, InvalidForest
from dpforest.files import written_whole
from dpforest.forest.forest import Forest
from dpforest.forest.onnx_own_rows import OWN, RECENT, ROWS, OwnRowsGraph

_CORE, _TREES = 13, 3  # operator sets, old enough for runtimes on devices
_IR_VERSION = 8
INPUT = ROWS
PROBABILITIES, CLASS, TARGET = "probabilities", "class_index", "target"


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
    try:
        from onnx import TensorProto, helper
    except ImportError as error:
        raise DPForestError('ONNX export needs the package onnx: pip install "dpforest[onnx]"') from error
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
    rows = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [n, n_features]) for name, n in asked.items()]
    if forest.schema.is_classification:
        outputs = [
            helper.make_tensor_value_info(PROBABILITIES, TensorProto.FLOAT, ["n", width]),
            helper.make_tensor_value_info(CLASS, TensorProto.INT64, ["n"]),
        ]
        finish.append(helper.make_node("ArgMax", [PROBABILITIES], [CLASS], axis=1, keepdims=0))
    else:
        outputs = [helper.make_tensor_value_info(TARGET, TensorProto.FLOAT, ["n", 1])]
    initializers = [
        helper.make_tensor(
            name,
            {"i": TensorProto.INT64, "b": TensorProto.BOOL}.get(values.dtype.kind, TensorProto.FLOAT),
            list(values.shape),
            values.ravel().tolist(),
        )
        for name, values in constants.items()
    ]
    graph = helper.make_graph([*widen, ensemble, *finish], "forest", rows, outputs, initializers)
    sets = [helper.make_opsetid("", _CORE), helper.make_opsetid("ai.onnx.ml", _TREES)]
    model = helper.make_model(graph, opset_imports=sets, producer_name="dpforest", ir_version=_IR_VERSION)
    facts = {"schema": forest.schema.to_dict(), "provenance": dict(forest.provenance)}
    if forest.own:
        facts["own"] = forest.own.schema.to_dict()
    helper.set_model_props(model, {name: json.dumps(fact) for name, fact in facts.items()})
    return model


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
    path = Path(path)
    model = to_onnx(forest).SerializeToString()
    with written_whole(path) as place:
        place.write_bytes(model)
    return path


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
