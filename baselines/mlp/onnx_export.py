"""Networks as ONNX models for phones and watches, with the preparation of their inputs; needs the extra ``onnx``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from baselines.mlp.inputs import FURTHEST, MEAN, SCALE
from dpforest.forest.onnx_graph import PROBABILITIES, TARGET, OnnxGraph, onnx_helper, onnx_model
from dpforest.forest.onnx_own_rows import OWN, RECENT, ROWS, OwnRowsGraph

if TYPE_CHECKING:
    from baselines.mlp.saved import SavedNetwork

_ACTIVATIONS = {"relu": "Relu", "tanh": "Tanh"}


def network_to_onnx(network: SavedNetwork) -> Any:
    """An ONNX model with the predictions of a network.

    The input ``rows`` is float32 of shape (n_rows, n_features), columns in the order of the schema, inside its bounds;
    a missing cell is its feature's ``missing_value``. Public scales and the standardisation that came with the network
    are part of the model. A network that is fed rows on a person's own scale has a second input ``recent`` of the same
    width, of that person's rows, 30 or more; both may be the same. The outputs are those of `dpforest.forest.to_onnx`.

    Returns
    -------
    onnx.ModelProto

    Raises
    ------
    DPForestError
        The package onnx is missing.
    """
    from baselines.mlp.saved import NORM_EPSILON

    graph = OnnxGraph("network", onnx_helper())
    schema, arrays, architecture = network.schema, network.arrays, network.architecture
    value = _own_inputs(graph, network) if network.own_scale else _inputs(graph, network)
    for layer in range(1, len(architecture.hidden) + 1):
        value = _dense(graph, value, f"hidden_{layer}", network)
        if layer in architecture.batch_norm:
            gamma, beta, mean, variance = (
                arrays[f"norm_{layer}/{name}"].astype(np.float64)
                for name in ("gamma", "beta", "moving_mean", "moving_variance")
            )
            times = gamma / np.sqrt(variance + NORM_EPSILON)
            value = graph.call("Mul", value, graph.constant(f"norm_{layer}_times", times))
            value = graph.call("Add", value, graph.constant(f"norm_{layer}_plus", beta - mean * times))
        value = graph.call(_ACTIVATIONS[architecture.activation], value)
    value = _dense(graph, value, "output", network)
    if schema.target_range is None:
        graph.call("Softmax", value, output=PROBABILITIES, axis=1)
    else:
        low, high = schema.target_range
        inside = graph.call("Clip", value, graph.constant("lowest", -1.0), graph.constant("one", 1.0))
        grown = graph.call("Mul", inside, graph.constant("half_range", (high - low) / 2))
        graph.call("Add", grown, graph.constant("middle", (high + low) / 2), output=TARGET)
    rows = {ROWS: ["n", schema.n_features]}
    if network.own_scale:
        rows[RECENT] = ["m", schema.n_features]
    facts = {"schema": schema.to_dict()}
    return onnx_model(graph.helper, "network", graph.nodes, rows, schema, graph.constants, facts)


def _inputs(graph: OnnxGraph, network: SavedNetwork) -> str:
    """`baselines.mlp.inputs.model_inputs` of the rows."""
    schema, arrays = network.schema, network.arrays
    one = graph.constant("one", 1.0)
    unit = graph.call("Sub", graph.call("Mul", graph.unit_cells(ROWS, schema), graph.constant("two", 2.0)), one)
    if len(schema.gaps):
        missing, present = graph.missing_cells(ROWS, schema, schema.n_features)
        unit = graph.call("Concat", graph.call("Mul", unit, present), missing, axis=1)
    if MEAN not in arrays:
        return unit
    less = graph.call("Sub", unit, graph.constant("mean", arrays[MEAN]))
    scaled = graph.call("Div", less, graph.constant("scale", arrays[SCALE]))
    return graph.call("Clip", scaled, graph.constant("least", -FURTHEST), graph.constant("most", FURTHEST))


def _own_inputs(graph: OnnxGraph, network: SavedNetwork) -> str:
    """`SavedNetwork.of_person` of the rows, by the person's recent ones."""
    assert network.own is not None
    assert network.own_scale is not None
    own, width = OwnRowsGraph(network.own, graph.helper), len(network.own.columns)
    graph.nodes += own.nodes
    graph.constants |= own.constants
    first = width if network.own_scale.scale == "z" else 0
    values = graph.call("Gather", OWN, graph.constant("asked", np.arange(first, first + width)), axis=1)
    less = graph.call("Sub", values, graph.constant("less", network.own_scale.less))
    return graph.call("Mul", less, graph.constant("times", network.own_scale.times))


def _dense(graph: OnnxGraph, value: str, layer: str, network: SavedNetwork) -> str:
    kernel, bias = (graph.constant(f"{layer}_{name}", network.arrays[f"{layer}/{name}"]) for name in ("kernel", "bias"))
    return graph.call("Gemm", value, kernel, bias)
