"""The public description of a table, and what does not fit it."""

import json
import math

import numpy as np
import pytest

from dpforest.errors import SchemaError
from dpforest.schema import Feature, Schema

YAML = """
target: activity
classes: [sit, walk]
rows: 5000
features:
  - {name: accel_x, low: -16, high: 16, unit: g}
  - {name: emg, low: 0, high: 255, scale: signed_sqrt, centre: 127.5}
  - {name: side, categories: [left, right]}
"""


@pytest.fixture
def schema(tmp_path):
    path = tmp_path / "schema.yaml"
    path.write_text(YAML)
    return Schema.from_yaml(path)


def test_a_schema_file(schema):
    assert schema.feature_names == ["accel_x", "emg", "side=left", "side=right"]
    assert schema.low.tolist() == [-16, 0, 0, 0]
    assert schema.high.tolist() == [16, 255, 1, 1]
    assert schema.features[0].unit == "g"
    assert (schema.target, schema.classes, schema.rows) == ("activity", ("sit", "walk"), 5000)
    assert schema.categories == {"side": ("left", "right")}
    assert schema.is_classification
    assert schema.n_outputs == 2


def test_a_schema_survives_json(schema):
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema
    regression = Schema((Feature("t", 0, 40),), target="energy", target_range=(0, 1000.0), target_unit="Wh")
    assert Schema.from_dict(json.loads(json.dumps(regression.to_dict()))) == regression
    assert not regression.is_classification
    assert regression.n_outputs == 1


def test_another_order_of_magnitude_of_rows(schema):
    assert schema.with_rows(7).rows == 7
    assert schema.with_rows(None).with_rows(5000) == schema


def test_linear_grid_by_hand():
    assert Feature("x", -1, 1).grid(4).tolist() == [-0.5, 0.0, 0.5]
    assert Feature("x", 0, 1).grid(2).tolist() == [0.5]


def test_signed_sqrt_grid_by_hand():
    """Square roots of the distances to 5 run from -2 to 2 in steps of 1, so the cuts are 5 - 1, 5 and 5 + 1."""
    assert Feature("x", 1, 9, scale="signed_sqrt", centre=5).grid(4).tolist() == [4.0, 5.0, 6.0]
    assert Feature("x", 0, 16, scale="signed_sqrt").grid(4).tolist() == [1.0, 4.0, 9.0]


@pytest.mark.parametrize("bins", [2, 3, 32, 255])
@pytest.mark.parametrize("feature", [Feature("x", -0.1, 0.7), Feature("x", -3e4, 3e4, scale="signed_sqrt", centre=2)])
def test_grids_rise_inside_the_bounds_in_single_precision(feature, bins):
    grid = feature.grid(bins)
    assert grid.shape == (bins - 1,)
    assert (np.diff(grid) > 0).all()
    assert feature.low < grid[0]
    assert grid[-1] < feature.high
    assert (grid.astype(np.float32) == grid).all()


@pytest.mark.parametrize("seed", range(200))
def test_whatever_bounds_are_accepted_the_numbers_that_follow_are_finite(seed):
    """Somebody who is not trusted chooses them, at the limits of what numbers can be."""
    rng = np.random.default_rng(seed)
    size = 2.0 ** rng.uniform(-1080, 1024)
    low = rng.choice([0.0, -size, size])
    high = low + rng.choice([size, abs(low) * 2.0 ** rng.uniform(-60, 10), 2.0 ** rng.uniform(-1080, 1020)])
    centre = rng.choice([0.0, low, high, (low + high) / 2, 2.0 ** rng.uniform(-1080, 1020)])
    try:
        feature = Feature(
            "x", float(low), float(high), scale=rng.choice(["linear", "signed_sqrt"]), centre=float(centre)
        )
    except SchemaError:
        return
    table = Schema((feature,), classes=("a", "b"))
    rows, _ = table.check_matrix(np.concatenate([[low, high, centre], rng.uniform(low, high, 50)])[:, None])
    assert np.isfinite(rows).all()
    position = table.grid_position(rows)
    assert ((position >= 0) & (position <= 1)).all()
    assert position.min() < 0.05
    assert position.max() > 0.95, "the two ends differ"
    for bins in (2, 255):
        grid = feature.grid(bins)
        assert np.isfinite(grid).all()
        assert (np.diff(grid) >= 0).all()
        assert feature.scale == "signed_sqrt" or (np.diff(grid) > 0).all()


