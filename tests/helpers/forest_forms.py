"""A forest says the same in every form that it takes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dpforest.forest import Forest, concatenate, json_schema, load, pack, save, unpack
from dpforest.forest.json_format import to_dict


def assert_forms_agree(forest: Forest, X: np.ndarray, folder: Path) -> None:
    """As a file, on the wire and joined from its trees a forest of logits predicts the same."""
    wanted = forest.predict_proba(X)
    from_file = load(save(forest, folder / "forest.json"))
    assert from_file.schema == forest.schema
    parts = concatenate([forest.tree(t) for t in range(forest.n_trees)])
    for same in (from_file, unpack(pack(forest), forest.schema, "logit"), parts):
        np.testing.assert_allclose(same.predict_proba(X), wanted, atol=1e-6)
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator(json_schema()).validate(json.loads(json.dumps(to_dict(forest))))


def assert_onnx_agrees(forest: Forest, X: np.ndarray) -> None:
    """So it does in onnxruntime."""
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    from dpforest.forest.onnx_export import to_onnx

    session = runtime.InferenceSession(to_onnx(forest).SerializeToString())
    (found,) = session.run(["probabilities"], {"rows": X.astype(np.float32)})
    np.testing.assert_allclose(found, forest.predict_proba(X), atol=1e-5)
