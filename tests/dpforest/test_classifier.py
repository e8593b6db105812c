"""`PrivateForestClassifier`: a good scikit-learn citizen that says what it releases."""

import doctest
import json
import math
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from dpforest import PrivateForestClassifier
from dpforest.errors import DPForestError, InvalidForest, PrivacyLeakWarning, SchemaError
from dpforest.estimators import classifier
from dpforest.forest import validate
from dpforest.noise import Secure
from dpforest.schema import Feature, Schema

BOUNDS = [(0, 1), (-1, 1), (0, 10)]
CLASSES = ["sit", "stand", "walk"]


def table(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform((0, -1, 0), (1, 1, 10), size=(n, 3))
    return X, np.array(CLASSES)[(X[:, 0] > 0.5).astype(int) + ((X[:, 0] > 0.5) & (X[:, 1] > 0))]


def protected(**more):
    return PrivateForestClassifier(**{"bounds": BOUNDS, "classes": CLASSES, "rows": 3000, "random_state": 0} | more)


@parametrize_with_checks(
    [
        PrivateForestClassifier(random_state=0),
        PrivateForestClassifier(epsilon=math.inf, random_state=0),
        PrivateForestClassifier(selection="noisy_counts", candidates="random", random_state=0),
    ]
)
@pytest.mark.filterwarnings("ignore::dpforest.errors.PrivacyLeakWarning")
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def test_the_example_of_the_documentation():
    assert doctest.testmod(classifier).attempted > 0
    assert doctest.testmod(classifier).failed == 0


def test_a_protected_forest_learns_and_says_what_it_cost():
    X, y = table()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = protected().fit(X, y)
    assert (model.predict(X) == y).mean() > 0.9
    guarantee = model.privacy_.guarantee()
    assert guarantee.holds
    assert guarantee.epsilon == pytest.approx(1.0)
    assert guarantee.delta == 0
    assert model.classes_.tolist() == CLASSES
    probability = model.predict_proba(X)
    assert probability.shape == (3000, 3)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    assert (model.classes_[probability.argmax(axis=1)] == model.predict(X)).all()
    assert validate(model.forest_).schema.feature_names == ["x0", "x1", "x2"]


def test_importances_come_from_the_noised_forest():
    X, y = table()
    model = protected(epsilon=100.0, depth=4).fit(X, y)
    assert model.feature_importances_.sum() == pytest.approx(1.0)
    assert model.feature_importances_[:2].sum() > 0.9, "the third column has no part in the classes"
    with pytest.raises(NotFittedError):
        _ = protected().feature_importances_


def test_an_unknown_number_of_rows_is_a_release_of_one_percent():
    X, y = table()
    model = protected(rows=None, epsilon=2.0).fit(X, y)
    first = model.privacy_.entries[0]
    assert (first.what, first.epsilon, first.protected) == ("number of rows", pytest.approx(0.02), True)
    assert model.privacy_.guarantee().epsilon == pytest.approx(2.0)


def test_settings_that_ask_for_no_rows_pay_for_none():
    X, y = table(200)
    chosen = {"depth": 3, "trees": 1, "shared_below": None, "depth_growth": 1.0, "smoothing": "laplace"}
    model = protected(rows=None, **chosen).fit(X, y)
    assert "number of rows" not in [entry.what for entry in model.privacy_.entries]
    assert model.forest_.depths.max() == 3


@pytest.mark.parametrize(("left_out", "leaks"), [("bounds", ["bounds of the features"]), ("classes", ["classes"])])
def test_facts_that_are_read_off_the_data_cost_the_guarantee(left_out, leaks):
    X, y = table(300)
    with pytest.warns(PrivacyLeakWarning, match=f"{left_out}=None: the .* are read off the data") as caught:
        model = protected(**{left_out: None}).fit(X, y)
    assert len(caught) == 1
    assert caught[0].filename == __file__, "the warning points at the caller"
    assert model.privacy_.guarantee().reasons == tuple(leaks)
    assert not model.privacy_.guarantee().holds


def test_without_noise():
    X, y = table()
    model = protected(epsilon=math.inf).fit(X, y)
    assert (model.predict(X) == y).mean() > 0.95
    assert not model.privacy_.guarantee().holds
    assert model.forest_.weight[model.forest_.offsets[:-1]].sum() == 3000, "every row is in one tree"


def test_noise_is_reproducible_by_a_seed_only(monkeypatch):
    X, y = table(500)

    def probability(**more):
        return protected(**more).fit(X, y).predict_proba(X)

    assert (probability() == probability()).all()
    assert (probability(random_state=1) != probability()).any()
    state = np.random.RandomState(1)
    assert (probability(random_state=state) != probability(random_state=state)).any(), "a state moves on"
    secure = protected(random_state=None, depth=4)
    made = []
    monkeypatch.setattr("dpforest.estimators.base.Secure", lambda: made.append(Secure()) or made[-1])
    assert (secure.fit(X, y).predict_proba(X) != secure.fit(X, y).predict_proba(X)).any()
    assert len(made) == 2
    assert secure.privacy_.guarantee().holds


def test_data_frames_give_their_names():
    X, y = table(400)
    frame = pd.DataFrame(X, columns=["a", "target", "c"])
    model = protected(bounds={"c": (0, 10), "target": (-1, 1), "a": (0, 1)}).fit(frame, pd.Series(y))
    assert model.feature_names_in_.tolist() == ["a", "target", "c"]
    assert model.forest_.schema.feature_names == ["a", "target", "c"]
    assert model.forest_.schema.high.tolist() == [1, 1, 10]
    assert model.forest_.schema.target == "target_", "a feature has the name already"
    assert (model.predict(frame) == protected().fit(X, y).predict(X)).all()
    assert (model.predict(frame[["c", "a", "target"]]) == model.predict(frame)).all(), "columns are found by name"
    with pytest.raises(SchemaError, match="column 'c' is missing"):
        model.predict(frame[["a", "target"]])


def test_a_schema_in_place_of_bounds_and_classes():
    X, y = table(400)
    features = tuple(Feature(name, *bounds) for name, bounds in zip("abc", BOUNDS, strict=True))
    schema = Schema(features, target="posture", classes=("walk", "sit", "stand"), rows=3000)
    model = PrivateForestClassifier(schema=schema, random_state=0).fit(X, y)
    assert model.classes_.tolist() == CLASSES, "sorted, as scikit-learn expects"
    assert model.privacy_.guarantee().holds
    assert "number of rows" not in [entry.what for entry in model.privacy_.entries]
    assert (model.predict(X) == protected().fit(X, y).predict(X)).all()
    numbers = replace(schema, classes=("0", "1", "2"))
    assert set(PrivateForestClassifier(schema=numbers, random_state=0).fit(X, np.arange(400) % 3).classes_) == {*"012"}
    frame = pd.DataFrame(X, columns=list("abc"))[["b", "c", "a"]]
    assert (
        PrivateForestClassifier(schema=schema, random_state=0).fit(frame, y).predict(frame) == model.predict(X)
    ).all()
    with pytest.raises(SchemaError, match=r"the columns are x0, x1, the schema asks"):
        PrivateForestClassifier(schema=schema).fit(X[:, :2], y)
    with pytest.raises(DPForestError, match="either a schema or bounds"):
        PrivateForestClassifier(schema=schema, bounds=BOUNDS).fit(X, y)
    with pytest.raises(DPForestError, match="either a schema or classes"):
        PrivateForestClassifier(schema=schema, classes=CLASSES).fit(X, y)
    regression = replace(schema, classes=(), target_range=(0.0, 1.0))
    with pytest.raises(SchemaError, match="is no class: use a regressor"):
        PrivateForestClassifier(schema=regression).fit(X, y)


def test_classes_that_the_data_lacks_are_kept():
    X, y = table(300)
    model = protected(classes=["run", *CLASSES]).fit(X, y)
    assert model.classes_.tolist() == ["run", "sit", "stand", "walk"]
    assert model.predict_proba(X).shape == (300, 4)
    only = protected(epsilon=math.inf).fit(X[y == "sit"], y[y == "sit"])
    assert set(only.predict(X)) == {"sit"}


def test_numbers_as_classes_stay_numbers():
    X, _ = table(300)
    y = np.where(X[:, 0] > 0.5, 10, 2)
    model = protected(classes=[10, 2]).fit(X, y.astype(float))
    assert model.classes_.tolist() == [2, 10]
    assert model.predict(X).dtype.kind == "i"
    assert (model.predict(X) == y).mean() > 0.8


def test_cells_out_of_bounds():
    X, y = table(200)
    X[0, 2] = 11
    protected().fit(X, y)
    with pytest.raises(SchemaError, match=r"column 'x2' row 0 is 11, outside \[0, 10\]"):
        protected(out_of_bounds="refuse").fit(X, y)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"epsilon": 0}, "epsilon 0 must be positive"),
        ({"epsilon": -1.0}, "epsilon -1.0 must be positive"),
        ({"epsilon": math.nan}, "epsilon nan must be positive"),
        ({"epsilon": "1"}, "epsilon '1' must be a positive number"),
        ({"depth": 0}, "depth 0 must be a whole number from 1 to 20"),
        ({"selection": "best"}, "selection 'best' must be one of"),
        ({"rows": 0}, "rows 0 must be a whole number from 1"),
        ({"rows": 1.5}, "rows 1.5 must be a whole number from 1"),
        ({"out_of_bounds": "drop"}, "out_of_bounds 'drop' must be 'clip' or 'refuse'"),
        ({"random_state": "a"}, "random_state 'a' must be None"),
        ({"random_state": -1}, "random_state -1 must be None"),
        ({"schema": {"features": []}}, "schema must be a dpforest.schema.Schema or None, got dict"),
    ],
)
def test_unsound_parameters_are_named_before_data_is_read(wrong, message):
    with pytest.raises(DPForestError, match=message):
        protected(**wrong).fit("no data", "no data")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"bounds": BOUNDS[:2]}, r"bounds have shape \(2, 2\), expected one \(low, high\) for each of 3 columns"),
        ({"bounds": (0, 1)}, "bounds have shape"),
        ({"bounds": "wide"}, r"bounds must be one \(low, high\) a column"),
        ({"bounds": [(0, 1), (1, -1), (0, 10)]}, "feature 'x1': bounds"),
        ({"bounds": {"x0": (0, 1)}}, "bounds lack column 'x1'"),
        ({"bounds": {"y": (0, 1)}}, "bounds name 'y', which is no numeric column; those are x0, x1, x2"),
        ({"classes": ["sit", "stand"]}, "y holds 'walk', which is not among the classes"),
        ({"classes": ["sit"]}, "needs at least two"),
    ],
)
def test_public_facts_that_do_not_fit_are_named(wrong, message):
    with pytest.raises(SchemaError, match=message):
        protected(**wrong).fit(*table(100))


