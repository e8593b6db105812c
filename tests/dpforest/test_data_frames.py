"""Estimators take a data frame as people keep it: text, truth values, nullable types, gaps, columns in any order."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpforest
from dpforest import (
    PrivateBoostClassifier,
    PrivateBoostRegressor,
    PrivateForestClassifier,
    PrivateForestRegressor,
)
from dpforest.errors import DPForestError, InvalidForest, PrivacyLeakWarning, SchemaError
from dpforest.schema import Schema

ESTIMATORS = [PrivateBoostClassifier, PrivateBoostRegressor, PrivateForestClassifier, PrivateForestRegressor]
PUBLIC: dict[str, Any] = {
    "bounds": {"age": (0, 100), "visits": (0, 10)},
    "categories": {"site": ["north", "south", "east"]},
}


def frame(n: int = 3000, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "site": pd.Categorical(rng.choice(["north", "south", "east"], n)),
            "age": rng.uniform(0, 100, n),
            "member": pd.Series(rng.random(n) < 0.5, dtype="boolean"),
            "visits": pd.Series(rng.integers(0, 11, n), dtype="Int64"),
        }
    )


def target(table: pd.DataFrame, estimator: type) -> np.ndarray:
    """Follows from the site and the age."""
    score = (table["site"] == "south").to_numpy() & (table["age"].fillna(100) > 30).to_numpy()
    return score * 50.0 if "Regressor" in estimator.__name__ else np.where(score, "yes", "no")


def make(estimator: type, **more: Any) -> Any:
    facts = {"target_range": (0, 50)} if "Regressor" in estimator.__name__ else {"classes": ["no", "yes"]}
    facts = {} if "schema" in more else facts | PUBLIC
    return estimator(**{"epsilon": 20.0, "random_state": 0} | facts | more)


def schema_for(estimator: type, **rules: Any) -> Schema:
    features = [
        {"name": "age", "low": 0, "high": 100},
        {"name": "visits", "low": 0, "high": 10},
        {"name": "member", "low": 0, "high": 1},
        {"name": "site", "categories": ["north", "south", "east"]},
    ]
    kind = {"target_range": [0, 50]} if "Regressor" in estimator.__name__ else {"classes": ["no", "yes"]}
    return Schema.from_dict({"features": features, "target": "kind", **kind, **rules})


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_mixed_frame_is_learned_from_as_it_is(estimator: type, tmp_path) -> None:
    table = frame()
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        model = make(estimator).fit(table, target(table, estimator))
    assert model.privacy_.guarantee().holds
    new = frame(1000, seed=1)
    assert model.score(new, target(new, estimator)) > 0.7
    assert model.feature_names_in_.tolist() == table.columns.tolist()
    assert model.n_features_in_ == 4
    assert model.feature_importances_.shape == (4,)
    assert model.feature_importances_[[0, 1]].sum() > 0.6
    wanted = model.predict(new)
    assert (model.predict(new[["visits", "site", "member", "age"]]) == wanted).all(), "columns are found by name"
    assert (model.predict(new.astype({"site": str, "member": bool, "visits": float})) == wanted).all()
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        assert (model.predict(new.astype(object).to_numpy()) == wanted).all(), "an array has the frame's columns"
    again = estimator.load(model.save(tmp_path / "model.json"))  # type: ignore[attr-defined]
    if wanted.dtype.kind == "f":  # a file has nine digits of each leaf
        np.testing.assert_allclose(again.predict(new), wanted, rtol=1e-5, atol=1e-5)
    else:
        assert (again.predict(new) == wanted).all()
    assert again.feature_names_in_.tolist() == table.columns.tolist()
    np.testing.assert_allclose(again.feature_importances_, model.feature_importances_, atol=1e-6)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_schema_picks_its_columns(estimator: type) -> None:
    table = frame(500)
    y = target(table, estimator)
    schema = schema_for(estimator)
    model = make(estimator, schema=schema).fit(table.assign(unknown="x"), y)
    assert (model.predict(table) == make(estimator, schema=schema).fit(table, y).predict(table)).all()
    assert model.feature_importances_.shape == (5,)
    encoded = pd.DataFrame(schema.matrix(table), columns=schema.feature_names)[schema.feature_names[::-1]]
    same = make(estimator, schema=schema).fit(encoded, y)
    assert (same.predict(encoded) == model.predict(table)).all(), "one 0/1 column a category is read too"
    with pytest.raises(SchemaError, match=r"column 'site' is missing.*matched by name"):
        make(estimator, schema=schema).fit(table.drop(columns="site"), y)


def test_categories_that_are_read_off_the_data_are_a_leak() -> None:
    table = frame(400)
    y = target(table, PrivateBoostClassifier)
    with pytest.warns(
        PrivacyLeakWarning, match="categories=None: the categories of the columns site are read"
    ) as caught:
        model = make(PrivateBoostClassifier, categories=None).fit(table, y)
    assert [w.filename for w in caught] == [__file__], "the caller's line is named"
    assert not model.privacy_.guarantee().holds
    assert model.forest_.schema.categories == {"site": ("east", "north", "south")}
    text = table.astype({"site": object})
    with pytest.warns(PrivacyLeakWarning):
        same = make(PrivateBoostClassifier, categories=None).fit(text, y)
    assert (same.predict(text) == model.predict(table)).all()


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"categories": {}}, r"column 'site' holds text: name its values \(categories={'site': \[...\]}\)"),
        (
            {"categories": {"place": ["a", "b"]}},
            "categories name 'place', which is no column; the columns are site, age",
        ),
        ({"categories": ["site"]}, "categories must be a mapping of column name to values, got list"),
        ({"categories": {"site": ["north"]}}, "feature 'site': categories must be two or more different values"),
        ({"categories": {"site": ["north", "south"]}}, "column 'site' is 'east', which is not among its categories"),
        ({"bounds": {"age": (0, 100)}}, "bounds lack column 'visits'"),
        ({"missing": "ignore"}, "missing 'ignore' must be one of refuse, drop, branch"),
        ({"schema": schema_for(PrivateBoostClassifier), "categories": {}}, "either a schema or categories"),
        ({"schema": schema_for(PrivateBoostClassifier), "missing": "drop"}, "either a schema or missing"),
    ],
)
def test_public_facts_that_do_not_fit_are_named(facts: dict[str, Any], message: str) -> None:
    table = frame(100)
    with pytest.raises(DPForestError, match=message):
        make(PrivateBoostClassifier, **facts).fit(table, target(table, PrivateBoostClassifier))


@pytest.mark.parametrize("cells", [pd.Timestamp("2024-01-01"), pd.Timedelta("1h")])
@pytest.mark.parametrize("bounds", [None, {"age": (0, 120)}, {"age": (0, 120), "when": (0, 1)}])
def test_a_column_of_dates_is_named_as_such(cells: Any, bounds: Any) -> None:
    table = pd.DataFrame({"age": [30.0, 40.0], "when": [cells] * 2})
    forest = PrivateForestClassifier(epsilon=1.0, bounds=bounds, classes=["no", "yes"])
    with pytest.raises(SchemaError, match="column 'when' holds dates"):
        forest.fit(table, ["no", "yes"])


def test_categories_need_names() -> None:
    with pytest.raises(SchemaError, match="categories name columns, and an array has none"):
        make(PrivateBoostClassifier).fit(np.zeros((4, 2)), ["no", "yes", "no", "yes"])


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_gaps_follow_the_rule(estimator: type) -> None:
    table = frame(2000)
    y = target(table, estimator)
    gaps = table.copy()
    gaps.loc[::5, "age"] = np.nan
    gaps.loc[1::5, "site"] = None
    gaps.loc[2::5, "member"] = pd.NA
    whole = gaps.notna().all(axis=1).to_numpy()
    refused = "row 0: column 'age' is '', which is missing: fill it, or set missing=\"branch\", which keeps the row, or"
    for use in (lambda: make(estimator).fit(gaps, y), lambda: make(estimator).fit(table, y).predict(gaps)):
        with pytest.raises(SchemaError, match=refused):
            use()
    with pytest.raises(
        SchemaError, match=r"'west', which is not among its categories .*: add it to categories or drop"
    ):
        make(estimator).fit(table.assign(site="west"), y)
    left_out = make(estimator, missing="drop").fit(gaps, y)
    assert (left_out.predict(table) == make(estimator).fit(table[whole], y[whole]).predict(table)).all()
    with pytest.raises(SchemaError, match=r"row 0: .*leaves such rows out \(missing: drop\)"):
        left_out.predict(gaps)
    kept = make(estimator, missing="branch").fit(gaps, y)
    assert len(kept.predict(gaps)) == len(gaps)
    assert kept.forest_.schema.categories["site"][-1] == "missing"
    same = make(estimator, schema=kept.forest_.schema).fit(gaps, y)
    assert (same.predict(gaps) == kept.predict(gaps)).all(), "the schema says the same"


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_gaps_in_an_array(estimator: type) -> None:
    X = frame(2000)[["age", "visits"]].to_numpy(dtype=np.float64)
    gaps = np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X)
    y = target(pd.DataFrame({"site": "south", "age": gaps[:, 0]}), estimator)
    facts = {"bounds": [(0, 100), (0, 10)], "categories": None}
    with pytest.raises(ValueError, match="contains NaN"):
        make(estimator, **facts).fit(gaps, y)
    model = make(estimator, **facts, missing="branch").fit(gaps, y)
    assert model.score(gaps, y) > 0.7
    whole = ~np.isnan(gaps).any(axis=1)
    left_out = make(estimator, **facts, missing="drop").fit(gaps, y)
    assert (left_out.predict(X) == make(estimator, **facts).fit(gaps[whole], y[whole]).predict(X)).all()


def test_a_column_without_any_value() -> None:
    table = frame(300)
    y = target(table, PrivateBoostClassifier)
    table["age"] = np.nan
    with pytest.raises(SchemaError, match="no row is left, as each has a missing cell"):
        make(PrivateBoostClassifier, missing="drop").fit(table, y)
    make(PrivateBoostClassifier, missing="branch").fit(table, y)
    with pytest.warns(PrivacyLeakWarning), pytest.raises(SchemaError, match="column 'age' holds no number at all"):
        make(PrivateBoostClassifier, missing="branch", bounds=None).fit(table, y)


BAD_WORDS = {
    "one category is listed": (
        {"categories": {"site": ["north"]}},
        ["north"],
        "feature 'site': categories must be two or more different values, got ['north']: list the others, set",
    ),
    "one category is there": (
        {"categories": None, "bounds": None},
        ["north"],
        "feature 'site': categories must be two or more different values, got ['north']: list the others, set",
    ),
    "no cell has a value": (
        {"categories": {"site": ["north", "south"]}},
        [None],
        "row 0: column 'site' is '', which is missing: fill it, or set missing=\"branch\"",
    ),
    "no cell has a value, and none is listed": (
        {"categories": None, "bounds": None},
        [None],
        "column 'site' holds no number at all: give its bounds (or its categories), or leave it out",
    ),
}


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("bad", BAD_WORDS)
@pytest.mark.filterwarnings("ignore::dpforest.errors.PrivacyLeakWarning")
def test_a_column_of_words_that_tells_nothing_is_named_in_one_line(estimator: type, bad: str) -> None:
    facts, cells, message = BAD_WORDS[bad]
    table = pd.DataFrame({"site": cells * 60})
    y = target(table.assign(age=50.0), estimator)
    with pytest.raises(SchemaError) as refused:
        make(estimator, **{"bounds": {}} | facts).fit(table, y)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_category_that_is_a_word_for_missing_is_the_category(estimator: type) -> None:
    table = pd.DataFrame({"site": ["NA", "south"] * 300})
    y = target(table.assign(age=50.0), estimator)
    model = make(estimator, categories={"site": ["NA", "south"]}, bounds={}, missing="drop").fit(table, y)
    assert (model.predict(table)[:2] == y[:2]).all() or "Regressor" in estimator.__name__
    low, high = model.predict(pd.DataFrame({"site": ["NA", "south"]}))
    assert low != high


@pytest.mark.parametrize("estimator", [PrivateBoostClassifier, PrivateBoostRegressor])
def test_ten_thousand_categories_are_too_many_for_boosting(estimator: type) -> None:
    streets = [f"s{i}" for i in range(10_000)]
    table = pd.DataFrame({"site": streets[:60]})
    with pytest.raises(SchemaError, match="column 'site' has 10000 categories; boosting takes at most 254: join rare"):
        make(estimator, categories={"site": streets}, bounds={}).fit(table, target(table.assign(age=1.0), estimator))


def test_rows_without_a_target_are_left_out_where_the_schema_says_so() -> None:
    table = frame(600)
    y = target(table, PrivateBoostClassifier).astype(object)
    y[::3] = None
    schema = schema_for(PrivateBoostClassifier, missing_target="drop")
    known = np.arange(600) % 3 > 0
    model = make(PrivateBoostClassifier, schema=schema).fit(table, y)
    same = make(PrivateBoostClassifier, schema=schema).fit(table[known], y[known])
    assert (model.predict(table) == same.predict(table)).all()


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_weights_of_rows_are_refused_with_the_reason(estimator: type) -> None:
    table = frame(100)
    y = target(table, estimator)
    with pytest.raises(DPForestError, match=r"sample_weight is not supported: .* public weights of the classes"):
        make(estimator).fit(table, y, sample_weight=np.ones(100))
    with pytest.raises(TypeError, match="unexpected keyword argument 'weights'"):
        make(estimator).fit(table, y, weights=1)
    make(estimator).fit(table, y, sample_weight=None)


def test_damaged_column_names_are_refused(tmp_path) -> None:
    table = frame(100)
    path = make(PrivateBoostClassifier).fit(table, target(table, PrivateBoostClassifier)).save(tmp_path / "model.json")
    path.write_text(path.read_text().replace('"named_columns":["site","age","member","visits"]', '"named_columns":3'))
    with pytest.raises(InvalidForest, match="damaged estimator"):
        PrivateBoostClassifier.load(path)


def test_tab_completion_knows_the_public_names() -> None:
    assert set(dpforest.__all__) <= set(dir(dpforest))
    assert not {"Any", "TYPE_CHECKING", "annotations"} & set(dir(dpforest)), "what the module itself imports"
