"""One client sends arrays of the right names, types and shapes with extreme numbers: the others lose no model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Message
from hand_made import CLIENTS, SCHEMA, Act, Interfering, make, write_table

from dpforest.forest import load
from fl_app.engine.in_process import InProcessGrid
from fl_app.jobs.record import run_job
from fl_app.results.finished import read_run
from strategies.messages import ARRAYS

BAD = 2
TARGETS = {**SCHEMA, "target": "b", "target_range": [0, 1], "features": [{"name": "a", "low": 0, "high": 1}]}
del TARGETS["classes"]
TWO = {**SCHEMA, "classes": ["low", "middle"]}
EXACT = {"accounting": "published", "slices": 1}
APPROXIMATE = {"delta": 1e-6}
METHODS: dict[str, dict[str, Any]] = {
    "one_shot": {"strategy": {"name": "one_shot", "depth": 2, "rows": "noised"}},
    "ldp_bagging": {"strategy": {"name": "ldp_bagging", "depth": 2}, "rounds": 2},
    "ldp_bagging published two classes": {
        "strategy": {"name": "ldp_bagging", "accounting": "published", "depth": 2}, "rounds": 2,
    },
    "fext": {"strategy": {"name": "fext", "filter_by": "clients", "depth": 2}, "rounds": 2},
    "fext regression": {"strategy": {"name": "fext", "filter_by": "clients", "depth": 2}, "rounds": 2},
    "fext published regression": {
        "strategy": {"name": "fext", "accounting": "published", "score": "pearson", "own_model": "ignore"}, "rounds": 2,
        "evaluation": {"public_share": 0.2},
    },
    "boost": {"strategy": {"name": "boost"}, "rounds": 3, "privacy": APPROXIMATE},
    "boost regression": {"strategy": {"name": "boost"}, "rounds": 3, "privacy": APPROXIMATE},
    "boost secure": {
        "strategy": {"name": "boost", "dropouts": 1}, "rounds": 3, "privacy": APPROXIMATE | {"trust": "shared"},
    },
    "boost pure": {"strategy": {"name": "boost", "pure": True}, "rounds": 3},
    "pp_fgrf": {"strategy": {"name": "pp_fgrf", "trees": 3, "depth": 2}},
    "pp_fgrf published": {"strategy": {"name": "pp_fgrf", **EXACT, "trees": 3, "depth": 2}},
    "pp_fprf": {"strategy": {"name": "pp_fprf", "trees": 3, "depth": 2, "k": 1}},
    "pp_fprf published": {"strategy": {"name": "pp_fprf", **EXACT, "trees": 3, "depth": 2, "k": 1}},
    "dp_fedavg": {"strategy": {"name": "dp_fedavg"}, "rounds": 2, "epsilon": 8.0, "privacy": APPROXIMATE},
    "dp_fedavg published": {
        "strategy": {"name": "dp_fedavg_published", "clients_per_round": 3}, "rounds": 2, "privacy": APPROXIMATE,
    },
    "dp_sgd": {"strategy": {"name": "dp_sgd", "standardize": "private"}, "rounds": 2, "privacy": APPROXIMATE},
    "fedavg": {"strategy": {"name": "fedavg"}, "rounds": 2, "epsilon": "inf"},
    "centralized": {"strategy": {"name": "centralized", "trees": 3}, "epsilon": "inf"},
    "centralized_mlp": {"strategy": {"name": "centralized_mlp", "epochs": 2}, "epsilon": "inf"},
}  # fmt: skip


def _ends(array: np.ndarray) -> tuple[Any, Any]:
    if array.dtype.kind == "b":
        return False, True
    info = np.iinfo(array.dtype) if array.dtype.kind in "iu" else np.finfo(array.dtype)
    return info.min, info.max


def _mixed(array: np.ndarray) -> np.ndarray:
    low, high = _ends(array)
    return np.where(np.arange(array.size).reshape(array.shape) % 2, low, high)


def _one(value: Callable[[np.ndarray], Any]) -> Callable[[np.ndarray], np.ndarray]:
    def change(array: np.ndarray) -> np.ndarray:
        changed = array.copy()
        changed.ravel()[:1] = value(array)
        return changed

    return change


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype({"i": np.int64, "u": np.uint64, "f": np.float64}.get(array.dtype.kind, array.dtype))


EXTREMES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "all the largest": lambda array: np.full_like(array, _ends(array)[1]),
    "both ends": _mixed,
    "one the largest": _one(lambda array: _ends(array)[1]),
    "a large part of 64 bits, negative": lambda array: np.full_like(
        _wide(array), -(2**61) if array.dtype.kind == "i" else 1 if array.dtype.kind in "ub" else -1e37
    ),
    "a thousand times": lambda array: array if array.dtype.kind == "b" else _wide(array) * 1000,
}


def _all_arrays(change: Callable[[np.ndarray], np.ndarray]) -> Act:
    def act(message: Message, honest: Callable[[], Message]) -> Message:
        reply = honest()
        old = {name: array.numpy() for name, array in dict(reply.content.array_records.get(ARRAYS, {})).items()}
        changed = {
            name: Array(np.ascontiguousarray(change(array).astype(change(array).dtype))) for name, array in old.items()
        }
        reply.content[ARRAYS] = ArrayRecord(changed)
        return reply

    return act


@pytest.mark.parametrize("extreme", EXTREMES)
@pytest.mark.parametrize("method", METHODS)
def test_extreme_arrays_cost_the_others_no_model(tmp_path: Path, method: str, extreme: str) -> None:
    schema = TARGETS if "regression" in method else TWO if "two classes" in method else SCHEMA
    dataset = write_table(tmp_path, rows=40, schema=schema)
    if schema is TWO:
        table = Path(dataset["path"])
        table.write_text(table.read_text().replace("high", "low"))
    experiment = make(dataset, **METHODS[method])
    app = Interfering({BAD: _all_arrays(EXTREMES[extreme])})
    output = tmp_path / "run"
    with np.errstate(all="raise", under="ignore"):
        run_job(experiment, InProcessGrid(app, CLIENTS), output)  # type: ignore[arg-type]
    read = read_run(output)
    assert np.isfinite(read.metrics["r2" if "regression" in method else "accuracy"])
    assert set(read.metrics.get("left_out", {})) <= {str(BAD)}
    json.loads((output / "metrics.json").read_text(), parse_constant=lambda name: pytest.fail(name))
    if (output / "model" / "forest.json").exists():
        forest = load(output / "model" / "forest.json")
        X = np.random.default_rng(0).random((5, forest.schema.n_features))
        assert np.isfinite(forest.predict(X) if schema is TARGETS else forest.predict_proba(X)).all()