@pytest.mark.parametrize("cell", [math.nan, math.inf])
def test_cells_that_are_no_numbers_are_refused(cell):
    X, y = table(100)
    X[3, 1] = cell
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        protected().fit(X, y)


def test_one_class_in_the_data_needs_the_class_list():
    X, _ = table(50)
    with pytest.warns(PrivacyLeakWarning), pytest.raises(SchemaError, match="y holds one class only"):
        PrivateForestClassifier().fit(X, np.zeros(50))


def test_selection_and_validation_tools_work():
    X, y = table(600)
    assert cross_val_score(protected(), X, y, cv=3).mean() > 0.6
    search = GridSearchCV(protected(), {"depth": np.array([1, 4]), "epsilon": np.array([1, 8])}, cv=2).fit(X, y)
    assert search.best_params_["depth"] == 4


@pytest.mark.parametrize("target", [CLASSES, [2, 5, 9], [False, True]])
def test_a_saved_model_is_the_same(tmp_path, target):
    X, y = table(500)
    y = np.array(target)[np.searchsorted(CLASSES, y) % len(target)]
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = protected(classes=target, depth=np.int64(4)).fit(frame, y)
    again = PrivateForestClassifier.load(model.save(tmp_path / "model.json"))
    assert again.predict(frame).tolist() == model.predict(frame).tolist()
    assert again.classes_.dtype == model.classes_.dtype
    np.testing.assert_allclose(again.predict_proba(frame), model.predict_proba(frame), atol=1e-8)
    np.testing.assert_allclose(again.feature_importances_, model.feature_importances_, atol=1e-6)
    assert again.feature_names_in_.tolist() == ["a", "b", "c"]
    assert again.privacy_.entries == model.privacy_.entries
    assert str(again.privacy_.guarantee()) == str(model.privacy_.guarantee())
    assert (again.depth, again.rows, again.epsilon, again.n_features_in_) == (4, 3000, 1.0, 3)
    again.set_params(random_state=1)
    assert again.fit(frame, y.astype(str)).privacy_.guarantee().holds, "its schema is public"


