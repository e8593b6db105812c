"""Reference points: scikit-learn's predictions in the project's own form, and clients on their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hand_made import CLIENTS, SCHEMA, TREES, Interfering, make, run, write_table
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import accuracy_score

from baselines.forests.centralized import CentralizedSettings, from_sklearn
from dpforest.errors import DPForestError
from dpforest.forest import pack, unpack, validate
from dpforest.schema import Feature, Schema


@st.composite
def problems(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n, f, k = draw(st.integers(5, 60)), draw(st.integers(1, 4)), draw(st.integers(2, 4))
    X, other = rng.uniform(-3, 3, (n, f)), rng.uniform(-3, 3, (80, f))
    if draw(st.booleans()):  # ties, and rows that lie exactly on thresholds
        X, other = np.round(X), np.round(other * 2) / 2
    return X, rng.integers(0, k, n), np.concatenate([X, other]), k + draw(st.integers(0, 1))


def schema_of(n_features: int, n_classes: int = 0) -> Schema:
    features = tuple(Feature(f"f{i}", -3, 3) for i in range(n_features))
    if n_classes:
        return Schema(features, classes=tuple("abcdefg"[:n_classes]))
    return Schema(features, target_range=(0.0, 10.0))


@pytest.mark.parametrize("kind", [ExtraTreesClassifier, RandomForestClassifier])
@given(problem=problems(), depth=st.sampled_from([None, 1, 4]))
@settings(max_examples=20, deadline=None)
def test_same_probabilities_as_scikit_learn(kind: type, problem: Any, depth: int | None) -> None:
    X, y, asked, n_classes = problem  # there may be classes that no row has
    model = kind(5, max_depth=depth, random_state=0).fit(X, y)
    schema = schema_of(X.shape[1], n_classes)
    forest = validate(from_sklearn(model, schema))
    expected = np.zeros((len(asked), n_classes))
    expected[:, model.classes_] = model.predict_proba(asked)
    np.testing.assert_allclose(forest.predict_proba(asked), expected, atol=1e-9)
    sent = unpack(pack(forest), schema, "probability")
    np.testing.assert_allclose(sent.predict_proba(asked), expected, atol=1e-5)


@pytest.mark.parametrize("kind", [ExtraTreesRegressor, RandomForestRegressor])
def test_same_targets_as_scikit_learn(kind: type) -> None:
    rng = np.random.default_rng(0)
    X, asked = rng.uniform(-3, 3, (80, 3)), rng.uniform(-3, 3, (200, 3))
    model = kind(7, random_state=0).fit(X, rng.uniform(0, 10, 80))
    np.testing.assert_allclose(from_sklearn(model, schema_of(3)).predict(asked), model.predict(asked), atol=1e-9)


def test_rows_in_one_place(tmp_path: Path) -> None:
    experiment = make(write_table(tmp_path), strategy={"name": "centralized", "trees": 20}, epsilon="inf")
    done = run(experiment)
    assert done.metrics["accuracy"] > 0.85
    assert done.privacy["epsilon"] == "inf"
    assert "all training rows" in done.privacy["guarantee"]
    assert done.metrics["bytes_up"] > 4 * 72 * 3 * 8  # every row with its target
    (tmp_path / "model").mkdir()
    done.side.save(tmp_path / "model")
    assert json.loads((tmp_path / "model" / "forest.json").read_text())["provenance"]["model"] == "ExtraTreesClassifier"


def test_rows_in_one_place_have_no_guarantee_whatever_epsilon_says(tmp_path: Path) -> None:
    done = run(make(write_table(tmp_path), strategy={"name": "centralized", "trees": 2}, epsilon=0.1))
    assert done.privacy["epsilon"] == "inf"
    assert done.privacy["guarantee"].startswith("guarantee: none")


def test_no_more_rows_than_asked_for_train(tmp_path: Path) -> None:
    few = {"name": "centralized", "trees": 1, "max_rows": 3, "min_leaf": 1}
    done = run(make(write_table(tmp_path), strategy=few))
    assert done.metrics["accuracy"] < 1
    assert done.side.forest.n_nodes <= 5


def test_rows_that_take_endless_splits_still_make_a_forest_that_everybody_accepts(tmp_path: Path) -> None:
    """A random threshold takes one or two rows at a time off values that double from row to row."""
    dataset = write_table(tmp_path, schema={**SCHEMA, "features": [{"name": "a", "low": 0, "high": 2.0**120}]})
    lines = [f"c{i % CLIENTS},{2.0**i!r},{SCHEMA['classes'][i // CLIENTS % 2]}" for i in range(120)]
    (tmp_path / "table.csv").write_text("\n".join(["client,a,kind", *lines]) + "\n")
    done = run(make(dataset, strategy={"name": "centralized", "model": "extra_trees", "trees": 3, "min_leaf": 1}))
    assert done.side.forest.depths.max() == 40
    assert not done.failures
    assert "accuracy" in done.metrics
    with pytest.raises(DPForestError, match="depth 41 must be a whole number from 1 to 40"):
        CentralizedSettings(depth=41)


def test_targets_in_one_place(tmp_path: Path) -> None:
    schema = {"target": "b", "target_range": [0, 1], "features": [{"name": "a", "low": 0, "high": 1}]}
    done = run(make(write_table(tmp_path, schema=schema), strategy={"name": "centralized", "model": "random_forest"}))
    assert {"mse", "mae", "r2", "pearson", "test_rows"} <= set(done.metrics)
    assert not done.failures
    assert done.metrics["test_rows"] == 72


def test_every_client_alone(tmp_path: Path) -> None:
    alone = {"name": "standalone"} | {k: v for k, v in TREES.items() if k != "name"}
    dataset = write_table(tmp_path)
    experiment = make(dataset, strategy=alone, epsilon=10.0)
    done = run(experiment)
    assert done.privacy["epsilon"] == pytest.approx(10.0)
    assert not done.failures
    assert done.metrics["bytes_up"] < 4 * 5000, "ledgers only, no trees"
    # Each client's tree is the one it would have sent, evaluated on its own rows alone.
    shared = run(make(dataset, epsilon=10.0))
    for client, row in enumerate(done.clients):
        test = experiment.client_data(client, CLIENTS).test
        forest = shared.side.forest  # type: ignore[attr-defined]
        votes = forest.value[forest.apply(test.X)[:, client]].argmax(axis=1)
        assert row["accuracy"] == pytest.approx(accuracy_score(test.y, votes))


def test_a_client_alone_without_training_has_no_model(tmp_path: Path) -> None:
    alone = {"name": "standalone"} | {k: v for k, v in TREES.items() if k != "name"}

    def silent(message: object, honest: object) -> Any:
        raise TimeoutError

    done = run(make(write_table(tmp_path), strategy=alone), app=Interfering({1: silent}))
    assert {(f.client, f.round) for f in done.failures} == {(1, 1)}
    assert len(done.failures) == 2
    assert "no model of its own" in done.failures[1].reason
    assert done.metrics["test_rows"] == 54


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "bonsai"}, "model 'bonsai' must be extra_trees or random_forest"),
        ({"trees": 0}, "trees 0 must be a whole number"),
        ({"min_leaf": 1.5}, "min_leaf 1.5 must be a whole number"),
        ({"max_rows": True}, "max_rows True must be a whole number"),
        ({"depth": 0}, "depth 0 must be"),
    ],
)
def test_bad_settings_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(DPForestError, match=message):
        CentralizedSettings(**change)
