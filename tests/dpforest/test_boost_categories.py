"""Boosting on categorical columns: one histogram a column, splits on sets, and forests that say so everywhere."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from forest_forms import assert_forms_agree, assert_onnx_agrees
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

from dpforest.boosting import Booster, BoostSettings, Records, boost, make_plan, release_marginals
from dpforest.boosting.bins import Marginals, count_marginals
from dpforest.boosting.trees import Splits
from dpforest.errors import InvalidForest, SchemaError
from dpforest.explain import explain_prediction
from dpforest.forest import Forest, feature_importances, json_schema, pack, unpack, validate
from dpforest.forest.json_format import from_dict, to_dict
from dpforest.ledger import Budget, Ledger
from dpforest.noise import Seeded
from dpforest.schema import Schema

FREE = Budget(float("inf"))
COLOURS = [f"colour {i}" for i in range(30)]
SCHEMA = Schema.from_dict(
    {
        "features": [
            {"name": "colour", "categories": COLOURS},
            {"name": "size", "low": 0, "high": 10},
            {"name": "wet", "categories": ["yes", "no"]},
        ],
        "target": "kind",
        "classes": ["a", "b"],
    }
)


def table(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The class follows from whether the colour's number is even, but for one record in ten."""
    rng = np.random.default_rng(seed)
    colour = rng.integers(30, size=n)
    columns = {
        "colour": np.array(COLOURS)[colour],
        "size": rng.uniform(0, 10, n),
        "wet": np.where(rng.random(n) < 0.5, "yes", "no"),
    }
    y = np.where(rng.random(n) < 0.1, rng.integers(2, size=n), colour % 2)
    return SCHEMA.matrix(columns), y


@pytest.fixture(scope="module")
def forest() -> Forest:
    X, y = table(20_000)
    return boost(X, y, SCHEMA, BoostSettings(), 20, Ledger(Budget(3.0, 1e-6)), Seeded(0))


def test_sets_of_many_categories_are_learned(forest: Forest) -> None:
    X, y = table(4000, seed=1)
    assert (forest.predict(X) == y).mean() > 0.9
    importances = dict(zip(SCHEMA.feature_names, feature_importances(forest), strict=True))
    assert sum(value for name, value in importances.items() if name.startswith("colour=")) > 0.8
    assert len(forest.sets) > 0


def test_a_record_adds_one_to_each_columns_histogram_however_many_categories() -> None:
    X, y = table(50)
    whole, less = (count_marginals(X[n:], y[n:], SCHEMA, 64) for n in (0, 1))
    assert (whole - less).sum(axis=1).tolist() == [1, 1, 1, 1]  # size, colour, wet, and the class
    plan = make_plan(BoostSettings(pure=True), Budget(1.0), 5, SCHEMA)
    assert plan.marginals.sensitivity == 4  # type: ignore[union-attr]


def test_records_and_the_forest_walk_alike() -> None:
    """Also a record that has none of a column's values, which lies in no set."""
    X, y = table(300)
    X[:20, [SCHEMA.feature_names.index(f"colour={c}") for c in COLOURS]] = 0
    plan = make_plan(BoostSettings(trees_per_round=3, depth=3), FREE, 3, SCHEMA)
    booster, ledger = Booster(SCHEMA, plan, seed=2), Ledger(FREE)
    booster.read_marginals(release_marginals(X, y, SCHEMA, plan, ledger, Seeded(0)), 1)
    records = Records(X, y, SCHEMA, plan, booster.start)
    for _ in range(3):
        done = booster.read_sums(records.release(booster.structure, ledger, Seeded(0)), 1)
        records.add(done.structure, done.weights, done.coefficients)
    forest = validate(booster.forest({}))
    assert np.abs(forest.predict_proba(X) - softmax(records.scores.astype(np.float64), axis=1)).max() < 1e-5


def test_every_form_of_the_forest_predicts_the_same(forest: Forest, tmp_path: Path) -> None:
    assert_forms_agree(forest, table(500, seed=2)[0], tmp_path)


def test_onnx_predicts_the_same(forest: Forest) -> None:
    assert_onnx_agrees(forest, table(500, seed=3)[0])


def test_a_path_names_the_set(forest: Forest) -> None:
    X, _ = table(1)
    own = COLOURS[int(X[0, [SCHEMA.feature_names.index(f"colour={c}") for c in COLOURS]].argmax())]
    steps = [step for path in explain_prediction(forest, X[0]) for step in path.steps if step.feature == "colour"]
    assert steps
    for step in steps:
        said, asked = step.text.split(": ", 1)
        assert said == f"colour is {own}"
        named = own in asked.replace(" or ", ", ").removeprefix("colour is ").removeprefix("not ").split(", ")
        assert named == (not step.goes_left), asked


def test_the_file_fits_its_schema_and_damaged_sets_are_refused(forest: Forest) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    plain = json.loads(json.dumps(to_dict(forest)))
    assert plain["version"] == 2
    validator = jsonschema.Draft202012Validator(json_schema())
    validator.validate(plain)
    assert not validator.is_valid({name: value for name, value in plain.items() if name != "sets"})
    for wrong in ({"column": "size", "categories": ["1"]}, {"column": "colour", "categories": ["red"]},
                  {"column": "wet", "categories": []}, {"column": ["wet"], "categories": ["yes"]}):  # fmt: skip
        with pytest.raises(InvalidForest, match="no categories of"):
            from_dict(plain | {"sets": [wrong, *plain["sets"][1:]]})


def test_sets_over_two_columns_or_none_are_refused_on_the_wire(forest: Forest) -> None:
    arrays = pack(forest)
    for bits in (np.zeros_like(arrays["sets"]), np.full_like(arrays["sets"], 255)):
        with pytest.raises(InvalidForest, match="one or more values of one categorical column"):
            unpack(arrays | {"sets": bits}, SCHEMA, "logit")
    with pytest.raises(InvalidForest, match="does not exist"):
        unpack({name: array for name, array in arrays.items() if name != "sets"}, SCHEMA, "logit")


def test_more_categories_than_a_byte_are_refused() -> None:
    schema = Schema.from_dict(
        {
            "features": [{"name": "street", "categories": [str(i) for i in range(10_000)]}],
            "target": "kind",
            "classes": ["a", "b"],
        }
    )
    with pytest.raises(SchemaError, match="'street' has 10000 categories; boosting takes at most 254: join rare ones"):
        make_plan(BoostSettings(), FREE, 3, schema)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=60), st.integers(0, 1000))
def test_every_category_has_one_of_the_groups_that_there_are_cuts_for(masses: list[float], seed: int) -> None:
    """Also where a few hold nearly all records and most hold none."""
    mass = np.array(masses) ** 8
    mass = mass / mass.sum() if mass.sum() > 0 else np.full(len(mass), 1 / len(mass))
    cuts, shares = np.array([[0.5] * 15]), np.array([[0.0, 0.5, *[1.0] * 15]])
    splits = Splits.draw(Marginals(cuts, shares, (mass,), 100.0, np.array([0.5, 0.5])), np.random.default_rng(seed))
    groups = splits.groups[0, :-1]
    assert sorted(set(groups.tolist())) == list(range(splits.number[1] + 1))
    assert splits.number[1] <= 15
    assert splits.shares[1, 0] == 0
    assert (np.diff(splits.shares[1]) >= 0).all()
    assert splits.shares[1, -1] == 1
