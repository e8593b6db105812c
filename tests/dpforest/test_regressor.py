"""`PrivateForestRegressor`: a good scikit-learn citizen that says what it releases."""

import doctest
import math
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from dpforest import PrivateForestClassifier, PrivateForestRegressor
from dpforest.errors import DPForestError, InvalidForest, PrivacyLeakWarning, SchemaError
from dpforest.estimators import regressor
from dpforest.schema import Feature, Schema


def table(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 3))
    return X, np.where(X[:, 0] > 0.5, 80.0, 20.0) + np.where(X[:, 1] > 0.25, 10.0, 0.0)


def protected(**more):
    given = {"epsilon": 5.0, "bounds": [(0, 1)] * 3, "target_range": (0, 100), "rows": 4000, "random_state": 0}
    return PrivateForestRegressor(**given | more)


@parametrize_with_checks(
    [PrivateForestRegressor(random_state=0), PrivateForestRegressor(epsilon=math.inf, trees=2, random_state=0)]
)
@pytest.mark.filterwarnings("ignore::dpforest.errors.PrivacyLeakWarning")
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def test_the_example_of_the_documentation():
    results = doctest.testmod(regressor)
    assert results.attempted > 0
    assert results.failed == 0


def test_a_protected_forest_learns_and_says_what_it_cost():
    X, y = table()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = protected().fit(X, y)
    assert model.score(X, y) > 0.9
    assert model.privacy_.guarantee().holds
    assert model.privacy_.guarantee().epsilon == pytest.approx(5.0)
    assert model.feature_importances_[0] > 0.8


def test_a_noised_row_count_is_part_of_the_budget():
    X, y = table()
    model = protected(rows=None).fit(X, y)
    assert model.privacy_.entries[0].what == "number of rows"
    assert model.privacy_.guarantee().epsilon == pytest.approx(5.0)


@pytest.mark.parametrize("missing", ["bounds", "target_range"])
def test_what_is_read_off_the_data_is_said_and_voids_the_guarantee(missing):
    X, y = table(200)
    with pytest.warns(PrivacyLeakWarning, match=missing):
        model = protected(**{missing: None}).fit(X, y)
    assert "guarantee: none" in str(model.privacy_.guarantee())


def test_targets_outside_the_public_range_are_clipped_or_refused():
    X, y = table(400)
    y[0] = 1e6
    inside = protected(epsilon=math.inf).fit(X, y)
    y[0] = 100
    np.testing.assert_array_equal(inside.predict(X), protected(epsilon=math.inf).fit(X, y).predict(X))
    y[0] = 100.5
    with pytest.raises(SchemaError, match=r"100\.5, outside \[0, 100\].*out_of_bounds=clip"):
        protected(out_of_bounds="refuse").fit(X, y)


def test_a_constant_target_gives_a_constant_forest():
    X, _ = table(1000)
    predicted = protected(epsilon=math.inf).fit(X, np.full(1000, 30.0)).predict(X)
    np.testing.assert_allclose(predicted, 30.0, atol=0.1)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"target_clip": (0, 200)}, "inside the schema's target_range"),
        ({"target_clip": (50, 50)}, "low < high"),
        ({"target_clip": (0, math.nan)}, "two finite numbers"),
        ({"target_range": (5, 5)}, "low < high"),
        ({"target_range": 7}, "two numbers"),
        ({"selection": "noisy_counts"}, "must be one of permute_and_flip"),
        ({"leaf_share": 1.0}, "leaf_share"),
        ({"depth": 0}, "depth 0"),
        ({"epsilon": -1.0}, "epsilon"),
    ],
)
def test_bad_parameters_are_named(more, message):
    X, y = table(50)
    with pytest.raises(DPForestError, match=message):
        protected(**more).fit(X, y)


def test_a_schema_of_classes_is_refused():
    X, y = table(50)
    schema = Schema((Feature("a", 0, 1), Feature("b", 0, 1), Feature("c", 0, 1)), classes=("u", "v"))
    with pytest.raises(SchemaError, match="use a classifier"):
        protected(bounds=None, target_range=None, schema=schema).fit(X, y)


def test_saved_and_loaded_it_predicts_the_same_and_keeps_no_seed(tmp_path):
    X, y = table(500)
    model = protected(target_clip=(10, 95)).fit(pd.DataFrame(X, columns=["a", "b", "c"]), y)
    path = model.save(tmp_path / "model.json")
    again = PrivateForestRegressor.load(path)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    np.testing.assert_allclose(again.predict(frame), model.predict(frame), rtol=1e-6)
    assert again.privacy_.to_dict() == model.privacy_.to_dict()
    assert again.random_state is None
    assert again.target_clip == (10, 95)
    with pytest.raises(InvalidForest, match="not a PrivateForestClassifier"):
        PrivateForestClassifier.load(path)
