"""The wire codec, the JSON file and the validator between them and untrusted senders."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up_forests import REGRESSION, SCHEMA, forests, made_up_forest, schema_of
from sound_forests import assert_serves_everybody, mutated

from dpforest.errors import InvalidForest
from dpforest.forest import Forest, Limits, load, pack, save, unpack, validate
from dpforest.forest.json_format import from_dict, to_dict

OUTPUTS = ("counts", "probability", "logit", "target", "target_sum")
any_forest = st.sampled_from(OUTPUTS).flatmap(forests)


def assert_same(one: Forest, two: Forest, rtol=0.0):
    for name in ("offsets", "feature", "left"):
        assert getattr(one, name).tolist() == getattr(two, name).tolist(), name
        assert getattr(one, name).dtype == getattr(two, name).dtype, name
    for name in ("threshold", "base"):
        assert getattr(one, name).tolist() == getattr(two, name).tolist(), name
    for name in ("value", "weight"):
        np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=rtol, atol=rtol, err_msg=name)
    assert (one.output, one.owners) == (two.output, two.owners)


@given(any_forest)
def test_the_wire_gives_a_forest_back_exactly(forest):
    arrays = pack(forest)
    assert all(isinstance(array, np.ndarray) and array.dtype.kind in "iuf" for array in arrays.values())
    assert_same(unpack(arrays, forest.schema, forest.output, forest.owners), forest)


def test_small_counts_travel_in_one_byte():
    forest = made_up_forest(0, output="counts")
    value = np.clip(forest.value, -100, 100)
    assert pack(replace(forest, value=value))["value"].dtype == np.int8
    assert pack(replace(forest, value=value * 100))["value"].dtype == np.int16


@settings(max_examples=50)
@given(st.sampled_from(OUTPUTS[1:]).flatmap(forests))
def test_json_gives_a_forest_back(forest):
    forest = replace(forest, provenance={"method": "made up", "rounds": [1, 2]})
    again = from_dict(json.loads(json.dumps(to_dict(forest), allow_nan=False)))
    assert_same(again, forest, rtol=1e-8)
    assert again.schema == forest.schema
    assert again.provenance == forest.provenance


def test_a_file_is_written_whole_and_read_back(tmp_path):
    forest = made_up_forest(3)
    path = save(forest, tmp_path / "forest.json")
    assert [p.name for p in tmp_path.iterdir()] == ["forest.json"], "nothing half-written stays"
    X = np.random.default_rng(0).uniform(-1, 5, size=(50, 3))
    np.testing.assert_allclose(load(path).predict_proba(X), forest.predict_proba(X), atol=1e-8)
    plain = json.loads(path.read_text())
    assert list(plain["importances"]) == ["a", "b", "c"]
    assert sum(plain["importances"].values()) == pytest.approx(1.0)


def test_counts_are_not_saved_as_if_finished():
    with pytest.raises(InvalidForest, match="output 'counts' is no kind of finished forest"):
        from_dict(to_dict(made_up_forest(0, output="counts")))


@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_a_file_cut_short_is_refused(tmp_path, share):
    path = save(made_up_forest(3), tmp_path / "forest.json")
    text = path.read_text()
    path.write_text(text[: int(share * len(text))])
    with pytest.raises(InvalidForest, match="was it cut short"):
        load(path)


def test_a_file_of_nothing_but_brackets_is_refused(tmp_path):
    path = tmp_path / "deep.json"
    path.write_text("[" * 200_000)
    with pytest.raises(InvalidForest, match="not valid JSON"):
        load(path)


def change(plain, **more):
    return plain | more


def change_tree(plain, **more):
    return plain | {"trees": [plain["trees"][0] | more, *plain["trees"][1:]]}


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda p: [], "not a forest file"),
        (lambda p: change(p, format="other"), "not a forest file"),
        (lambda p: change(p, version=4), "version 4; this release reads versions 1 to 3"),
        (lambda p: change(p, output="leaves"), "output 'leaves'"),
        (lambda p: {k: v for k, v in p.items() if k != "schema"}, "damaged forest file"),
        (lambda p: change(p, trees=[]), "damaged forest file|0 trees"),
        (lambda p: change(p, trees="none"), "damaged forest file"),
        (lambda p: change(p, base=[0.0]), "base has shape"),
        (lambda p: change(p, provenance=3), "damaged forest file"),
        (lambda p: change_tree(p, left=["a"] * len(p["trees"][0]["left"])), "damaged forest file"),
        (lambda p: change_tree(p, value=p["trees"][0]["value"][:1]), "leaves has 1 values"),
        (lambda p: change_tree(p, weight=p["trees"][0]["weight"][:1]), "1 weights"),
        (lambda p: change_tree(p, value=[[1.0]] * len(p["trees"][0]["value"])), "damaged forest file"),
        (lambda p: change_tree(p, value=[[0.9, 0.9, 0.9]] * len(p["trees"][0]["value"])), "add up to 1"),
        (lambda p: change_tree(p, threshold=[math.nan] * len(p["trees"][0]["threshold"])), "threshold holds NaN"),
        (lambda p: change_tree(p, threshold=[1e300] * len(p["trees"][0]["threshold"])), "threshold holds NaN or inf"),
        (lambda p: change_tree(p, threshold=[0.0]), "threshold has shape|damaged forest file"),
        (lambda p: change_tree(p, feature=[2**40] * len(p["trees"][0]["feature"])), "damaged forest file"),
        (lambda p: change_tree(p, left=[0] * len(p["trees"][0]["left"])), "leaves has|children must come after"),
    ],
)
def test_damaged_files_are_refused(damage, message):
    plain = to_dict(made_up_forest(3))
    assert len(plain["trees"][0]["value"]) > 1
    with pytest.raises(InvalidForest, match=message):
        from_dict(damage(plain))


def small_tree(**changes) -> Forest:
    """Node 0 splits into 1 and 2, node 1 into 3 and 4; single changes make it unsound."""
    arrays = {
        "offsets": [0, 5],
        "feature": [0, 2, -1, -1, -1],
        "threshold": [0.5, 1.5, 0, 0, 0],
        "left": [1, 3, -1, -1, -1],
        "value": np.full((5, 3), 1 / 3),
        "weight": [40, 30, 10, 10, 20],
        "base": [0, 0, 0],
    } | changes
    types = {"offsets": np.int64, "feature": np.int32, "left": np.int32}
    return Forest(
        schema=changes.get("schema", SCHEMA),
        output=changes.get("output", "probability"),
        owners=changes.get("owners", ("",)),
        **{name: np.asarray(arrays[name], dtype=types.get(name, np.float64)) for name in arrays if name in _ARRAYS},
    )


_ARRAYS = ("offsets", "feature", "threshold", "left", "value", "weight", "base")


def test_the_small_tree_is_sound():
    forest = small_tree()
    assert validate(forest) is forest


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"left": [0, 3, -1, -1, -1]}, "children must come after their parent"),  # the root is its own child
        ({"left": [1, 0, -1, -1, -1]}, "children must come after their parent"),  # a cycle of two
        ({"left": [3, 1, -1, -1, -1]}, "children must come after their parent"),  # child before parent
        ({"left": [1, 4, -1, -1, -1]}, "children must come after their parent"),  # right child behind the end
        ({"left": [1, 2, -1, -1, -1]}, "must have exactly one parent"),  # two parents, and an orphan
        ({"feature": [0, -1, -1, -1, -1], "left": [1, -1, -1, -1, -1]}, "node 3 must have exactly one parent"),
        ({"feature": [0, -1, -1, -1, -1]}, "either a feature and children, or neither"),
        ({"left": [1, 3, -7, -1, -1]}, "either a feature and children, or neither"),
        ({"feature": [0, 3, -1, -1, -1]}, "feature 3 does not exist; the schema has 3"),
        ({"threshold": [0.5, math.nan, 0, 0, 0]}, "threshold holds NaN or infinity"),
        ({"threshold": [math.inf, 0, 0, 0, 0]}, "threshold holds NaN or infinity"),
        ({"value": np.full((5, 3), math.inf)}, "value holds NaN or infinity"),
        ({"base": [0, math.nan, 0]}, "base holds NaN or infinity"),
        ({"weight": [40, 30, -10, 10, 20]}, "weight must not be negative"),
        ({"value": np.full((5, 3), 0.5)}, "non-negative and add up to 1"),
        ({"value": np.tile([1.5, -0.5, 0.0], (5, 1))}, "non-negative and add up to 1"),
        ({"value": np.full((5, 2), 0.5)}, "value has shape"),
        ({"threshold": [0.5]}, "threshold has shape"),
        ({"offsets": [0, 3]}, "offsets must rise from 0 to the number of nodes"),
        ({"offsets": [1, 5]}, "offsets must rise from 0 to the number of nodes"),
        ({"offsets": [0, 5, 5], "owners": ("", "")}, "at least one node a tree"),
        ({"offsets": [0, -2, 5], "owners": ("", "")}, "offsets must rise"),
        ({"offsets": [0, 2**63 - 1, -(2**63) + 8, 5], "owners": ("", "", "")}, "offsets must rise"),  # differences wrap
        ({"threshold": [0.5, 1e39, 0, 0, 0]}, "threshold holds .* more than single precision"),
        ({"weight": [40, 30, 10, 1e39, 20]}, "weight holds .* more than single precision"),
        ({"base": [0, -1e39, 0]}, "base holds .* more than single precision"),
        ({"output": "score", "value": np.full((5, 3), 1e39)}, "value holds .* more than single precision"),
        ({"output": "counts", "value": np.full((5, 3), 2.0**63)}, "a leaf counts more than 4.6e"),
        ({"offsets": [0, 3, 5], "owners": ("", "")}, "inside the same tree"),
        ({"offsets": [0]}, "0 trees"),
        ({"owners": ()}, "0 owners for 1 trees"),
        ({"schema": REGRESSION, "output": "target", "base": [0], "value": np.full((5, 1), 30.0)}, r"lie in \[5, 25\]"),
    ],
)
def test_unsound_forests_are_refused(changes, message):
    with pytest.raises(InvalidForest, match=message):
        validate(small_tree(**changes))


def test_limits_of_size():
    with pytest.raises(InvalidForest, match="3 trees; allowed are 1 to 2"):
        validate(made_up_forest(0, n_trees=3), Limits(trees=2))
    with pytest.raises(InvalidForest, match="5 nodes; at most 4"):
        validate(small_tree(), Limits(nodes=4))
    with pytest.raises(InvalidForest, match="depth 2; at most 1"):
        validate(small_tree(), Limits(depth=1))


class _Counted(np.ndarray):
    """An array of ten million cells that takes no memory, and says how often it was worked on."""

    touched = 0

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        _Counted.touched += 1
        return NotImplemented


def test_ten_million_nodes_are_refused_before_anything_is_made_of_them():
    huge = np.broadcast_to(np.int8(-1), (10_000_000,)).view(_Counted)
    arrays = pack(made_up_forest(0)) | {"feature": huge}
    with pytest.raises(InvalidForest, match="10000000 nodes in 3 trees; allowed: 5000000 nodes"):
        unpack(arrays, SCHEMA, "probability")
    assert _Counted.touched == 0


def without(name):
    return lambda arrays: {key: array for key, array in arrays.items() if key != name}


def with_array(name, make):
    return lambda arrays: arrays | {name: make(arrays[name])}


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        *((without(name), f"array '{name}' is missing") for name in _ARRAYS),
        (with_array("value", lambda a: a.astype(str)), "array 'value' has 2 dimensions of <U"),
        (with_array("value", lambda a: a.astype(np.int32)), "expected 2 of 'f'"),
        (with_array("value", np.ravel), "array 'value' has 1 dimensions"),
        (with_array("value", lambda a: a[:, :2]), "do not fit"),
        (with_array("value", lambda a: a[:-1]), "do not fit"),
        (with_array("threshold", lambda a: a[:-1]), "do not fit"),
        (with_array("left", lambda a: a.astype(complex)), "array 'left'"),
        (with_array("left", lambda a: a[::-1] - 1), "children must come after|parent"),
        (with_array("weight", lambda a: a[:-1]), "weights for"),
        (with_array("weight", lambda a: a - 1e6), "weight must not be negative"),
        (with_array("offsets", lambda a: a.astype(float)), "array 'offsets'"),
        (with_array("offsets", lambda a: a[:1]), "nodes in 0 trees"),
        (with_array("offsets", lambda a: a[::-1]), "offsets must rise"),
        (with_array("offsets", lambda a: a.astype(np.uint64) + np.uint64(2**63)), "offsets must rise"),
        (with_array("feature", lambda a: np.array(a, dtype=object)), "array 'feature'"),
        (with_array("feature", lambda a: np.where(a >= 0, 99, a)), "feature 99 does not exist"),
        (with_array("feature", lambda a: a[:0]), "do not fit"),
        (with_array("base", lambda a: a[:1]), "base has shape"),
        (with_array("base", lambda a: a * np.nan), "base holds NaN"),
    ],
)
def test_garbage_from_the_wire_is_refused(damage, message):
    arrays = pack(made_up_forest(3))
    with pytest.raises(InvalidForest, match=message):
        unpack(damage(arrays), SCHEMA, "probability")


def test_leaves_of_another_kind_are_refused():
    counts, shares = pack(made_up_forest(0, output="counts")), pack(made_up_forest(0))
    with pytest.raises(InvalidForest, match="'value'"):
        unpack(counts, SCHEMA, "probability")
    with pytest.raises(InvalidForest, match="'value'"):
        unpack(shares, SCHEMA, "counts")


@settings(max_examples=400)
@given(st.sampled_from((*OUTPUTS, "score")), st.integers(0, 2**32))
def test_whatever_passes_the_servers_check_is_sound_to_everybody(output, seed):
    rng = np.random.default_rng(seed)
    arrays = mutated(pack(made_up_forest(int(rng.integers(10)), output=output)), rng)
    try:
        received = unpack(arrays, schema_of(output), output)
    except InvalidForest:
        return
    assert_serves_everybody(received)


@pytest.mark.parametrize("output", [*OUTPUTS, "score"])
@pytest.mark.parametrize("name", ["threshold", "value", "weight", "base"])
@pytest.mark.parametrize("number", [1e39, -1e39, 3.4028235e38, -3.4028235e38, 1e300, 1e-45, 1e-320])
def test_numbers_at_the_ends_of_single_precision_are_refused_or_sound_to_everybody(output, name, number):
    arrays = pack(made_up_forest(3, output=output))
    if arrays[name].dtype.kind != "f" or not arrays[name].size:
        return
    for changed in (arrays[name].astype(np.float64), np.zeros(arrays[name].shape)):
        changed.reshape(-1)[:1] = number
        try:
            received = unpack(arrays | {name: changed}, schema_of(output), output)
        except InvalidForest:
            continue
        assert abs(number) < 1e39
        assert_serves_everybody(received)


@pytest.mark.parametrize("short", np.linspace(0.99e-4, 1.02e-4, 61))
def test_at_the_edge_of_what_is_allowed_everybody_decides_the_same(short):
    arrays = pack(made_up_forest(3))
    arrays["value"] = np.tile([0.25, 0.5, 0.25 - short], (len(arrays["value"]), 1))
    try:
        received = unpack(arrays, SCHEMA, "probability")
    except InvalidForest:
        return
    assert_serves_everybody(received)
