"""Regression trees: scores with their proven sensitivity, leaves, neighbours, and the published splits."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from dpforest.audit import HalvedNoise, certain_loss
from dpforest.errors import BudgetExceeded, DPForestError
from dpforest.forest import Limits, validate
from dpforest.growers.own_values import grow_with_own_values
from dpforest.growers.regression import (
    SCORE_SENSITIVITY,
    TARGET_UNIT,
    RegressionSettings,
    grow_regressor,
    planned_regression_entries,
    resolve_regression,
)
from dpforest.growers.regression_kernels import DIRECTION_UNIT, direction_scores, sums_by_node
from dpforest.ledger import Budget, Ledger
from dpforest.noise import Noise, Seeded
from dpforest.schema import Feature, Schema

ONE = Schema((Feature("a", 0, 1),), target_range=(0.0, 100.0))
TWO = Schema((Feature("a", 0, 1), Feature("b", 0, 1)), target_range=(0.0, 100.0))


def directions_of(share):
    angle = np.pi * np.asarray(share)
    return np.trunc(DIRECTION_UNIT * np.stack([np.cos(angle), np.sin(angle)], axis=1)).astype(np.int32)


def scores_of(codes, directions):
    starts = np.array([0, len(codes)], dtype=np.int64)
    return direction_scores(codes, directions, starts, np.zeros(1, dtype=np.int64), 1, 4)[0]


def grow(X, y, schema, settings, epsilon, noise, budget=None):
    ledger = Ledger(Budget(budget or epsilon))
    resolved = resolve_regression(settings, epsilon, 100, schema)
    return grow_regressor(X, y, schema, resolved, epsilon, ledger, noise), ledger


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.floats(0, 1)), max_size=30),
    st.tuples(st.integers(0, 3), st.integers(0, 3), st.floats(0, 1)),
)
def test_one_row_more_raises_every_score_by_at_most_the_sensitivity(rows, more):
    def scores(rows):
        codes = np.array([row[:2] for row in rows], dtype=np.uint8).reshape(-1, 2)
        return scores_of(codes, directions_of([row[2] for row in rows]).reshape(-1, 2))

    rise = scores([*rows, more]) - scores(rows)
    assert rise.min() >= 0
    assert rise.max() <= SCORE_SENSITIVITY


def test_the_whole_sensitivity_is_reached():
    # The new row points away from all others in one child and is alone in the other.
    codes = np.array([[0, 0]] * 4, dtype=np.uint8)
    directions = np.array([[DIRECTION_UNIT, 0]] * 4, dtype=np.int32)
    more_codes = np.vstack([codes, [[3, 0]]]).astype(np.uint8)
    more_directions = np.vstack([directions, [[-DIRECTION_UNIT, 0]]]).astype(np.int32)
    rise = scores_of(more_codes, more_directions) - scores_of(codes, directions)
    assert rise.max() == SCORE_SENSITIVITY
    assert rise.min() == 0


def test_scores_against_plain_arithmetic():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 4, size=(50, 3)).astype(np.uint8)
    directions = directions_of(rng.uniform(size=50))
    for f in range(3):
        for b in range(3):
            left = codes[:, f] <= b
            norms = [math.isqrt(int((directions[side].astype(int).sum(axis=0) ** 2).sum())) for side in (left, ~left)]
            assert scores_of(codes, directions)[f, b] == sum(norms) + 50 * DIRECTION_UNIT


def test_sums_by_node():
    values = np.array([[1], [2], [3], [4]], dtype=np.int32)
    np.testing.assert_array_equal(sums_by_node(values, np.array([0, 1, 1, 4])), [[1], [0], [9]])


def test_without_noise_a_tree_finds_the_step_and_its_means():
    X = np.linspace(0, 1, 400)[:, None]
    y = np.where(X[:, 0] > 0.5, 80.0, 20.0)
    settings = RegressionSettings(depth=1, bins=4, shared_below=None)
    forest, _ = grow(X, y, ONE, settings, math.inf, Seeded(0))
    assert forest.threshold[0] == 0.5
    np.testing.assert_allclose(forest.value[1:, 0], [20, 80], atol=1)  # drawn a little to their parent
    np.testing.assert_allclose(forest.weight, [400, 200, 200])


def test_a_client_without_rows_sends_a_tree_too():
    forest, ledger = grow(np.empty((0, 2)), np.empty(0), TWO, RegressionSettings(), 1.0, Seeded(0))
    validate(forest)
    assert ledger.guarantee().epsilon == pytest.approx(1.0)


@pytest.mark.parametrize("tree_rows", ["split_budget", "disjoint"])
def test_the_ledger_has_what_was_planned(tree_rows):
    settings = RegressionSettings(depth=3, trees=2, tree_rows=tree_rows)
    resolved = resolve_regression(settings, 2.0, 100, TWO)
    _, ledger = grow(np.zeros((10, 2)), np.zeros(10), TWO, settings, 2.0, Seeded(0))
    assert list(ledger.entries) == planned_regression_entries(resolved, 2.0, TWO)
    assert ledger.guarantee().epsilon == pytest.approx(2.0)


def test_a_plan_above_the_budget_is_refused_before_a_row_is_read():
    with pytest.raises(BudgetExceeded):
        grow(None, None, TWO, RegressionSettings(), 2.0, Seeded(0), budget=1.0)


def test_a_target_that_is_no_number_is_refused():
    with pytest.raises(DPForestError, match="no finite number"):
        grow(np.zeros((1, 2)), np.array([np.nan]), TWO, RegressionSettings(), 1.0, Seeded(0))


def test_leaves_with_few_records_follow_their_parent():
    # 500 rows of 60 on the left of 0.5; one row of 0 alone in (0.5, 1].
    X = np.append(np.full(500, 0.25), 0.9)[:, None]
    y = np.append(np.full(500, 60.0), 0.0)
    settings = RegressionSettings(depth=1, bins=2, shared_below=None, leaf_share=0.5)
    means = [grow(X, y, ONE, settings, 2.0, Seeded(seed))[0].value[2, 0] for seed in range(200)]
    assert np.median(means) > 45, "one record drowns in the noise, so its leaf stays near the mean of all"


DRAWS = 2000


@pytest.mark.parametrize("selection", ["permute_and_flip", "exponential"])
def test_one_row_more_changes_a_tree_no_more_than_epsilon(selection):
    """The added row is alone in a child of "a" and joins eight opposite ones under "b": the worst case of the score."""
    settings = RegressionSettings(selection=selection, depth=1, bins=2, shared_below=None, leaf_share=0.2)
    X = np.zeros((9, 2))
    X[8] = 1, 0
    y = np.array([0.0] * 8 + [100.0])

    def cells(X, y, noise):
        out = np.empty(DRAWS, dtype=np.int64)
        for draw in range(DRAWS):
            tree, ledger = grow(X, y, TWO, settings, 1.0, noise)
            assert ledger.guarantee().epsilon == pytest.approx(1.0)
            out[draw] = tree.feature[0] * 4 + (tree.value[1:, 0] > 40).astype(int) @ [2, 1]
        return out

    def loss(noise_of):
        return certain_loss(cells(X[:8], y[:8], noise_of(Seeded(1))), cells(X, y, noise_of(Seeded(2))), 8)

    assert loss(lambda noise: noise) <= 1.0
    if selection == "permute_and_flip":
        # Between two candidates the exponential mechanism spends half of its epsilon, so the mutant stays below 1.
        assert loss(HalvedNoise) > 1.0


class Counting(Noise):
    """No noise at all; remembers the scale that was asked for."""

    def discrete_laplace(self, scale, shape):
        self.scale = scale
        return np.zeros(shape, dtype=np.int64)

    def discrete_laplace_share(self, scale, shares, shape):
        raise AssertionError

    def discrete_gaussian(self, sigma, shape):
        raise AssertionError

    def permute_and_flip(self, scores, scale):
        return np.argmax(scores, axis=1)

    def exponential_mechanism(self, scores, scale):
        return np.argmax(scores, axis=1)

    def bernoulli(self, probability, size):
        raise AssertionError

    def sample(self, population, size):
        raise AssertionError

    def generator(self):
        return np.random.default_rng(0)


def test_a_record_is_one_unit_of_the_leaves_and_their_noise_is_that_unit_over_epsilon():
    noise = Counting()
    settings = RegressionSettings(depth=1, bins=2, shared_below=None, leaf_share=0.5)
    X = np.array([[0.2], [0.3], [0.9]])
    forest, _ = grow(X, np.array([0.0, 37.0, 100.0]), ONE, settings, 2.0, noise)
    # The sums of targets and complements add up to the records: each adds TARGET_UNIT in L1 norm, whatever its target.
    np.testing.assert_allclose(forest.weight, [3, 2, 1])
    assert noise.scale == TARGET_UNIT / 1.0


# --- the published splits ---


def test_the_greedy_published_tree_is_scikit_learns():
    rng = np.random.default_rng(3)
    X = rng.uniform(size=(300, 2)).astype(np.float32)
    y = 50 + 30 * np.sin(6 * X[:, 0]) + 10 * X[:, 1]
    own = grow_with_own_values(X, y, TWO, math.inf, rng, depth=4)
    theirs = DecisionTreeRegressor(max_depth=4, random_state=0).fit(X, y)
    np.testing.assert_allclose(own.predict(X), theirs.predict(X), rtol=1e-6)
    labels = (y > 50).astype(int) + (y > 70)
    schema = Schema(TWO.features, classes=("u", "v", "w"))
    own = grow_with_own_values(X, labels, schema, math.inf, rng, depth=3)
    theirs = DecisionTreeClassifier(max_depth=3, criterion="entropy", random_state=0).fit(X, labels)
    np.testing.assert_allclose(own.predict_proba(X), theirs.predict_proba(X), atol=1e-6)


def test_a_published_tree_prints_records():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(60, 2)).astype(np.float32)
    y = rng.uniform(0, 100, size=60)
    forest = validate(grow_with_own_values(X, y, TWO, 1.0, rng), Limits(depth=40))
    inner = ~forest.is_leaf
    for feature, threshold in zip(forest.feature[inner], forest.threshold[inner], strict=True):
        assert threshold in X[:, feature]
    np.testing.assert_allclose(np.sort(forest.value[forest.is_leaf, 0]), np.sort(y))
    np.testing.assert_allclose(forest.predict(X), y)


def test_the_printed_sign_prefers_the_worst_split():
    X = np.linspace(0, 1, 200)[:, None].astype(np.float32)
    y = np.where(X[:, 0] > 0.5, 90.0, 10.0)
    rng = np.random.default_rng(0)
    mended = grow_with_own_values(X, y, ONE, 1.0, rng, depth=1)
    printed = grow_with_own_values(X, y, ONE, 1.0, rng, depth=1, sign_as_printed=True)
    assert abs(mended.threshold[0] - 0.5) < 0.01
    assert min(printed.threshold[0], 1 - printed.threshold[0]) < 0.05


def test_with_next_to_no_epsilon_the_published_split_is_random():
    X = np.linspace(0, 1, 101)[:, None].astype(np.float32)
    y = np.where(X[:, 0] > 0.5, 90.0, 10.0)
    rng = np.random.default_rng(0)
    drawn = [grow_with_own_values(X, y, ONE, 1e-9, rng, depth=1).threshold[0] for _ in range(400)]
    counts = np.histogram(drawn, bins=4, range=(0, 1))[0]
    assert counts.min() > 60, "400 uniform draws: 100 a quarter, standard deviation 9"


def test_a_published_tree_of_a_constant_target_is_one_leaf():
    forest = grow_with_own_values(np.zeros((5, 1)), np.full(5, 3.0), ONE, 1.0, np.random.default_rng(0))
    assert forest.n_nodes == 1
    assert forest.value[0, 0] == 3.0
