"""The JSON form: its published schema, strict reading, scores, stated importances and the export as nested nodes."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from made_up_forests import SCHEMA, made_up_forest

from dpforest.errors import InvalidForest, SchemaError
from dpforest.forest import Forest, concatenate, feature_importances, json_schema, load, save, to_nested, validate
from dpforest.forest.json_format import from_dict, to_dict
from dpforest.schema import Feature, Schema

FINISHED = ("probability", "score", "logit", "target", "target_sum")
SENSORS = ("hr", "spo2", "green", "red", "ecg", "acc_x", "acc_y", "acc_z")


def small(values=((0.8, 0.2), (0.1, 0.9)), output="probability", threshold=85.5, **more) -> Forest:
    """One question: is a <= 85.5?"""
    schema = Schema((Feature("hr", 30, 220, unit="1/min"), Feature("ecg", -5, 5)), classes=("rest", "exercise"))
    return Forest(
        schema=schema,
        output=output,
        offsets=np.array([0, 3]),
        feature=np.array([0, -1, -1], dtype=np.int32),
        threshold=np.array([threshold, 0.0, 0.0]),
        left=np.array([1, -1, -1], dtype=np.int32),
        value=np.array([(0.0, 0.0), *values]),
        weight=np.array([0.0, 10.0, 20.0]),
        base=np.zeros(2),
        owners=("k1",),
        **more,
    )


@pytest.mark.parametrize("output", FINISHED)
def test_every_kind_of_forest_fits_the_schema_file(output):
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(json_schema())
    validator.check_schema(json_schema())
    plain = json.loads(json.dumps(to_dict(made_up_forest(1, output=output))))
    validator.validate(plain)
    privacy = {"guarantee": "g", "epsilon": "inf", "delta": 0.0, "unit": "u", "trust": "t", "noise": "seeded"}
    validator.validate(plain | {"provenance": {"method": "m", "clients": [{"id": "a"}], "privacy": privacy}})
    for damaged in (plain | {"version": 2}, plain | {"colour": 1}, plain | {"provenance": {"privacy": {}}}):
        assert not validator.is_valid(damaged)
    categories = {"target": "t", "classes": ["a", "b"], "features": [{"name": "c", "categories": ["x", "y"]}]}
    validator.validate(plain | {"schema": Schema.from_dict(categories).to_dict()})


def edited(**changes):
    return lambda plain: plain | changes


def edited_tree(tree, **changes):
    def edit(plain):
        trees = [dict(t) for t in plain["trees"]]
        trees[tree] |= {name: change(trees[tree][name]) for name, change in changes.items()}
        return plain | {"trees": trees}

    return edit


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (edited_tree(0, left=lambda a: [0, *a[1:]]), "children must come after their parent.*no cycles"),
        (edited_tree(0, threshold=lambda a: [float("nan"), *a[1:]]), "threshold holds NaN"),
        (edited_tree(0, feature=lambda a: [3, *a[1:]]), "feature 3 does not exist; the schema has 3"),
        (edited_tree(0, feature=lambda a: [0.5, *a[1:]]), "feature must be whole numbers"),
        (edited_tree(0, left=lambda a: [True, *a[1:]]), "left must be whole numbers"),
        (edited_tree(0, value=lambda a: [[1.0], *a[1:]]), "tree 0 has leaf values that are not 3 numbers"),
        (edited(importances={"a": 1.0, "b": 0.0}), "importances must be of its 3 features"),
        (edited(importances={"a": 1.0, "b": 0.0, "c": "much"}), "importances must be numbers"),
        (edited(importances={"a": 1.0, "b": 0.0, "c": float("inf")}), "importances must be finite numbers"),
        (edited(notes="mine"), "the file has .*'notes'"),
        (edited(version=4), "version 4; this release reads versions 1 to 3: update dpforest"),
        (edited(version="1"), "version '1'; .*save the forest again"),
        (edited(version=True), "version True"),
        (edited(trees=[]), "trees must be a list of one or more"),
        (edited(trees=10**9), "trees must be a list of one or more"),
        (edited(schema=[]), "schema: expected a mapping"),
        (edited(schema={**SCHEMA.to_dict(), "classes": ["a", "b", "\ud800"]}), "surrogates not allowed"),
        (edited(output="target"), "output 'target' does not fit"),
        (edited(base=["0", "0", "0"]), "base must be numbers"),
        (edited(provenance=[["a", 1]]), "provenance a mapping"),
        (edited(provenance={"base_prediction": "high"}), "base_prediction must be numbers"),
        (edited(provenance={"base_prediction": float("nan")}), "base_prediction must be a finite number"),
        (edited_tree(0, owner=lambda _: ["k1"]), "tree 0 must have a name as owner"),
        (edited_tree(0, feature=len), "tree 0 must have .* lists of feature"),
        (edited_tree(0, threshold=lambda a: ["85.5", *a[1:]]), "threshold must be numbers"),
        (edited_tree(0, weight=lambda a: [True, *a[1:]]), "weight must be numbers"),
        (edited_tree(0, left=lambda a: [None, *a[1:]]), "left must be whole numbers"),
        (edited_tree(0, value=lambda a: ["abc", *a[1:]]), "tree 0 has leaf values that are not 3 numbers"),
        (
            edited_tree(0, **dict.fromkeys(("feature", "threshold", "left", "value", "weight"), lambda _: [])),
            "no nodes",
        ),
    ],
)
def test_an_edited_file_is_refused(tmp_path, edit, message):
    plain = to_dict(made_up_forest(3))
    assert plain["trees"][0]["left"][0] > 0
    path = tmp_path / "forest.json"
    path.write_text(json.dumps(edit(plain)))
    with pytest.raises((InvalidForest, SchemaError), match=message) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert re.search("from its run again|update dpforest|save the forest again", str(caught.value))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"[" * 200_000, b"9" * 5000, b"\xff\xfe", b'{"format":"dpforest","ver'])
def test_what_is_no_json_is_refused_in_one_line(tmp_path, content):
    path = tmp_path / "forest.json"
    path.write_bytes(content)
    with pytest.raises(InvalidForest, match=r"forest.json is not valid JSON \(was it cut short\?\)") as caught:
        load(path)
    assert "\n" not in str(caught.value)


def test_a_folder_in_place_of_a_forest_is_refused_with_the_file_to_give(tmp_path):
    with pytest.raises(InvalidForest, match=r"is a folder: give a forest's file, in a run folder model/forest\.json"):
        load(tmp_path)


def test_a_schema_with_a_feature_less_does_not_fit_its_trees():
    plain = to_dict(made_up_forest(3))
    plain["schema"]["features"] = plain["schema"]["features"][:2]
    plain["importances"].pop("c")
    assert max(max(tree["feature"]) for tree in plain["trees"]) == 2
    with pytest.raises(InvalidForest, match="feature 2 does not exist; the schema has 2"):
        from_dict(plain)


def test_a_list_too_long_in_one_tree_is_not_made_up_for_by_another():
    plain = to_dict(made_up_forest(3))
    trees = plain["trees"]
    trees[0]["threshold"].append(trees[1]["threshold"].pop())
    with pytest.raises(InvalidForest, match=r"tree 0 has \d+ of threshold for"):
        from_dict(plain)


def test_scores_are_averaged_before_they_become_probabilities():
    one = small(values=((1.5, -0.5), (-2.0, 3.0)), output="score")
    two = small(values=((0.1, 0.9), (-1.0, 2.0)), output="score")
    three = small(values=((-1.0, -1.0), (0.5, 0.5)), output="score")
    rows = np.array([[80.0, 0.0], [90.0, 0.0]])
    # (1.5 + 0.1) : (-0.5 + 0.9) = 1.6 : 0.4; and (-3) : 5, of which the first is clipped to 0.
    np.testing.assert_allclose(concatenate([one, two]).predict_proba(rows), [[0.8, 0.2], [0.0, 1.0]])
    # Where no class has a positive score, all are equal.
    np.testing.assert_allclose(three.predict_proba(rows), [[0.5, 0.5], [0.5, 0.5]])


def test_stated_importances_are_kept_in_the_file_but_not_for_parts(tmp_path):
    forest = small(stated_importances=np.array([0.25, -0.5]))
    again = load(save(forest, tmp_path / "forest.json"))
    assert feature_importances(again).tolist() == [0.25, -0.5]
    assert again.provenance == {}
    assert feature_importances(again.tree(0)).tolist() == [1.0, 0.0]
    assert feature_importances(concatenate([again, again])).tolist() == [1.0, 0.0]
    with pytest.raises(InvalidForest, match="stated_importances has shape"):
        validate(replace(forest, stated_importances=np.zeros(3)))


def walk(node, row):
    """By the words of the document: left where the value is at most the threshold."""
    while node["type"] == "node":
        node = node["leftChild" if row[node["featureIndex"]] <= node["threshold"] else "rightChild"]
    return node


def test_the_nested_form_of_the_document_by_hand():
    nested = to_nested(concatenate([small(), small().with_owner("k2"), small().with_owner("k1")]))
    assert nested["trees"][2] == {
        "tree_structure": {
            "type": "node",
            "featureIndex": 0,
            "threshold": 85.5,
            "leftChild": {"type": "leaf", "prediction": 0.2},
            "rightChild": {"type": "leaf", "prediction": 0.9},
        },
        "client_id": "k1",
        "original_tree_id": 1,
    }
    assert nested["feature_importance"] == {"hr": 1.0, "ecg": 0.0}
    assert nested["client_contributions"] == [
        {"client_id": "k1", "num_trees": 2, "num_features": 2},
        {"client_id": "k2", "num_trees": 1, "num_features": 2},
    ]
    assert (nested["num_boosted_rounds"], nested["num_features"]) == (3, 2)
    assert nested["aggregation_metadata"]["method"] == "bagging"
    assert nested["aggregation_metadata"]["num_clients"] == 2
    assert nested["config"] == {"objective": "binary:logistic", "maxDepth": 1, "basePrediction": 0.0}


@pytest.mark.parametrize("output", ["probability", "target"])
def test_the_nested_form_predicts_the_same(output):
    forest = made_up_forest(5, n_trees=4, output=output)
    nested = json.loads(json.dumps(to_nested(forest)))
    rows = np.random.default_rng(0).uniform(-1, 5, size=(40, 3))
    leaves = [[walk(tree["tree_structure"], row) for tree in nested["trees"]] for row in rows]
    if output == "target":
        means = [np.mean([leaf["prediction"] for leaf in of_row]) for of_row in leaves]
        np.testing.assert_allclose(means, forest.predict(rows), rtol=1e-7)
    else:
        means = [np.mean([leaf["probabilities"] for leaf in of_row], axis=0) for of_row in leaves]
        np.testing.assert_allclose(means, forest.predict_proba(rows), atol=1e-8)


def test_sums_have_no_nested_form():
    with pytest.raises(InvalidForest, match="added up, and nested nodes are averaged: export to ONNX"):
        to_nested(made_up_forest(1, output="logit"))


def test_a_tree_of_depth_three_takes_less_than_five_kilobytes(tmp_path):
    schema = Schema(
        tuple(Feature(name, -4095.123, 4095.123, "m/s^2") for name in SENSORS), classes=("rest", "exercise")
    )
    rng = np.random.default_rng(0)
    share = rng.random((15, 1))
    forest = Forest(
        schema=schema,
        output="probability",
        offsets=np.array([0, 15]),
        feature=np.array([*rng.integers(8, size=7), *[-1] * 8], dtype=np.int32),
        threshold=np.array([*rng.normal(size=7).astype(np.float32), *[0.0] * 8]),
        left=np.array([*(2 * np.arange(7) + 1), *[-1] * 8], dtype=np.int32),
        value=np.hstack([share, 1 - share]),
        weight=rng.random(15) * 100,
        base=np.zeros(2),
        owners=("0123abcd",),
    )
    assert save(forest, tmp_path / "forest.json").stat().st_size < 5000
    (tmp_path / "nested.json").write_text(json.dumps(to_nested(forest)))
    assert (tmp_path / "nested.json").stat().st_size < 5000


def test_columns_are_matched_by_name_and_never_by_position():
    table = {"c": [1.0, 2.0], "other": ["x", "y"], "a": [-9.0, 0.5], "b": [3, 4]}
    np.testing.assert_array_equal(SCHEMA.matrix(table), [[-1, 3, 1], [0.5, 4, 2]])  # -9 is clipped to -1
    with pytest.raises(SchemaError, match=r"'b' is missing \(is it 'B'\?\).*by name, needed are a, b, c"):
        SCHEMA.matrix({"a": [1], "B": [1], "c": [1]})
    with pytest.raises(SchemaError, match="row 0: column 'b' is 'one', not a finite number"):
        SCHEMA.matrix(table | {"b": ["one", "two"]})
    with pytest.raises(SchemaError, match="row 1: column 'b' is '', which is missing: fill it"):
        SCHEMA.matrix(table | {"b": [1.0, float("nan")]})


def test_a_categorical_column_is_one_column_of_a_table():
    plain = {"classes": ["x", "y"], "features": [{"name": "side", "categories": ["left", "right"]},
                                                 {"name": "a", "low": 0, "high": 1}]}  # fmt: skip
    schema = Schema.from_dict(plain)
    assert schema.columns == ["a", "side"]
    np.testing.assert_array_equal(schema.matrix({"side": ["right", "left"], "a": [0, 1]}), [[0, 0, 1], [1, 1, 0]])
    with pytest.raises(SchemaError, match="column 'side' is 'up', which is not among"):
        schema.matrix({"side": ["up"], "a": [0]})