def test_a_file_keeps_the_seed_and_facts_of_the_data_to_itself(tmp_path):
    X, y = table(200)
    with pytest.warns(PrivacyLeakWarning):
        model = protected(bounds=None, random_state=12345).fit(X, y)
    text = model.save(tmp_path / "model.json").read_text()
    assert "random_state" not in text
    assert "12345" not in text
    again = PrivateForestClassifier.load(tmp_path / "model.json")
    assert again.schema is None, "bounds that were read off data are not taken for public"
    assert not again.privacy_.guarantee().holds
    assert not hasattr(again, "feature_names_in_")
    assert again.predict(X).tolist() == model.predict(X).tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"estimator": "PrivateForestRegressor"}, "holds 'PrivateForestRegressor', not a PrivateForestClassifier"),
        ({"ledger": None}, "damaged estimator"),
        ({"parameters": {"colour": 1}}, "unknown parameter 'colour'"),
        ({"parameters": 3}, "damaged estimator"),
        ({"classes": ["a", "b", "c"]}, "do not fit those of the forest"),
        ({"classes_dtype": "V8"}, "do not fit those of the forest|damaged estimator"),
        ({"classes_dtype": "no type"}, "damaged estimator"),
    ],
)
def test_damaged_files_are_refused(tmp_path, change, message):
    path = protected(depth=2).fit(*table(100)).save(tmp_path / "model.json")
    plain = json.loads(path.read_text())
    plain["provenance"] |= change
    path.write_text(json.dumps(plain))
    with pytest.raises(InvalidForest, match=message):
        PrivateForestClassifier.load(path)


def test_only_a_fitted_model_is_saved(tmp_path):
    with pytest.raises(NotFittedError):
        protected().save(tmp_path / "model.json")
