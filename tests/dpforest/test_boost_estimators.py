"""`PrivateBoostClassifier` and `PrivateBoostRegressor`: good scikit-learn citizens that say what they release."""

from __future__ import annotations

import doctest
import math
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from dpforest import PrivateBoostClassifier, PrivateBoostRegressor
from dpforest.errors import DPForestError, InvalidForest, PrivacyLeakWarning, SchemaError
from dpforest.estimators import boost
from dpforest.noise import Secure
from dpforest.schema import Feature, Schema

BOUNDS = [(0, 1), (-1, 1), (0, 10)]
NAMES = ["sit", "stand", "walk"]


def table(n: int = 4000, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, classes and targets."""
    X = np.random.default_rng(seed).uniform((0, -1, 0), (1, 1, 10), size=(n, 3))
    index = (X[:, 0] > 0.5).astype(int) + ((X[:, 0] > 0.5) & (X[:, 1] > 0))
    return X, np.array(NAMES)[index], 40.0 * index


def classifier(**more: Any) -> PrivateBoostClassifier:
    given = {"epsilon": 3.0, "bounds": BOUNDS, "classes": NAMES, "rounds": 20, "random_state": 0}
    return PrivateBoostClassifier(**given | more)


def regressor(**more: Any) -> PrivateBoostRegressor:
    given = {"epsilon": 8.0, "bounds": BOUNDS, "target_range": (0, 80), "rounds": 20, "random_state": 0}
    return PrivateBoostRegressor(**given | more)


@parametrize_with_checks(
    [
        PrivateBoostClassifier(rounds=5, random_state=0),
        PrivateBoostRegressor(rounds=5, random_state=0),
        PrivateBoostClassifier(epsilon=2.0, delta=0.0, pure=True, rounds=2, random_state=0),
    ]
)
@pytest.mark.filterwarnings("ignore::dpforest.errors.PrivacyLeakWarning")
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def test_the_examples_of_the_documentation() -> None:
    results = doctest.testmod(boost)
    assert results.attempted > 0
    assert results.failed == 0


@pytest.mark.parametrize("pure", [False, True])
def test_they_learn_and_say_what_it_cost(pure: bool) -> None:
    X, names, targets = table(20_000)
    delta = 0.0 if pure else 1e-6
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours = classifier(pure=pure, delta=delta).fit(X, names)
        theirs = regressor(pure=pure, delta=delta).fit(X, targets)
    assert ours.score(X, names) > 0.9
    assert theirs.score(X, targets) > 0.8
    for model, epsilon in ((ours, 3.0), (theirs, 8.0)):
        guarantee = model.privacy_.guarantee()
        assert guarantee.holds
        assert guarantee.delta == delta
        assert guarantee.epsilon == pytest.approx(epsilon, rel=1e-6)
        assert model.feature_importances_.argmax() == 0


def test_without_privacy_there_is_no_guarantee() -> None:
    X, names, _ = table()
    model = classifier(epsilon=math.inf).fit(X, names)
    assert not model.privacy_.guarantee().holds
    assert model.score(X, names) > 0.95


@pytest.mark.parametrize(("missing", "leak"), [("bounds", "bounds of the features"), ("classes", "classes")])
def test_facts_that_are_read_off_the_data_cost_the_guarantee(missing: str, leak: str) -> None:
    X, names, _ = table(500)
    with pytest.warns(PrivacyLeakWarning, match=f"{missing}=None") as caught:
        model = classifier(rounds=2, **{missing: None}).fit(X, names)
    assert model.privacy_.guarantee().reasons == (leak,)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("make", [classifier, regressor])
def test_a_file_brings_it_back(make: Any, tmp_path: Any) -> None:
    X, names, targets = table(1000)
    model = make(rounds=3).fit(X, names if make is classifier else targets)
    path = model.save(tmp_path / "model.json")
    again = type(model).load(path)
    # A file holds nine digits.
    same = np.allclose if make is regressor else np.array_equal
    assert same(again.predict(X), model.predict(X))
    assert again.get_params()["delta"] == 1e-6
    assert again.privacy_.to_dict() == model.privacy_.to_dict()
    with pytest.raises(InvalidForest, match="holds 'PrivateBoost"):
        (PrivateBoostRegressor if make is classifier else PrivateBoostClassifier).load(path)
    assert '"random_state"' not in path.read_text()


def test_a_schema_takes_the_place_of_bounds_and_classes() -> None:
    X, names, _ = table(500)
    features = tuple(Feature(f"x{i}", *pair) for i, pair in enumerate(BOUNDS))
    model = classifier(bounds=None, classes=None, schema=Schema(features, classes=tuple(NAMES)), rounds=2)
    assert model.fit(X, names).classes_.tolist() == NAMES
    with pytest.raises(SchemaError, match="is a class: use a classifier"):
        regressor(bounds=None, target_range=None, schema=Schema(features, classes=tuple(NAMES))).fit(X, X[:, 0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delta": 0.0}, "needs a delta well below 1 / records"),
        ({"delta": 1.5}, "delta 1.5 must lie between 0 and 1"),
        ({"delta": 0.5}, "delta 0.5 is not below 0.001, the most for any number of records"),
        ({"pure": True}, "pure boosting needs no delta"),
        ({"rounds": 0}, "rounds 0 must be a whole number from 1"),
        ({"depth": 20}, "depth 20 must be a whole number from 1 to 14"),
        ({"epsilon": -1.0}, "epsilon -1.0 must be positive"),
    ],
)
def test_bad_parameters_are_named(options: dict[str, Any], message: str) -> None:
    X, names, _ = table(100)
    with pytest.raises(DPForestError, match=message):
        classifier(**options).fit(X, names)


def test_noise_comes_from_the_system_unless_a_seed_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    X, names, _ = table(300)
    made: list[Secure] = []
    monkeypatch.setattr("dpforest.estimators.base.Secure", lambda: made.append(Secure()) or made[-1])
    classifier(rounds=2, random_state=None).fit(X, names)
    assert len(made) == 1
    first, second, other = (classifier(rounds=2, random_state=seed).fit(X, names) for seed in (1, 1, 2))
    assert np.array_equal(first.predict_proba(X), second.predict_proba(X))
    assert not np.array_equal(first.predict_proba(X), other.predict_proba(X))