def test_cells_out_of_bounds_are_clipped_and_counted(schema):
    X = np.array([[-20, 300, 0, 1], [1, 2, 1, 0]])
    before = X.copy()
    inside, clipped = schema.check_matrix(X)
    assert inside.tolist() == [[-16, 255, 0, 1], [1, 2, 1, 0]]
    assert clipped == 2
    assert inside.dtype == np.float32
    assert X.tolist() == before.tolist(), "the caller's array is left alone"
    inside[:] = 0
    assert X.tolist() == before.tolist(), "and not shared"


def test_cells_out_of_bounds_are_refused_on_request(schema):
    with pytest.raises(SchemaError, match=r"column 'emg' row 1 is 300, outside \[0, 255\]: widen"):
        schema.check_matrix([[0, 0, 0, 0], [0, 300, 0, 0]], "refuse")
    assert schema.check_matrix([[16, 255, 1, 0]], "refuse")[1] == 0, "bounds belong to the range"


@pytest.mark.parametrize("cell", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("mode", ["clip", "refuse"])
def test_cells_that_are_no_numbers_are_refused(schema, cell, mode):
    with pytest.raises(SchemaError, match=rf"column 'side=left' row 1 is {cell}: drop or fill"):
        schema.check_matrix([[0, 0, 0, 0], [0, 0, cell, 0]], mode)


@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 5), (1, 4, 1), ()])
def test_matrices_of_another_shape_are_refused(schema, shape):
    with pytest.raises(SchemaError, match="expected a matrix of 4 columns"):
        schema.check_matrix(np.zeros(shape))


def test_no_rows_are_rows(schema):
    assert schema.check_matrix(np.empty((0, 4)))[0].shape == (0, 4)
    assert schema.encode_classes([]).tolist() == []


def test_classes_become_their_places_in_the_list(schema):
    assert schema.encode_classes(np.array(["walk", "sit", "walk"])).tolist() == [1, 0, 1]
    numbered = Schema((Feature("x", 0, 1),), classes=("1", "2"))
    assert numbered.encode_classes([2, 1]).tolist() == [1, 0]
    with pytest.raises(SchemaError, match=r"target 'activity' holds 'jump', .* \['sit', 'walk'\]: add it"):
        schema.encode_classes(["sit", "jump"])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"low": 1, "high": 1}, "must be finite with low < high"),
        ({"low": 2, "high": 1}, "must be finite with low < high"),
        ({"low": math.nan, "high": 1}, "must be finite with low < high"),
        ({"low": 0, "high": math.inf}, "must be finite with low < high"),
        ({"low": 0, "high": 1e39}, "fit single precision"),
        ({"low": 0, "high": 1, "scale": "log"}, "scale 'log' must be 'linear' or 'signed_sqrt'"),
        ({"low": 0, "high": 1, "centre": math.nan}, "centre nan must be finite"),
        ({"low": 0, "high": 1, "centre": 1e39}, r"centre 1e\+39 must be at most"),
        ({"low": 0, "high": 120, "centre": 1e30, "scale": "signed_sqrt"}, "signed_sqrt scale .* low < high"),
        (
            {"low": 0, "high": 1, "centre": 1e9, "scale": "signed_sqrt"},
            "signed_sqrt scale .* times its larger end apart",
        ),
        ({"low": 0, "high": 1e-310}, "apart"),
        ({"low": 0, "high": 1e-31}, "apart"),
        ({"low": 1, "high": 1 + 1e-6}, "times its larger end apart .* shift or rescale"),
        ({"low": -1.7e308, "high": 1.7e308}, "fit single precision"),
    ],
)
def test_unsound_features_are_named(wrong, message):
    with pytest.raises(SchemaError, match=f"feature 'x': .*{message}"):
        Feature("x", **wrong)


