"""Networks as ONNX models, with all that their inputs need, give the same answers in onnxruntime."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from baselines.dp_fedavg.client import own_factors, own_inputs
from baselines.dp_fedavg.settings import DpFedAvgSettings
from baselines.mlp.architecture import Architecture
from baselines.mlp.inputs import Standard, n_inputs
from baselines.mlp.saved import OwnScale, SavedNetwork, load_network, save_network
from dpforest.schema import Feature, Schema

PLAIN = (
    Feature("linear", 0, 10),
    Feature("root", -4, 16, scale="signed_sqrt"),
    Feature("moved", 0, 8, "", "signed_sqrt", 4),
)
GAPS = (
    *PLAIN,
    Feature("gap", -1, 1, missing="branch"),
    Feature("whole", 2, 5),
    Feature("late", 0, 50, missing="branch"),
)


def network(features: tuple[Feature, ...], classifies: bool, is_standardized: bool, activation: str) -> SavedNetwork:
    ends = {"classes": ("u", "v", "w")} if classifies else {"target": "y", "target_range": (-3.0, 9.0)}
    schema = Schema(features, **ends)  # type: ignore[arg-type]
    architecture = Architecture(n_inputs(schema), schema.n_outputs, classifies, (7, 5), activation, 0.1, (2,))
    rng = np.random.default_rng(5)
    arrays = {name: rng.normal(0, 0.5, shape).astype(np.float32) for name, shape in architecture.shapes.items()}
    arrays["output/bias"] *= 0.2  # or else a target is at the end of its range in every row
    arrays["norm_2/moving_variance"] = rng.uniform(0.2, 2, 5).astype(np.float32)
    if is_standardized:
        mean, scale = rng.uniform(-0.5, 0.5, architecture.inputs), rng.uniform(0.1, 0.4, architecture.inputs)
        arrays |= Standard(mean.astype(np.float32), scale.astype(np.float32)).to_arrays()
    return SavedNetwork(schema, architecture, arrays)


def rows(schema: Schema) -> np.ndarray:
    """Inside the bounds, on them, and with missing cells."""
    rng = np.random.default_rng(6)
    X = rng.uniform(schema.low, schema.high, (400, schema.n_features))
    X[:2] = schema.low, schema.high
    X[rng.uniform(size=X.shape) < 0.2 * ~np.isnan(schema.missing_values)] = np.nan
    X = np.where(np.isnan(X), schema.missing_values, X)
    checked, _ = schema.check_matrix(X)
    return np.asarray(checked)


@pytest.mark.parametrize(
    ("features", "classifies", "is_standardized", "activation"),
    list(itertools.product((PLAIN, GAPS), (True, False), (True, False), ("relu", "tanh"))),
)
def test_predictions_agree_with_those_of_numpy(
    tmp_path: Path, features: tuple[Feature, ...], classifies: bool, is_standardized: bool, activation: str
) -> None:
    runtime = pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    own = network(features, classifies, is_standardized, activation)
    save_network(tmp_path, own.architecture, own.schema, dict(own.arrays), {"standardize": is_standardized})
    own = load_network(tmp_path / "network.json")
    model = own.to_onnx()
    onnx.checker.check_model(model)
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    X = rows(own.schema)
    names = [output.name for output in session.get_outputs()]
    found = dict(zip(names, session.run(None, {"rows": X}), strict=True))
    if classifies:
        np.testing.assert_allclose(found["probabilities"], own.predict_proba(X), atol=2e-6)
        sure = np.ptp(np.sort(own.predict_proba(X), axis=1)[:, -2:], axis=1) > 1e-5
        np.testing.assert_array_equal(found["class_index"][sure], own.predict(X)[sure])
        assert np.ptp(own.predict_proba(X), axis=0).max() > 0.05, "or else nothing was compared"
    else:
        np.testing.assert_allclose(found["target"][:, 0], own.predict(X), atol=2e-5)
        assert len(set(own.predict(X))) > 50
    facts = {entry.key: json.loads(entry.value) for entry in model.metadata_props}
    assert Schema.from_dict(facts["schema"]) == own.schema


@pytest.mark.parametrize("scale", ["z", "ranks"])
@pytest.mark.parametrize("features", [PLAIN, GAPS])
def test_a_person_s_own_scale_is_part_of_the_model(tmp_path: Path, features: tuple[Feature, ...], scale: str) -> None:
    runtime = pytest.importorskip("onnxruntime")
    plain = network(features, True, False, "tanh")
    settings = DpFedAvgSettings(standardize="own", own_scale=scale, hidden=(7, 5))  # type: ignore[arg-type]
    times, less = own_factors(settings, plain.architecture.inputs)
    facts = {"standardize": "own", "own_scale": scale, "less": less, "times": times}
    save_network(tmp_path, plain.architecture, plain.schema, dict(plain.arrays), facts)
    own = load_network(tmp_path / "network.json")
    assert own.own_scale == OwnScale(scale, less, times)
    X, recent = rows(own.schema)[:50], rows(own.schema)[:50]
    asked = own.of_person(X)
    task: Any = SimpleNamespace(schema=own.schema, settings=settings)
    np.testing.assert_array_equal(asked, own_inputs(task, X), err_msg="what the network was trained on")
    session = runtime.InferenceSession(own.to_onnx().SerializeToString(), providers=["CPUExecutionProvider"])
    found = session.run(["probabilities"], {"rows": X, "recent": recent})[0]
    close = np.abs(found - own.predict_proba(asked)).max(axis=1) < 1e-4
    # In single precision a cell may fall to the next step of its scale.
    assert close.mean() > 0.9
