"""A server repeats, swaps and mixes the messages of a run: what a node draws never costs more than its budget.

What is drawn is counted where it is drawn, so neither the node's ledger nor its record of rounds is believed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MessageType, RecordDict

from dpforest.ledger import Entry, Ledger, total_epsilon
from dpforest.mechanisms import Mechanism, Paid
from dpforest.noise import Noise
from fl_app.client_app import app
from fl_app.engine.in_process import InProcessGrid
from strategies.messages import ARRAYS, CONFIG
from strategies.registry import get_method

RUNS, MESSAGES = 3, 8
EPSILON, DELTA = 2.0, 1e-6
SCHEMA = {
    "target": "kind",
    "classes": ["a", "b", "c"],
    "rows": 100,
    "features": [{"name": "x", "low": 0, "high": 1}, {"name": "z", "low": 0, "high": 1}],
}
GROWN = {"trees": 2, "depth": 2, "validation_share": 0, "slices": 1, "features": 1}
VOTE = (
    {"phase": "vote", "seed": 1},
    {"trees": np.array([[0, 1], [-1, -1], [1, 1]]), "values": np.full((2, 1), 0.5)},
)
COUNT = (
    {"phase": "count", "seed": 1},
    {
        "trees": np.array([[0, 1], [-1, -1], [2, 0]]),
        "split_feature": np.array([0, -1]),
        "split_value": np.array([0.5, 0.0]),
    },
)
ROUND = {
    "past.first": np.array([0]),
    "feature": np.zeros((2, 3), np.uint8),
    "split": np.zeros((2, 3), np.uint8),
    "groups": np.zeros((0, 0), np.uint8),
}
START = {"start.cuts": np.tile([0.2, 0.5, 0.8], (2, 1)), "start.base": np.zeros(3), "start.clip": np.array([1.0])}
UNITS = {"start.centre": np.full(2, 0.5), "start.scale": np.full(2, 0.25)}
WEIGHTS = {
    "output/kernel": np.full((2, 3), 0.1),
    "output/bias": np.zeros(3),
    "inputs/mean": np.zeros(2),
    "inputs/scale": np.ones(2),
}
STUMP = {
    "offsets": np.array([0, 1]),
    "feature": np.array([-1], np.int8),
    "threshold": np.empty(0),
    "left": np.empty(0, np.int32),
    "value": np.array([[1.0, 0.0, 0.0]]),
    "weight": np.ones(1),
    "base": np.zeros(3),
}
Asked = list[tuple[dict[str, Any], dict[str, np.ndarray]]]
METHODS: dict[str, tuple[dict[str, Any], Asked]] = {
    "one_shot": ({"depth": 2}, [({}, {})]),
    "one_shot, rows=noised": ({"depth": 2, "rows": "noised"}, [({}, {})]),
    "standalone": ({"depth": 2}, [({}, {})]),
    "ldp_bagging": ({"depth": 2}, [({}, {})]),
    "ldp_bagging, split": ({"depth": 2, "round_budget": "split"}, [({}, {})]),
    "fext": ({"depth": 2, "filter_by": "clients"}, [({}, STUMP)]),
    "pp_fgrf": (GROWN, [VOTE, COUNT]),
    "pp_fprf": (
        {**GROWN, "k": 1},
        [({"phase": "hash", "seed": 1}, {}), ({"phase": "hash", "seed": 2}, {}), VOTE, COUNT],
    ),
    "boost": (
        {"bins": 16, "cuts": 3, "trees_per_round": 2, "linear_share": 0},
        [({"step": "histograms"}, {}), ({"step": "trees"}, ROUND), ({"step": "trees"}, ROUND | START)],
    ),
    "boost, linear": (
        {"bins": 16, "cuts": 3, "trees_per_round": 2, "linear_share": 0.5},
        [({"step": "histograms"}, {}), ({"step": "moments"}, UNITS), ({"step": "trees"}, ROUND | START | UNITS)],
    ),
    "dp_sgd": (
        {"hidden": [], "batch": 20, "steps": 2, "standardize": "private"},
        [({"phase": "standardize"}, {}), *(({"phase": "train", "noise-multiplier": m}, WEIGHTS) for m in (3.0, 30.0))],
    ),
}  # fmt: skip


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Entry]:
    """A line for everything that mechanisms draw."""
    lines: list[Entry] = []
    draw, draw_parts = Paid.draw, Paid.draw_parts

    def watched(self: Paid, values: np.ndarray, noise: Noise, times: int = 1) -> np.ndarray:
        found = draw(self, values, noise, times)
        lines.append(self.mechanism.entry("drawn", times=times))
        return found

    def watched_parts(self: Paid, parts: Sequence[tuple[Mechanism, np.ndarray, Noise]]) -> list[np.ndarray]:
        found = draw_parts(self, parts)
        lines.append(self.mechanism.entry("drawn"))
        return found

    monkeypatch.setattr(Paid, "draw", watched)
    monkeypatch.setattr(Paid, "draw_parts", watched_parts)
    monkeypatch.delitem(sys.modules, "ray", raising=False)
    InProcessGrid(app, 1)  # gives this process the identity that Flower's messages need
    return lines


@pytest.mark.parametrize("name", METHODS)
def test_no_order_and_no_repetition_of_messages_buys_more_than_the_budget(
    name: str, drawn: list[Entry], tmp_path: Path
) -> None:
    if name == "dp_sgd":
        pytest.importorskip("tensorflow")
    (tmp_path / "mine.csv").write_text(
        "x,z,kind\n" + "".join(f"0.{i},0.{i * 7 % 10},{'abc'[i % 3]}\n" for i in range(60))
    )
    rng = np.random.default_rng(list(name.encode()))
    answered = 0
    for number in range(RUNS):
        drawn.clear()
        context = Context(run_id=1, node_id=1000, node_config=_own(tmp_path), state=RecordDict(), run_config={})
        for _ in range(MESSAGES):
            config, arrays = METHODS[name][1][rng.integers(len(METHODS[name][1]))]
            round_ = int(rng.integers(1, 5))
            answered += ARRAYS in _ask(context, name, number + 1, {"round": round_} | config, arrays)
        if drawn:
            kept = Ledger.from_dict(json.loads(str(context.state.config_records["dpforest"]["ledger"])))
            cost = total_epsilon(drawn, DELTA)
            assert cost <= EPSILON * (1 + 1e-6)
            assert cost <= kept.guarantee().epsilon * (1 + 1e-6), "the ledger says less than what was drawn"
    assert answered >= RUNS


def _own(folder: Path) -> dict[str, Any]:
    return {"partition-id": 0, "data-path": str(folder / "mine.csv"), "max-epsilon": EPSILON, "max-delta": DELTA}


def _ask(context: Context, name: str, rounds: int, config: dict[str, Any], arrays: dict[str, np.ndarray]) -> RecordDict:
    text = json.dumps(
        {
            "strategy": {"name": name.split(",")[0], **METHODS[name][0]},
            "dataset": {"name": "table", "schema": SCHEMA},
            "privacy": {"epsilon": EPSILON, "delta": DELTA},
            "rounds": rounds if get_method(name.split(",")[0]).uses_rounds else 1,
        }
    )
    content = RecordDict({CONFIG: ConfigRecord({"experiment": text, "run": "run 1", "clients": 1} | config)})
    content[ARRAYS] = ArrayRecord({key: Array(np.ascontiguousarray(array)) for key, array in arrays.items()})
    return app(Message(content, 1000, MessageType.TRAIN), context).content
