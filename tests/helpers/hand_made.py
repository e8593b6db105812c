"""Small federations on made-up tables, with clients and grids that misbehave where a test says so."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict

from fl_app.client_app import app as client_app
from fl_app.engine.experiment import Experiment
from fl_app.engine.in_process import InProcessGrid
from fl_app.engine.run import Run, run_experiment
from strategies.messages import ARRAYS, CONFIG

# Explicit, so that a better default changes no test.
TREES = {
    "name": "one_shot",
    "depth": 3,
    "trees": 1,
    "bins": 8,
    "shared_below": None,
    "depth_growth": 1.0,
    "smoothing": "laplace",
}
SCHEMA = {
    "target": "kind",
    "classes": ["low", "middle", "high"],
    "rows": 100,
    "features": [{"name": "a", "low": 0, "high": 1}, {"name": "b", "low": 0, "high": 1}],
}
CLIENTS = 4


def table_rows(rows: int = 90) -> tuple[np.ndarray, np.ndarray]:
    """Points of a low-discrepancy sequence and the third of [0, 1] that their first coordinate lies in."""
    number = np.arange(1, rows + 1)
    X = np.stack([number * 0.7548776662466927 % 1, number * 0.5698402909980532 % 1], axis=1)
    return X, np.minimum(X[:, 0] * 3, 2).astype(int)


def write_table(
    folder: Path, clients: int = CLIENTS, rows: int = 90, schema: Mapping[str, Any] = SCHEMA, change: str = ""
) -> dict[str, Any]:
    """A table in ``folder`` with equally many rows a client; returns the settings of its data set.

    ``change``: a line of the table to add.
    """
    X, y = table_rows(rows * clients)
    lines = ["client,a,b,kind"]
    lines += [
        f"c{i % clients},{a:.6f},{b:.6f},{SCHEMA['classes'][k]}" for i, ((a, b), k) in enumerate(zip(X, y, strict=True))
    ]
    if change:
        lines.append(change)
    (folder / "table.csv").write_text("\n".join(lines) + "\n")
    (folder / "schema.yaml").write_text(yaml.safe_dump(dict(schema)))
    return {
        "name": "table",
        "path": str(folder / "table.csv"),
        "schema": str(folder / "schema.yaml"),
        "client_column": "client",
    }


def make(dataset: Mapping[str, Any], epsilon: float | str = 2.0, **options: Any) -> Experiment:
    """An experiment on a data set; pinned one-shot trees unless ``strategy`` says otherwise."""
    privacy = {"epsilon": epsilon} | options.pop("privacy", {})
    return Experiment.from_dict({"strategy": TREES, "dataset": dataset, "privacy": privacy, **options})


def run(experiment: Experiment, nodes: int = CLIENTS, app: Any = client_app) -> Run:
    """Run it on an in-process grid."""
    return run_experiment(experiment, InProcessGrid(app, nodes))


Act = Callable[[Message, Callable[[], Message]], Message]


class Interfering:
    """The real ClientApp, with some clients' answers to messages of one type replaced.

    An act is given the message and a function that makes the honest reply.
    """

    def __init__(self, acts: Mapping[int, Act], kind: str = "train") -> None:
        self.acts, self.kind = acts, kind

    def __call__(self, message: Message, context: Context) -> Message:
        act = self.acts.get(int(context.node_config["partition-id"]))
        if act is None or message.metadata.message_type != self.kind:
            return client_app(message, context)
        return act(message, lambda: client_app(message, context))


class MeddlingGrid(InProcessGrid):
    """Hands out other replies than those that were sent."""

    def __init__(self, nodes: int, meddle: Callable[[list[Message]], list[Message]], kind: str = "train") -> None:
        super().__init__(client_app, nodes)
        self._meddle, self._kind = meddle, kind

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        messages = list(messages)
        replies = list(super().send_and_receive(messages, timeout=timeout))
        return self._meddle(replies) if messages and messages[0].metadata.message_type == self._kind else replies


def with_arrays(**changes: np.ndarray | Array | None) -> Act:
    """An act that replaces arrays of the honest reply; None drops one."""

    def act(message: Message, honest: Callable[[], Message]) -> Message:
        reply = honest()
        arrays = dict(reply.content[ARRAYS])
        for name, value in changes.items():
            arrays.pop(name, None)
            if value is not None:
                arrays[name] = value if isinstance(value, Array) else Array(np.ascontiguousarray(value))
        reply.content[ARRAYS] = ArrayRecord(arrays)
        return reply

    return act


def with_config(**changes: Any) -> Act:
    """An act that replaces settings of the honest reply; None drops one."""

    def act(message: Message, honest: Callable[[], Message]) -> Message:
        reply = honest()
        config = {name: value for name, value in reply.content[CONFIG].items() if name not in changes}
        reply.content[CONFIG] = ConfigRecord(config | {k: v for k, v in changes.items() if v is not None})
        return reply

    return act


def with_content(content: RecordDict) -> Act:
    """An act that answers something else altogether."""
    return lambda message, honest: Message(content, reply_to=message)


def raw_array(data: bytes, dtype: str = "float32", shape: tuple[int, ...] = (1,)) -> Array:
    """An array record with bytes of one's own."""
    return Array(dtype=dtype, shape=tuple(shape), stype="numpy.ndarray", data=data)
