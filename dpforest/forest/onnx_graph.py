"""What all exports to ONNX share: a graph under construction, rows on their public scales, and the finished model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpforest.errors import DPForestError
from dpforest.files import written_whole
from dpforest.schema import Schema

PROBABILITIES, CLASS, TARGET = "probabilities", "class_index", "target"
_CORE, _TREES = 13, 3  # operator sets, old enough for runtimes on devices
_IR_VERSION = 8


def onnx_helper() -> Any:
    """The module ``onnx.helper``.

    Raises
    ------
    DPForestError
        The package onnx is missing.
    """
    try:
        from onnx import helper
    except ImportError as error:
        raise DPForestError('ONNX export needs the package onnx: pip install "dpforest[onnx]"') from error
    return helper


class OnnxGraph:
    """Operators and constants whose names have a prefix of their own.

    Parameters
    ----------
    prefix : str
    helper : module
        ``onnx.helper``.
    """

    def __init__(self, prefix: str, helper: Any) -> None:
        self.nodes: list[Any] = []
        self.constants: dict[str, np.ndarray] = {}
        self.helper, self._prefix = helper, prefix

    def call(self, operator: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        """Add an operator; the name of its output."""
        output = output or f"{self._prefix}_{len(self.nodes)}"
        self.nodes.append(self.helper.make_node(operator, list(inputs), [output], **attributes))
        return output

    def constant(self, name: str, value: Any) -> str:
        """Add a constant; its name in the graph."""
        self.constants[f"{self._prefix}_{name}"] = np.asarray(value)
        return f"{self._prefix}_{name}"

    def unit_cells(self, rows: str, schema: Schema) -> str:
        """`Schema.grid_position` of rows, from 0 to 1."""
        bent = np.array([feature.scale == "signed_sqrt" for feature in schema.features])
        centre = np.array([feature.centre for feature in schema.features])
        ends = np.stack([schema.low, schema.high])
        stretched = np.where(bent, np.sign(ends - centre) * np.sqrt(np.abs(ends - centre)), ends)
        off = self.call("Sub", rows, self.constant("centre", centre))
        root = self.call("Mul", self.call("Sign", off), self.call("Sqrt", self.call("Abs", off)))
        place = self.call("Where", self.constant("bent", bent), root, rows)
        unit = self.call("Div", self.call("Sub", place, self.constant("low_end", stretched[0])),
                         self.constant("span", stretched[1] - stretched[0]))  # fmt: skip
        return self.call("Clip", unit, self.constant("nought", 0.0), self.constant("one", 1.0))

    def missing_cells(self, rows: str, schema: Schema, width: int) -> tuple[str, str]:
        """1 for each missing cell of the features that have such cells, else 0; and where cells are not missing.

        The second has 0 for each of all ``width`` columns that is missing, else 1.
        """
        gaps = schema.gaps
        cells = self.call("Gather", rows, self.constant("gaps", gaps), axis=1)
        missing = self.call("Equal", cells, self.constant("missing", schema.missing_values[gaps]))
        missing = self.call("Cast", missing, to=1)
        where = np.zeros((len(gaps), width))
        where[np.arange(len(gaps)), gaps] = 1
        absent = self.call("MatMul", missing, self.constant("where", where))
        return missing, self.call("Sub", self.constant("one", 1.0), absent)


def onnx_model(
    helper: Any,
    name: str,
    nodes: Sequence[Any],
    inputs: Mapping[str, Sequence[object]],
    schema: Schema,
    constants: Mapping[str, np.ndarray],
    facts: Mapping[str, Any],
) -> Any:
    """A model with the outputs of a schema; the class of the most probable is found here.

    Parameters
    ----------
    helper : module
        ``onnx.helper``.
    name : str
    nodes : sequence of NodeProto
        Which make `PROBABILITIES`, or `TARGET`.
    inputs : mapping of str to sequence of int or str, names of dimensions
        Shape of each input.
    schema : Schema
    constants : mapping of str to ndarray
    facts : mapping of str
        Metadata, kept as JSON.

    Returns
    -------
    onnx.ModelProto
    """
    from onnx import TensorProto

    nodes, kinds = list(nodes), {"i": TensorProto.INT64, "b": TensorProto.BOOL}
    if schema.is_classification:
        outputs = [
            helper.make_tensor_value_info(PROBABILITIES, TensorProto.FLOAT, ["n", schema.n_outputs]),
            helper.make_tensor_value_info(CLASS, TensorProto.INT64, ["n"]),
        ]
        nodes.append(helper.make_node("ArgMax", [PROBABILITIES], [CLASS], axis=1, keepdims=0))
    else:
        outputs = [helper.make_tensor_value_info(TARGET, TensorProto.FLOAT, ["n", 1])]
    rows = [helper.make_tensor_value_info(each, TensorProto.FLOAT, shape) for each, shape in inputs.items()]
    initializers = [
        helper.make_tensor(
            each, kinds.get(values.dtype.kind, TensorProto.FLOAT), list(values.shape), values.ravel().tolist()
        )
        for each, values in constants.items()
    ]
    graph = helper.make_graph(nodes, name, rows, outputs, initializers)
    sets = [helper.make_opsetid("", _CORE), helper.make_opsetid("ai.onnx.ml", _TREES)]
    model = helper.make_model(graph, opset_imports=sets, producer_name="dpforest", ir_version=_IR_VERSION)
    helper.set_model_props(model, {each: json.dumps(fact) for each, fact in facts.items()})
    return model


def write_onnx(model: Any, path: str | Path) -> Path:
    """Write a model to a file, whole or not at all."""
    path = Path(path)
    with written_whole(path) as place:
        place.write_bytes(model.SerializeToString())
    return path
