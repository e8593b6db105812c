"""Missing cells and categories that nobody listed: public rules for one cell at a time, the same in every form."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from forest_forms import assert_forms_agree, assert_onnx_agrees

from dpforest.boosting import BoostSettings, boost, make_plan
from dpforest.boosting.bins import count_marginals
from dpforest.cells import column_of
from dpforest.errors import SchemaError
from dpforest.explain import explain_prediction, tree_rules
from dpforest.explain.wording import condition
from dpforest.forest import Forest
from dpforest.growers import GrowerSettings, finish_classifier, grow_classifier, resolve
from dpforest.growers.budget import leaf_epsilon
from dpforest.ledger import Budget, Ledger
from dpforest.noise import Seeded
from dpforest.schema import Feature, Schema

AGE = {"name": "age", "low": 0, "high": 100, "unit": "years"}
SITE = {"name": "site", "categories": ["north", "south"]}
PLAIN: dict[str, Any] = {"features": [AGE, SITE], "target": "kind", "classes": ["a", "b"]}
BRANCHES = Schema.from_dict(PLAIN | {"missing": "branch", "features": [AGE, SITE | {"other": True}]})


def table(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Kind b if the age is missing or above 60, but for one record in ten."""
    rng = np.random.default_rng(seed)
    age = rng.uniform(0, 100, n)
    missing = rng.random(n) < 0.3
    y = np.where(rng.random(n) < 0.1, rng.integers(2, size=n), missing | (age > 60))
    columns = {"age": np.where(missing, np.nan, age), "site": rng.choice(["north", "south", "east", ""], n)}
    return BRANCHES.matrix(columns), y.astype(np.int64)


def test_what_a_cell_becomes() -> None:
    assert BRANCHES.feature_names == ["age", "site=north", "site=south", "site=other", "site=missing"]
    age = ["30", "?", None, float("nan"), pd.NA, " n/a ", "-100", "200"]
    site = ["north", "South", "", None, "NULL", "other", "missing", "south"]
    X = BRANCHES.matrix({"age": age, "site": site})
    assert X[:, 0].tolist() == [30, -100, -100, -100, -100, -100, 0, 100], "-100 in a table is out of bounds, no gap"
    assert X[:, 1:].argmax(axis=1).tolist() == [0, 2, 3, 3, 3, 2, 3, 1]
    assert (X[:, 1:].sum(axis=1) == 1).all()


@pytest.mark.parametrize("kind", ["Int64", "Float64", "float32", "object", "string"])
def test_typed_columns_are_read_alike(kind: str) -> None:
    filled = pd.Series(["1", "0", "7"] if kind == "string" else [1, 0, 7]).astype(kind)
    column = column_of(pd.concat([filled, pd.Series([None], dtype=kind)]))
    np.testing.assert_array_equal(column.numbers(), [1, 0, 7, np.nan])
    assert column.text() == ["1", "0", "7", ""]


def test_truth_values_and_categories_are_read_as_text_and_numbers() -> None:
    for cells in (np.array([True, False]), pd.Series([True, False], dtype="boolean"), [True, False]):
        assert column_of(cells).numbers().tolist() == [1, 0]
        assert column_of(cells).text() == ["True", "False"]
    assert column_of(pd.Series(["b", None, "a"], dtype="category")).text() == ["b", "", "a"]


def test_own_words_for_missing_cells_take_the_place_of_the_usual_ones() -> None:
    schema = Schema.from_dict(PLAIN | {"missing": "branch", "na_values": [-9, "unknown"]})
    X = schema.matrix({"age": ["-9.0", "Unknown", "", "5"], "site": ["north"] * 4})
    assert X[:, 0].tolist() == [-100, -100, -100, 5]
    assert schema.matrix({"age": np.array([-9.0, 5.0]), "site": ["-9", "south"]})[:, 0].tolist() == [-100, 5]
    with pytest.raises(SchemaError, match=r"row 0: column 'age' is '\?', not a finite number"):
        schema.matrix({"age": ["?"], "site": ["north"]})


