"""Rows on a person's own scale as operators of ONNX: `dpforest.own_rows.OwnRows.rows`, in single precision."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpforest.forest.onnx_graph import OnnxGraph
from dpforest.own_rows import FARTHEST, RANKS, SMALLEST_DEVIATION, STEPS, OwnRows

ROWS, RECENT, OWN = "rows", "recent", "own"


class OwnRowsGraph(OnnxGraph):
    """Operators from ``rows`` and the person's ``recent`` rows to what trees ask, ``own``.

    Parameters
    ----------
    own : OwnRows
    helper : module
        ``onnx.helper``.
    """

    def __init__(self, own: OwnRows, helper: Any) -> None:
        super().__init__("own", helper)
        self._schema, self._width = own.schema, len(own.columns)
        rows, recent = self._read(ROWS), self._read(RECENT)
        number = self.call("Max", self._sum(recent["present"], 0), self.constant("one", 1.0))
        ranks, z = self._ranks(rows, recent, number), self._z(rows, recent, number)
        self.nodes.append(helper.make_node("Concat", [ranks, z], [OWN], axis=1))

    def _read(self, rows: str) -> dict[str, str]:
        """Cells and whether they are missing, as they are and from 0 to 1; 1 where a cell is present, else 0."""
        unit = self.unit_cells(rows, self._schema)
        if not len(self._schema.gaps):
            return {"cells": rows, "unit": unit, "present": self.call("Exp", self.call("Sub", unit, unit))}
        missing, present = self.missing_cells(rows, self._schema, self._width)
        return {
            "cells": self.call("Concat", rows, missing, axis=1),
            "unit": self.call("Concat", unit, missing, axis=1),
            "present": present,
        }

    def _ranks(self, rows: dict[str, str], recent: dict[str, str], number: str) -> str:
        half = self.constant("half", 0.5)
        ours = self.call("Unsqueeze", rows["cells"], self.constant("axis_1", np.array([1])))
        theirs, present = (
            self.call("Unsqueeze", recent[name], self.constant("axis_0", np.array([0])))
            for name in ("cells", "present")
        )
        below = self.call("Cast", self.call("Less", theirs, ours), to=1)
        equal = self.call("Mul", self.call("Cast", self.call("Equal", theirs, ours), to=1), half)
        middle = self._sum(self.call("Mul", self.call("Add", below, equal), present), 1)
        parts = self.call("Mul", middle, self.constant("ranks", float(RANKS)))
        code = self.call("Floor", self.call("Div", parts, number))
        code = self.call("Clip", code, self.constant("nought", 0.0), self.constant("last", RANKS - 1.0))
        is_there = self.call("Greater", rows["present"], half)
        code = self.call("Where", is_there, code, self.constant("middle", float(RANKS // 2)))
        return self.call("Div", self.call("Add", code, half), self.constant("ranks", float(RANKS)))

    def _z(self, rows: dict[str, str], recent: dict[str, str], number: str) -> str:
        total = self._sum(self.call("Mul", recent["unit"], recent["present"]), 0)
        mean = self.call("Div", total, number)
        theirs, ours = (
            self.call("Mul", self.call("Sub", each["unit"], mean), each["present"]) for each in (recent, rows)
        )
        variance = self.call("Div", self._sum(self.call("Mul", theirs, theirs), 0), number)
        deviation = self.call("Max", self.call("Sqrt", variance), self.constant("least", SMALLEST_DEVIATION))
        z = self.call("Clip", self.call("Div", ours, deviation), self.constant("lowest", -FARTHEST),
                       self.constant("highest", FARTHEST))  # fmt: skip
        steps = self.constant("steps", float(STEPS))
        return self.call("Div", self.call("Round", self.call("Mul", z, steps)), steps)

    def _sum(self, values: str, axis: int) -> str:
        return self.call("ReduceSum", values, self.constant(f"axis_{axis}", np.array([axis])), keepdims=0)
