"""Rows on their person's own scale, and forests that ask them so."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from dpforest.boosting.lines import linear_forest
from dpforest.errors import InvalidForest
from dpforest.explain import explain_prediction
from dpforest.forest import Forest, json_schema, load, save, to_onnx
from dpforest.forest.json_format import from_dict, to_dict
from dpforest.own_rows import OwnRows
from dpforest.schema import Feature, Schema
from strategies.forests import model_arrays, read_model

SCHEMA = Schema((Feature("speed", 0, 10), Feature("turn", -4, 4, missing="branch")), classes=("walk", "run"), rows=9)
OWN = OwnRows(SCHEMA)
ROWS = np.array([[1, 1], [3, SCHEMA.missing_values[1]], [3, 3], [9, 2]], dtype=np.float32)


def made_up(ranks: bool = False) -> Forest:
    slopes = np.array([[1.0, -1.0], [0.5, 0.0], [0.0, 0.25]])
    return linear_forest(OWN, slopes, np.array([0.1, -0.1]), ranks, {"method": "boost"})


def test_ranks_are_among_the_present_cells_of_the_person() -> None:
    assert OWN.columns == ["speed", "turn", "turn is missing"]
    sixteenths = OWN.ranks(ROWS) * 16 - 0.5
    # Mid-ranks 1/8, 1/2, 1/2, 7/8 of four, and 1/6, 5/6, 1/2 of three; a missing cell is in the middle.
    assert sixteenths[:, 0].tolist() == [2, 8, 8, 14]
    assert sixteenths[:, 1].tolist() == [2, 8, 13, 8]
    assert sixteenths[:, 2].tolist() == [6, 14, 6, 6]


def test_a_person_on_another_place_of_the_scale_has_the_same_rows() -> None:
    moved = ROWS.copy()
    moved[:, 0] = moved[:, 0] / 2 + 3
    assert np.array_equal(OWN.rows(moved), OWN.rows(ROWS))


def test_z_is_cut_off_and_a_constant_column_is_zero() -> None:
    X = np.tile(ROWS[:1], (50, 1))
    X[0, 0] = 10
    assert OWN.z(X)[:, 0].max() == 3
    assert not OWN.z(X)[:, 1:].any()
    assert np.abs(OWN.steps(ROWS) * 10 - np.rint(OWN.z(ROWS) * 10)).max() < 1e-4


@pytest.mark.parametrize("n", [0, 1])
def test_no_rows_and_one_row_have_a_scale_without_content(n: int) -> None:
    assert OWN.rows(ROWS[:n]).shape == (n, 6)
    assert not OWN.z(ROWS[:n]).any()


@pytest.mark.parametrize("ranks", [False, True])
def test_a_line_as_trees_is_the_line(ranks: bool) -> None:
    forest = made_up(ranks)
    values = OWN.ranks(ROWS) if ranks else OWN.steps(ROWS)
    scores = values @ np.array([[1.0, -1.0], [0.5, 0.0], [0.0, 0.25]]) + np.array([0.1, -0.1])
    chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    assert forest.predict_proba(forest.of_person(ROWS)) == pytest.approx(chances, abs=1e-6)


def test_a_file_says_how_a_new_person_s_rows_are_read(tmp_path: Path) -> None:
    forest = made_up()
    path = save(forest, tmp_path / "forest.json")
    plain = json.loads(path.read_text())
    jsonschema.validate(plain, json_schema())
    assert plain["version"] == 3
    again = load(path)
    assert again.own is not None
    assert again.own.schema == SCHEMA
    assert again.predict_proba(again.of_person(ROWS)) == pytest.approx(forest.predict_proba(forest.of_person(ROWS)))
    assert "own z" in str(explain_prediction(again, again.of_person(ROWS)[0])[0])
    with pytest.raises(InvalidForest, match="by of_person"):
        again.predict(ROWS)


@pytest.mark.parametrize("change", ["other", "none", "version", "no schema"])
def test_a_file_whose_scale_does_not_fit_its_trees_is_refused(change: str) -> None:
    plain = to_dict(made_up())
    if change == "other":
        plain["own"] = Schema((Feature("speed", 0, 10), Feature("x", 0, 1)), classes=("walk", "run")).to_dict()
    elif change == "none":
        del plain["own"]
    elif change == "version":
        plain["version"] = 1
    else:
        plain["own"] = [1]
    with pytest.raises(InvalidForest if change != "no schema" else Exception):
        from_dict(plain)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(plain, {**json_schema()}) if change != "other" else _no_match()


def _no_match() -> None:
    raise jsonschema.ValidationError("a JSON Schema does not compare two parts of a file")


def test_a_model_that_travels_stays_on_the_person_s_scale() -> None:
    from dpforest.forest import pack

    forest = made_up()
    again = read_model(model_arrays(forest, pack(forest)), SCHEMA)
    assert again.predict_proba(again.of_person(ROWS)) == pytest.approx(forest.predict_proba(forest.of_person(ROWS)))


@pytest.mark.parametrize("ranks", [False, True])
def test_an_exported_model_reads_a_new_person_by_its_recent_rows(ranks: bool) -> None:
    runtime = pytest.importorskip("onnxruntime")
    features = (*SCHEMA.features, Feature("bent", -5, 20, scale="signed_sqrt", centre=1.0))
    own = OwnRows(Schema(features, classes=SCHEMA.classes))
    slopes = np.random.default_rng(0).normal(size=(4, 2))
    forest = linear_forest(own, slopes, np.zeros(2), ranks, {})
    X = np.random.default_rng(1).uniform([0, -4, -5], [10, 4, 20], (60, 3)).astype(np.float32)
    X[::7, 1] = own.schema.missing_values[1]
    X[::5, 0] = X[0, 0]
    session = runtime.InferenceSession(to_onnx(forest).SerializeToString())
    (chances,) = session.run(["probabilities"], {"rows": X[:20], "recent": X})
    # In single precision a cell between two tenths may be rounded to the other one.
    assert chances == pytest.approx(forest.predict_proba(forest.of_person(X))[:20], abs=0.1)
    assert np.median(np.abs(chances - forest.predict_proba(forest.of_person(X))[:20])) < 1e-5