def test_a_category_that_is_a_usual_word_for_missing_stays_a_category() -> None:
    schema = Schema.from_dict(PLAIN | {"features": [{"name": "site", "categories": ["NA", "EU"], "missing": "branch"}]})
    assert schema.matrix({"site": ["NA", "EU", "na", ""]}).argmax(axis=1).tolist() == [0, 1, 2, 2]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"missing": "ignore"}, "missing 'ignore' must be one of refuse, drop, branch"),
        ({"features": [AGE | {"missing": ["drop"]}]}, r"feature 'age': missing \['drop'\] must be one of"),
        ({"features": [SITE | {"missing": 1}]}, "feature 'site': missing 1 must be one of"),
        ({"features": [SITE | {"other": "yes"}]}, "feature 'site': other 'yes' must be true or false"),
        ({"features": [{"name": "site", "categories": ["north"]}]}, "two or more different values, got .*other: true"),
        ({"missing_target": "branch"}, "missing_target 'branch' must be 'refuse' or 'drop'"),
        ({"na_values": "none"}, "na_values: expected a list"),
        ({"na_values": ["South"]}, "'south' is a value of 'site' and among na_values too"),
        ({"na_values": ["B"]}, "'b' is a value of 'kind' and among na_values too"),
        ({"features": [{"name": "x", "low": -8e37, "high": 8e37, "missing": "branch"}]},
         "feature 'x': the number for missing cells and the upper bound .* rescale the column"),
    ],
)  # fmt: skip
def test_rules_that_cannot_be_are_named(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        Schema.from_dict(PLAIN | changed)


@pytest.mark.parametrize(
    "rules",
    [
        {"missing": "branch"},
        {"missing": "drop", "na_values": ["x"]},
        {"missing_target": "drop"},
        {"features": [AGE | {"missing": "branch"}, SITE | {"other": True, "missing": "drop"}]},
        {"missing": "branch", "features": [AGE | {"missing": "refuse"}, SITE | {"missing": "drop"}]},
        {"features": [AGE, {"name": "site", "categories": ["north", "missing", "other"], "other": True,
                            "missing": "branch"}]},
    ],
)  # fmt: skip
def test_rules_survive_a_file(rules: dict[str, Any]) -> None:
    schema = Schema.from_dict(PLAIN | rules)
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema


def test_a_columns_own_rule_wins() -> None:
    schema = Schema.from_dict(PLAIN | {"missing": "drop", "features": [AGE | {"missing": "branch"}, SITE]})
    assert (schema.features[0].missing, schema.missing_categories, schema.missing_target) == (
        "branch", {"site": "drop"}, "drop"
    )  # fmt: skip
    assert schema.read({"age": [1, None], "site": ["", "south"]}).dropped.tolist() == [True, False]


def test_what_is_refused_or_left_out_has_no_place_in_a_matrix() -> None:
    gaps = {"age": [1, None], "site": ["north", "south"]}
    with pytest.raises(SchemaError, match="row 1: column 'age' is '', which is missing: fill it, or say in the schema"):
        Schema.from_dict(PLAIN).matrix(gaps)
    with pytest.raises(SchemaError, match=r"row 1: .* the schema leaves such rows out \(missing: drop\)"):
        Schema.from_dict(PLAIN | {"missing": "drop"}).matrix(gaps)


@pytest.mark.parametrize("seed", range(100))
def test_a_missing_cell_is_apart_from_all_numbers_in_single_precision(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = 2.0 ** rng.uniform(-90, 124)
    low = float(rng.choice([0.0, -size, size]))
    high = low + float(size * 2.0 ** rng.uniform(-13, 1))
    scale = str(rng.choice(["linear", "signed_sqrt"]))
    try:
        feature = Feature("x", low, high, scale=scale, centre=low, missing="branch")  # type: ignore[arg-type]
    except SchemaError:
        return
    for bins in (2, 32, 255):
        grid = feature.grid(bins)
        assert grid.shape == (bins - 1,)
        assert grid[0] == feature.missing_cut
        assert (np.diff(grid) >= 0).all()
        assert feature.grid_with_tails(bins)[0] == feature.missing_cut
    value, cut, lowest = np.array([feature.missing_value, feature.missing_cut, low], dtype=np.float32)
    assert value < cut < lowest
    assert (value, cut) == (feature.missing_value, feature.missing_cut)


def test_rows_are_held_in_their_bounds_or_missing() -> None:
    rows = [[np.nan, 0, 1, 0, 0], [-100, 0, 1, 0, 0], [-99, 0, 1, 0, 0], [101, 0, 1, 0, 0]]
    X, clipped = BRANCHES.check_matrix(rows)
    assert X[:, 0].tolist() == [-100, -100, 0, 100]
    assert clipped == 2
    np.testing.assert_array_equal(BRANCHES.check_matrix(X, "refuse")[0], X)
    position = BRANCHES.grid_position(X)
    assert ((position >= 0) & (position <= 1)).all()
    with pytest.raises(SchemaError, match="column 'age' row 0 is inf"):
        BRANCHES.check_matrix([[math.inf, 0, 1, 0, 0]])
    with pytest.raises(SchemaError, match="column 'site=north' row 0 is nan"):
        BRANCHES.check_matrix([[1, math.nan, 1, 0, 0]])


def test_a_record_adds_one_to_each_columns_histogram_whether_cells_are_missing_or_not() -> None:
    X, y = table(60)
    for n in range(60):
        less = np.delete(np.arange(60), n)
        difference = count_marginals(X, y, BRANCHES, 64) - count_marginals(X[less], y[less], BRANCHES, 64)
        assert difference.sum(axis=1).tolist() == [1, 1, 1]  # age, site, and the class
        assert np.abs(difference).sum() == 3
    with_rules, without = (
        make_plan(BoostSettings(pure=True), Budget(1.0), 5, schema).marginals.sensitivity  # type: ignore[union-attr]
        for schema in (BRANCHES, Schema.from_dict(PLAIN))
    )
    assert with_rules == without == 3


@pytest.fixture(scope="module")
def forest() -> Forest:
    X, y = table(20_000)
    return boost(X, y, BRANCHES, BoostSettings(), 20, Ledger(Budget(3.0, 1e-6)), Seeded(0))


def test_boosting_learns_from_what_is_missing(forest: Forest) -> None:
    X, y = table(4000, seed=1)
    assert (forest.predict(X) == y).mean() > 0.9
    missing = X[:, 0] == BRANCHES.features[0].missing_value
    assert (forest.predict(X[missing]) == 1).all()
    assert (forest.predict(X[X[:, 0] < 50][:, :]) == 0).sum() > 1000


@pytest.mark.parametrize("candidates", ["grid", "random"])
def test_forests_learn_from_what_is_missing(candidates: str) -> None:
    X, y = table(8000)
    settings = resolve(GrowerSettings(candidates=candidates, depth=4, trees=8), math.inf, 8000)
    grown = grow_classifier(X, y, BRANCHES, settings, math.inf, Ledger(Budget(math.inf)), Seeded(0))
    forest = finish_classifier(grown, settings, leaf_epsilon(settings, math.inf, BRANCHES.n_features))
    X, y = table(2000, seed=1)
    assert (forest.predict(X) == y).mean() > 0.9
    said = " ".join(rule.text for tree in range(8) for rule in tree_rules(forest, tree))
    assert "age is missing" in said or "or missing" in said


def test_few_missing_cells_keep_a_cut_of_their_own() -> None:
    X, y = table(20_000)
    X[:, 0] = np.where(np.arange(len(X)) < 200, -100, np.abs(X[:, 0]))
    y[:200] = 1
    y[200:] = X[200:, 0] > 60
    forest = boost(X, y, BRANCHES, BoostSettings(), 50, Ledger(Budget(10.0, 1e-6)), Seeded(0))
    asked = forest.threshold[forest.feature == 0]
    assert (asked == BRANCHES.features[0].missing_cut).any()


def test_every_form_of_the_forest_predicts_the_same(forest: Forest, tmp_path: Path) -> None:
    assert_forms_agree(forest, table(500, seed=2)[0], tmp_path)


def test_onnx_predicts_the_same(forest: Forest) -> None:
    assert_onnx_agrees(forest, table(500, seed=3)[0])


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (-math.inf, -50, "age is missing"),
        (-50, math.inf, "age is not missing"),
        (-math.inf, 30, "age <= 30 years or missing"),
        (-50, 30, "age <= 30 years"),
        (30, math.inf, "age > 30 years"),
        (30, 60, "30 < age <= 60 years"),
    ],
)
def test_questions_about_missing_cells_are_in_words(low: float, high: float, words: str) -> None:
    assert condition(BRANCHES.features[0], low, high) == words


def test_a_path_says_that_a_cell_is_missing(forest: Forest) -> None:
    (row,) = BRANCHES.matrix({"age": [None], "site": ["east"]})
    said = {step.text for path in explain_prediction(forest, row) for step in path.steps}
    assert any(text.startswith("age is missing: ") for text in said)
    assert not any("-100" in text for text in said)
    assert any(text.startswith("site is other: ") for text in said)


def test_a_column_without_any_value_does_no_harm() -> None:
    X, y = table(2000)
    X[:, 0] = BRANCHES.features[0].missing_value
    forest = boost(X, y, BRANCHES, BoostSettings(), 10, Ledger(Budget(3.0, 1e-6)), Seeded(0))
    assert np.isfinite(forest.predict_proba(X)).all()
