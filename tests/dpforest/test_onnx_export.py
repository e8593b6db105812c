"""ONNX models give the same answers in onnxruntime."""

import json
import sys

import numpy as np
import pytest
from made_up_forests import SCHEMA, made_up_forest

from dpforest.errors import DPForestError, InvalidForest
from dpforest.forest import save_onnx, to_onnx
from dpforest.forest.forest import Forest


def rows(n=3000):
    return np.random.default_rng(0).uniform(-1, 5, (n, 3)).astype(np.float32)


def run(forest: Forest, X):
    runtime = pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    model = to_onnx(forest)
    onnx.checker.check_model(model)
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return dict(zip([output.name for output in session.get_outputs()], session.run(None, {"rows": X}), strict=True))


@pytest.mark.parametrize("n_trees", [1, 60])
def test_probabilities_agree_to_a_millionth(n_trees):
    forest = made_up_forest(5, n_trees=n_trees, max_splits=40)
    X = rows()
    X[:200, 0] = np.resize(forest.threshold[~forest.is_leaf], 200)  # on a threshold: to the left
    found = run(forest, X)
    np.testing.assert_allclose(found["probabilities"], forest.predict_proba(X), atol=1e-6)
    sure = np.ptp(np.sort(forest.predict_proba(X), axis=1)[:, -2:], axis=1) > 1e-5
    np.testing.assert_array_equal(found["class_index"][sure], forest.predict(X)[sure])


def test_scores_agree_to_a_millionth():
    forest = made_up_forest(5, n_trees=60, max_splits=40, output="probability")
    noise = np.random.default_rng(1).laplace(size=(forest.n_nodes, 1)) * [1, -1, 0]
    scores = Forest(**{**forest.__dict__, "output": "score", "value": forest.value + noise})
    np.testing.assert_allclose(run(scores, rows())["probabilities"], scores.predict_proba(rows()), atol=1e-6)


def test_where_no_score_is_positive_all_classes_are_equal():
    forest = made_up_forest(5, n_trees=2, output="score")
    below = Forest(**{**forest.__dict__, "value": -np.abs(forest.value)})
    np.testing.assert_allclose(run(below, rows(50))["probabilities"], 1 / 3, atol=1e-6)


def test_boosted_sums_agree():
    forest = made_up_forest(5, n_trees=60, max_splits=40, output="logit")
    small = Forest(**{**forest.__dict__, "value": 0.1 * forest.value, "base": np.array([0.5, -0.25, 0.0])})
    np.testing.assert_allclose(run(small, rows())["probabilities"], small.predict_proba(rows()), atol=1e-6)


@pytest.mark.parametrize("output", ["target", "target_sum"])
def test_targets_agree(output):
    forest = made_up_forest(5, n_trees=30, output=output)
    np.testing.assert_allclose(run(forest, rows())["target"][:, 0], forest.predict(rows()), rtol=1e-6)


def test_the_file_says_what_its_columns_are(tmp_path):
    onnx = pytest.importorskip("onnx")
    model = onnx.load(save_onnx(made_up_forest(1), tmp_path / "forest.onnx"))
    facts = {entry.key: json.loads(entry.value) for entry in model.metadata_props}
    assert facts["schema"] == json.loads(json.dumps(SCHEMA.to_dict()))


def test_what_cannot_be_exported(monkeypatch):
    pytest.importorskip("onnx")
    with pytest.raises(InvalidForest, match="raw counts is not finished"):
        to_onnx(made_up_forest(1, output="counts"))
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(DPForestError, match=r'needs the package onnx: pip install "dpforest\[onnx\]"'):
        to_onnx(made_up_forest(1))
