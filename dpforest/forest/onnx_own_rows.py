"""Rows on a person's own scale as operators of ONNX: `dpforest.own_rows.OwnRows.rows`, in single precision."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpforest.own_rows import FARTHEST, RANKS, SMALLEST_DEVIATION, STEPS, OwnRows

ROWS, RECENT, OWN = "rows", "recent", "own"


class OwnRowsGraph:
    """Operators from ``rows`` and the person's ``recent`` rows to what trees ask, ``own``.

    Parameters
    ----------
    own : OwnRows
    helper : module
        ``onnx.helper``.
    """

    def __init__(self, own: OwnRows, helper: Any) -> None:
        self.nodes: list[Any] = []
        self.constants: dict[str, np.ndarray] = {}
        self._helper, self._schema = helper, own.schema
        self._gaps = own.schema.gaps
        self._width = len(own.columns)
        rows, recent = self._read(ROWS), self._read(RECENT)
        number = self._call("Max", self._sum(recent["present"], 0), self._constant("one", 1.0))
        ranks, z = self._ranks(rows, recent, number), self._z(rows, recent, number)
        self.nodes.append(helper.make_node("Concat", [ranks, z], [OWN], axis=1))

    def _read(self, rows: str) -> dict[str, str]:
        """Cells and whether they are missing, as they are and from 0 to 1; 1 where a cell is present, else 0."""
        schema = self._schema
        bent = np.array([feature.scale == "signed_sqrt" for feature in schema.features])
        centre = np.array([feature.centre for feature in schema.features])
        ends = np.stack([schema.low, schema.high])
        stretched = np.where(bent, np.sign(ends - centre) * np.sqrt(np.abs(ends - centre)), ends)
        off = self._call("Sub", rows, self._constant("centre", centre))
        root = self._call("Mul", self._call("Sign", off), self._call("Sqrt", self._call("Abs", off)))
        place = self._call("Where", self._constant("bent", bent), root, rows)
        unit = self._call("Div", self._call("Sub", place, self._constant("low_end", stretched[0])),
                          self._constant("span", stretched[1] - stretched[0]))  # fmt: skip
        unit = self._call("Clip", unit, self._constant("nought", 0.0), self._constant("one", 1.0))
        if not len(self._gaps):
            return {"cells": rows, "unit": unit, "present": self._call("Exp", self._call("Sub", unit, unit))}
        cells = self._call("Gather", rows, self._constant("gaps", self._gaps), axis=1)
        missing = self._call("Equal", cells, self._constant("missing", schema.missing_values[self._gaps]))
        missing = self._call("Cast", missing, to=1)
        where = np.zeros((len(self._gaps), self._width))
        where[np.arange(len(self._gaps)), self._gaps] = 1
        absent = self._call("MatMul", missing, self._constant("where", where))
        return {
            "cells": self._call("Concat", rows, missing, axis=1),
            "unit": self._call("Concat", unit, missing, axis=1),
            "present": self._call("Sub", self._constant("one", 1.0), absent),
        }

    def _ranks(self, rows: dict[str, str], recent: dict[str, str], number: str) -> str:
        half = self._constant("half", 0.5)
        ours = self._call("Unsqueeze", rows["cells"], self._constant("axis_1", np.array([1])))
        theirs, present = (
            self._call("Unsqueeze", recent[name], self._constant("axis_0", np.array([0])))
            for name in ("cells", "present")
        )
        below = self._call("Cast", self._call("Less", theirs, ours), to=1)
        equal = self._call("Mul", self._call("Cast", self._call("Equal", theirs, ours), to=1), half)
        middle = self._sum(self._call("Mul", self._call("Add", below, equal), present), 1)
        parts = self._call("Mul", middle, self._constant("ranks", float(RANKS)))
        code = self._call("Floor", self._call("Div", parts, number))
        code = self._call("Clip", code, self._constant("nought", 0.0), self._constant("last", RANKS - 1.0))
        is_there = self._call("Greater", rows["present"], half)
        code = self._call("Where", is_there, code, self._constant("middle", float(RANKS // 2)))
        return self._call("Div", self._call("Add", code, half), self._constant("ranks", float(RANKS)))

    def _z(self, rows: dict[str, str], recent: dict[str, str], number: str) -> str:
        total = self._sum(self._call("Mul", recent["unit"], recent["present"]), 0)
        mean = self._call("Div", total, number)
        theirs, ours = (
            self._call("Mul", self._call("Sub", each["unit"], mean), each["present"]) for each in (recent, rows)
        )
        variance = self._call("Div", self._sum(self._call("Mul", theirs, theirs), 0), number)
        deviation = self._call("Max", self._call("Sqrt", variance), self._constant("least", SMALLEST_DEVIATION))
        z = self._call("Clip", self._call("Div", ours, deviation), self._constant("lowest", -FARTHEST),
                       self._constant("highest", FARTHEST))  # fmt: skip
        steps = self._constant("steps", float(STEPS))
        return self._call("Div", self._call("Round", self._call("Mul", z, steps)), steps)

    def _sum(self, values: str, axis: int) -> str:
        return self._call("ReduceSum", values, self._constant(f"axis_{axis}", np.array([axis])), keepdims=0)

    def _call(self, operator: str, *inputs: str, **attributes: Any) -> str:
        output = f"own_{len(self.nodes)}"
        self.nodes.append(self._helper.make_node(operator, list(inputs), [output], **attributes))
        return output

    def _constant(self, name: str, value: Any) -> str:
        self.constants[f"own_{name}"] = np.asarray(value)
        return f"own_{name}"
