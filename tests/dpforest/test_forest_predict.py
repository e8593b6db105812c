"""Prediction, joining, importances."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up_forests import REGRESSION, SCHEMA, forests, leaf_by_hand, made_up_forest

from dpforest.errors import InvalidForest
from dpforest.forest import Forest, concatenate, feature_importances
from dpforest.forest.codec import fill_inner_nodes
from dpforest.schema import Feature, Schema


def rows_for(forest, dtype=np.float64, n=300):
    X = np.random.default_rng(5).uniform(-2, 6, size=(n, 3)).astype(dtype)
    thresholds = forest.threshold[~forest.is_leaf]
    if len(thresholds):  # rows exactly on a threshold go left
        X[:20] = np.resize(thresholds, (20, 3))
    return X


def leaf_values_by_hand(forest, X):
    """Leaf values of every row in every tree, shape (n_rows, n_trees, n_outputs)."""
    return np.array([[forest.value[leaf_by_hand(forest, t, x)] for t in range(forest.n_trees)] for x in X])


@settings(max_examples=25)
@given(forests("probability"), st.sampled_from([np.float32, np.float64]))
def test_rows_reach_the_leaves_of_a_plain_walk(forest, dtype):
    X = rows_for(forest, dtype)
    expected = [[leaf_by_hand(forest, t, x) for t in range(forest.n_trees)] for x in X]
    assert forest.apply(X).tolist() == expected
    probability = leaf_values_by_hand(forest, X).mean(axis=1)
    np.testing.assert_allclose(forest.predict_proba(X), probability, atol=1e-12)
    assert forest.predict(X).tolist() == np.argmax(forest.predict_proba(X), axis=1).tolist()


def test_other_kinds_of_leaves():
    X = rows_for(made_up_forest(0))
    logit = made_up_forest(1, output="logit")
    scores = np.exp(leaf_values_by_hand(logit, X).sum(axis=1))
    np.testing.assert_allclose(logit.predict_proba(X), scores / scores.sum(axis=1, keepdims=True))
    target = made_up_forest(2, output="target")
    np.testing.assert_allclose(target.predict(X), leaf_values_by_hand(target, X).mean(axis=1)[:, 0])
    total = made_up_forest(3, output="target_sum")
    by_hand = np.clip(10.0 + leaf_values_by_hand(total, X).sum(axis=1)[:, 0], 5.0, 25.0)
    np.testing.assert_allclose(total.predict(X), by_hand)


@pytest.mark.parametrize("output", ["counts", "target"])
def test_no_class_probabilities_from_counts_or_targets(output):
    with pytest.raises(InvalidForest, match=f"a forest of '{output}' has no class probabilities"):
        made_up_forest(0, output=output).predict_proba(np.zeros((1, 3)))


@pytest.mark.parametrize("shape", [(4, 2), (4,), (0, 4)])
def test_rows_of_another_width_are_refused(shape):
    with pytest.raises(InvalidForest, match="the forest asks 3 features"):
        made_up_forest(0).predict(np.zeros(shape))


def test_rows_of_any_layout_and_type():
    forest = made_up_forest(4)
    X = np.random.default_rng(0).integers(-2, 6, size=(40, 3))
    expected = forest.predict_proba(X.astype(np.float64))
    assert (forest.predict_proba(X) == expected).all()
    assert (forest.predict_proba(np.asfortranarray(X.astype(np.float64))) == expected).all()
    assert forest.predict_proba(X[:0]).shape == (0, 3)


def test_joined_forests_predict_as_their_trees_apart():
    one, two = made_up_forest(0, n_trees=2), made_up_forest(1, n_trees=3).with_owner("watch")
    joined = concatenate([one, two])
    X = rows_for(one)
    assert joined.owners == ("client 0", "client 1", "watch", "watch", "watch")
    np.testing.assert_allclose(joined.predict_proba(X), (2 * one.predict_proba(X) + 3 * two.predict_proba(X)) / 5)
    for index in range(5):
        part = (one, two)[index > 1].tree(index if index < 2 else index - 2)
        assert (joined.tree(index).predict_proba(X) == part.predict_proba(X)).all()
        assert joined.tree(index).left.tolist() == part.left.tolist()


@pytest.mark.parametrize(
    "other",
    [
        made_up_forest(0, output="logit"),
        replace(made_up_forest(0), schema=replace(SCHEMA, classes=("walk", "rest", "run"))),
        replace(made_up_forest(0), schema=Schema(tuple(Feature(n, 0, 1) for n in "xyz"), classes=SCHEMA.classes)),
    ],
)
def test_forests_that_mean_something_else_are_not_joined(other):
    with pytest.raises(InvalidForest, match="only forests over the same features and classes"):
        concatenate([made_up_forest(0), other])


def test_forests_with_other_rules_for_missing_cells_are_not_joined():
    features = tuple(replace(feature, missing="branch") for feature in SCHEMA.features)
    other = replace(made_up_forest(0), schema=replace(SCHEMA, features=features))
    with pytest.raises(InvalidForest, match=r"has missing: refuse in the schema of one forest and missing: branch in"):
        concatenate([made_up_forest(0), other])


def test_nothing_is_not_joined():
    with pytest.raises(InvalidForest, match="no forest"):
        concatenate([])


@given(forests("counts"))
def test_depths_and_sums_of_inner_nodes(forest):
    for node in np.flatnonzero(~forest.is_leaf):
        children = [forest.left[node], forest.left[node] + 1]
        assert (forest.depths[children] == forest.depths[node] + 1).all()
        assert (forest.value[node] == forest.value[children].sum(axis=0)).all()
    assert not forest.depths[forest.offsets[:-1]].any()


def tree_of_two_splits(values, weights, schema, output):
    forest = Forest(
        schema=schema,
        output=output,
        offsets=np.array([0, 5]),
        feature=np.array([0, -1, 2, -1, -1], dtype=np.int32),
        threshold=np.array([0.0, 0, 1.0, 0, 0]),
        left=np.array([1, -1, 3, -1, -1], dtype=np.int32),
        value=np.array(values, dtype=np.float64),
        weight=np.array(weights, dtype=np.float64),
        base=np.zeros(schema.n_outputs),
        owners=("",),
    )
    fill_inner_nodes(forest)
    return forest


def test_importances_by_hand():
    """Ten rows of class 0 left; right, under feature c, ten of class 1 and twenty that are half 1, half 2.

    Node 2 is (0, 2/3, 1/3): Gini * weight = 30 (1 - 5/9) = 40/3; its children have 0 and 20 / 2 = 10: gain 10/3.
    The root is (1/4, 1/2, 1/4): 40 (1 - 3/8) = 25; its children have 0 and 40/3: gain 35/3. So 35/45 and 10/45.
    """
    values = [[0, 0, 0], [1, 0, 0], [0, 0, 0], [0, 1, 0], [0, 0.5, 0.5]]
    forest = tree_of_two_splits(values, [0, 10, 0, 10, 20], SCHEMA, "probability")
    np.testing.assert_allclose(forest.value[0], [0.25, 0.5, 0.25])
    np.testing.assert_allclose(feature_importances(forest), [7 / 9, 0, 2 / 9], atol=1e-8)


def test_importances_of_targets_are_shares_of_the_explained_variance():
    """Targets 6 (10 rows), 10 (10 rows) and 16 (20 rows).

    Node 2: mean 14, 10 * 16 + 20 * 4 = 240 explained by c. Root: mean 12, 10 * 36 + 30 * 4 = 480 explained by a.
    """
    forest = tree_of_two_splits([[0], [6], [0], [10], [16]], [0, 10, 0, 10, 20], REGRESSION, "target")
    np.testing.assert_allclose(feature_importances(forest), [480 / 720, 0, 240 / 720], atol=1e-8)


def test_a_stump_without_splits_has_no_importances():
    assert feature_importances(made_up_forest(0, max_splits=0)).tolist() == [0, 0, 0]
