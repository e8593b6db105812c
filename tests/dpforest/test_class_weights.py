"""Public weights of classes: what they do, that they cost nothing, and that they stay with the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from dpforest import PrivateBoostClassifier, PrivateForestClassifier
from dpforest.errors import DPForestError
from dpforest.explain import explain_prediction
from dpforest.forest import feature_importances, load, save, to_onnx, validate, weigh_classes

KINDS = (PrivateForestClassifier, PrivateBoostClassifier)
WEIGHTS = {"rare": 20, "other": 0.5}


def table() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (3000, 3))
    chance = np.where(X[:, 0] > 0.7, 0.15, 0.01)
    y = np.where(rng.random(3000) < chance, "rare", np.where(X[:, 1] > 0.8, "other", "usual"))
    return X, y


def make(kind: Any, **more: Any) -> Any:
    known = {"bounds": [(0, 1)] * 3, "classes": ["usual", "rare", "other"], "random_state": 0}
    more |= {"rounds": 10} if kind is PrivateBoostClassifier else {"rows": 3000}
    return kind(1.0, **known, **more)


@pytest.mark.parametrize("kind", KINDS)
def test_probabilities_are_multiplied_and_nothing_more_is_spent(kind: Any) -> None:
    X, y = table()
    plain, weighted = make(kind).fit(X, y), make(kind, class_weight=WEIGHTS).fit(X, y)
    expected = plain.predict_proba(X) * [0.5, 20, 1]  # other, rare, usual
    np.testing.assert_allclose(weighted.predict_proba(X), expected / expected.sum(axis=1, keepdims=True), atol=1e-6)
    assert weighted.privacy_.to_dict() == plain.privacy_.to_dict()
    np.testing.assert_allclose(weighted.feature_importances_, plain.feature_importances_)
    found = (weighted.predict(X) == "rare") & (y == "rare")
    assert found.sum() > ((plain.predict(X) == "rare") & (y == "rare")).sum()
    assert (make(kind, class_weight=dict.fromkeys(["usual", "rare", "other"], 3)).fit(X, y).predict_proba(X)
            == plain.predict_proba(X)).all()  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_they_stay_with_the_model(kind: Any, tmp_path: Path) -> None:
    X, y = table()
    model = clone(make(kind, class_weight=WEIGHTS)).fit(X, y)
    again = kind.load(model.save(tmp_path / "model.json"))
    np.testing.assert_allclose(again.predict_proba(X), model.predict_proba(X), atol=1e-6)
    assert again.class_weight == {"other": 0.5, "rare": 20.0, "usual": 1.0}
    assert (again.set_params(random_state=0).fit(X, y).predict_proba(X) == model.predict_proba(X)).all()
    forest = validate(load(save(model.forest_, tmp_path / "forest.json")))
    single = forest.schema.check_matrix(X)[0]
    np.testing.assert_allclose(forest.predict_proba(single), model.predict_proba(X), atol=1e-6)
    assert explain_prediction(forest, single[0])[0].steps is not None
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(to_onnx(forest).SerializeToString())
    (given,) = session.get_inputs()
    outputs = session.run(None, {given.name: single})
    assert any(np.shape(o) == (3000, 3) and np.allclose(o, model.predict_proba(X), atol=1e-5) for o in outputs)


def test_labels_may_be_numbers() -> None:
    X, y = table()
    more = {"bounds": [(0, 1)] * 3, "classes": [0, 1], "random_state": 0, "rows": 3000}
    rare = (y == "rare").astype(int)
    plain = PrivateForestClassifier(1.0, **more).fit(X, rare)
    weighted = PrivateForestClassifier(1.0, class_weight={1: 9}, **more).fit(X, rare)
    assert (weighted.predict_proba(X)[:, 1] >= plain.predict_proba(X)[:, 1]).all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            "balanced",
            "class_weight 'balanced' must be a mapping of class to weight: numbers of records would be read off",
        ),
        ([1, 2], r"class_weight \[1, 2\] must be a mapping"),
        ({"often": 2}, "class_weight names 'often', which is not among the classes"),
        ({"rare": 0}, "class_weight of 'rare'"),
        ({"rare": -1}, "class_weight of 'rare'"),
        ({"rare": float("nan")}, "class_weight of 'rare'"),
        ({"rare": float("inf")}, "class_weight of 'rare'"),
        ({"rare": "much"}, "class_weight of 'rare'"),
        ({"rare": True}, "class_weight of 'rare'"),
    ],
)
def test_what_is_no_public_weight_is_refused_before_anything_is_released(given: Any, message: str) -> None:
    model = make(PrivateForestClassifier, class_weight=given)
    with pytest.raises(DPForestError, match=message):
        model.fit(*table())
    assert not hasattr(model, "privacy_")


def test_only_probabilities_can_be_weighed() -> None:
    X, y = table()
    weighted = make(PrivateForestClassifier, class_weight=WEIGHTS).fit(X, y).forest_
    with pytest.raises(DPForestError, match="a forest of 'score' has no probabilities to weigh"):
        weigh_classes(weighted, np.ones(3))
    assert feature_importances(weighted).sum() == pytest.approx(1)