X = Feature("x", 0, 1)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"features": ()}, "no features"),
        ({"features": (X, X)}, "names x more than once"),
        ({"target": "x"}, "target 'x' is also a feature"),
        ({"classes": ()}, "give either classes .* or target_range"),
        ({"target_range": (0, 1)}, "give either classes .* or target_range"),
        ({"classes": ("a",)}, "needs at least two"),
        ({"classes": ("a", "a")}, "must differ"),
        ({"classes": (), "target_range": (1, 1)}, "must be finite with low < high"),
        ({"classes": (), "target_range": (0, math.inf)}, "must be finite with low < high"),
        ({"classes": (), "target_range": (0, 1e-310)}, "target_range .* apart"),
        ({"classes": (), "target_range": (-1.7e308, 1.7e308)}, "target_range .* fit single precision"),
        ({"classes": (), "target_range": (5.0, 5.0001)}, "target_range .* apart"),
        ({"classes": tuple(map(str, range(70_000)))}, "70000 classes: at most"),
        ({"features": tuple(Feature(f"x{i}", 0, 1) for i in range(70_000))}, "70000 features"),
        ({"rows": 0}, "rows 0"),
        ({"rows": 10**13}, "rows 10000000000000"),
    ],
)
def test_unsound_schemas_are_refused(wrong, message):
    with pytest.raises(SchemaError, match=message):
        Schema(**{"features": (X,), "classes": ("a", "b")} | wrong)


def good():
    return {"target": "t", "classes": ["a", "b"], "features": [{"name": "x", "low": 0, "high": 1}]}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"colour": 1}, "schema: unknown key 'colour'; allowed: classes, features"),
        ({"clases": ["a"]}, r"unknown key 'clases'; did you mean 'classes'\?"),
        ({"features": None}, "features: expected a list"),
        ({"features": "x"}, "features: expected a list"),
        ({"features": ["x"]}, "expected a mapping with a name"),
        ({"features": [{"low": 0, "high": 1}]}, "expected a mapping with a name"),
        ({"features": [{"name": "x"}]}, "give public bounds low and high"),
        ({"features": [{"name": "x", "low": 0, "high": 1, "max": 2}]}, "feature 'x': unknown key 'max'"),
        ({"features": [{"name": "x", "low": "0", "high": 1}]}, "low: expected a number, got '0'"),
        ({"features": [{"name": "x", "low": True, "high": 2}]}, "low: expected a number, got True"),
        ({"features": [{"name": "x", "categories": ["a"]}]}, "two or more different values"),
        ({"features": [{"name": "x", "categories": ["a", "a"]}]}, "two or more different values"),
        ({"features": [{"name": "x", "categories": ["a", "b"], "low": 0}]}, "unknown key 'low'"),
        ({"classes": "ab"}, "classes: expected a list"),
        ({"classes": [], "target_range": [1]}, r"expected \[low, high\]"),
        ({"classes": [], "target_range": 5}, "target_range: expected a list"),
        ({"classes": [], "target_range": ["a", 1]}, "target_range: expected a number"),
        ({"rows": "many"}, "rows: expected a number"),
        ({"rows": math.nan}, "rows: expected a whole number"),
        ({"rows": math.inf}, "rows: expected a whole number"),
        ({"rows": 2.5}, "rows: expected a whole number"),
    ],
)
def test_unsound_files_are_refused(wrong, message):
    assert Schema.from_dict(good()).feature_names == ["x"]
    with pytest.raises(SchemaError, match=message):
        Schema.from_dict(good() | wrong)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("features: [", "is not valid YAML"),
        ("- a\n- b", "expected a mapping"),
        ("", "expected a mapping"),
        ("feature: [x]", "unknown"),
    ],
)
def test_files_that_are_no_schema(tmp_path, text, message):
    path = tmp_path / "schema.yaml"
    path.write_text(text)
    with pytest.raises(SchemaError, match=message) as caught:
        Schema.from_yaml(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(SchemaError, match=r"no schema file at .*nowhere\.yaml"):
        Schema.from_yaml(tmp_path / "nowhere.yaml")
