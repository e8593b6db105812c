"""Which trees a user keeps."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from users import SCHEMA, rows

from strategies.pp_fprf import TreeSettings
from strategies.pp_fprf.alone import grow_alone
from strategies.pp_fprf.client import with_own_counts
from strategies.pp_fprf.selection import keep_greedily, keep_incrementally

Y = np.array([0, 1, 1])


def votes(*answers: list[int]) -> np.ndarray:
    return np.eye(2)[np.array(answers)]


def test_a_tree_is_kept_only_if_the_accuracy_rises() -> None:
    # By hand: the first is right on rows 1 and 3, with the second only row 1 is right, with the third all are.
    first, second, third = [[0.9, 0.1], [0.6, 0.4], [0.1, 0.9]], [[0.1, 0.9], [0.9, 0.1], [0.9, 0.1]], \
        [[0.2, 0.8], [0.3, 0.7], [0.5, 0.5]]  # fmt: skip
    assert keep_incrementally(np.array([first, second, third, third]), Y, ties=False) == [0, 2]
    assert keep_incrementally(votes([0, 0, 0], [0, 1, 1], [0, 1, 1]), Y, ties=False) == [0], "two votes tie for class 0"


def test_with_ties_a_tree_that_does_no_harm_is_kept_too() -> None:
    offered = votes([0, 1, 1], [0, 1, 1], [1, 0, 0], [0, 1, 1])
    assert keep_incrementally(offered, Y, ties=False) == [0]
    assert keep_incrementally(offered, Y, ties=True) == [0, 1, 2, 3]


def test_without_validation_rows_all_trees_are_kept() -> None:
    nothing = np.zeros((4, 0, 2))
    assert keep_incrementally(nothing, np.zeros(0, dtype=int), ties=False) == [0, 1, 2, 3]
    assert keep_greedily(nothing, np.zeros(0, dtype=int)) == [0, 1, 2, 3]


def test_if_no_tree_is_ever_right_all_are_kept() -> None:
    assert keep_incrementally(votes([1, 0, 0], [1, 0, 0]), Y, ties=False) == [0, 1]


@settings(deadline=None)
@given(
    hnp.arrays(np.int64, st.tuples(st.integers(1, 7), st.just(5)), elements=st.integers(0, 2)),
    hnp.arrays(np.int64, 5, elements=st.integers(0, 2)),
)
def test_the_greedy_set_is_no_worse_than_the_best_tree(answers: np.ndarray, y: np.ndarray) -> None:
    offered = np.eye(3)[answers]
    kept = keep_greedily(offered, y)
    reached = (offered[kept].sum(axis=0).argmax(axis=1) == y).mean()
    assert reached >= (offered.argmax(axis=2) == y).mean(axis=1).max()


def test_the_greedy_set_does_not_depend_on_the_order() -> None:
    rng = np.random.default_rng(0)
    offered, y = rng.dirichlet(np.ones(3), size=(12, 20)), rng.integers(0, 3, 20)
    order = rng.permutation(12)
    assert sorted(order[keep_greedily(offered[order], y)]) == keep_greedily(offered, y)


def test_own_counts_replace_what_a_leaf_says_as_they_become_many() -> None:
    X, y = rows(200)
    forest = grow_alone(X, (y + 1) % 3, SCHEMA, TreeSettings(trees=5, depth=6, features=2), 3, np.random.default_rng(0))
    personal = with_own_counts(forest, X, y, prior=0.5, hard=False)
    assert (forest.predict(X) == y).mean() < 0.1
    assert (personal.predict(X) == y).mean() > 0.9
    np.testing.assert_array_equal(personal.threshold, forest.threshold)
    nobody = with_own_counts(forest, X[:0], y[:0], prior=0.5, hard=False)
    np.testing.assert_allclose(nobody.value, forest.value)
