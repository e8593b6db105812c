"""Numba kernels against plain Python and NumPy."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpforest.growers import kernels
from dpforest.growers.candidates import GridCandidates
from dpforest.schema import Feature, Schema

UNIT = kernels.SCORE_UNIT


def score_by_hand(codes, y, b, n_classes):
    """Score of threshold ``b`` in one node and one feature, by Python's exact integers (module docstring of the
    grower: ``floor(unit * |left|) + floor(unit * |right|)`` with norms of class counts)."""
    total = 0
    for side in (codes <= b, codes > b):
        counts = [int(np.sum(y[side] == c)) for c in range(n_classes)]
        total += math.isqrt(UNIT**2 * sum(n * n for n in counts))
    return total


def a_level(rng, n_rows, n_nodes, n_features, n_bins, n_classes):
    codes = rng.integers(n_bins, size=(n_rows, n_features), dtype=np.uint8)
    y = rng.integers(n_classes, size=n_rows).astype(np.uint8)
    starts = np.sort(np.concatenate([[0, n_rows], rng.integers(n_rows + 1, size=n_nodes - 1)])).astype(np.int64)
    return codes, y, starts


@pytest.mark.parametrize("seed", range(8))
def test_scores_of_a_level_equal_exact_integers(seed):
    rng = np.random.default_rng(seed)
    n_nodes, n_groups = 4, int(rng.choice([1, 2, 4]))
    n_bins, n_classes = int(rng.integers(2, 6)), int(rng.integers(2, 5))
    codes, y, starts = a_level(rng, int(rng.integers(0, 60)), n_nodes, 3, n_bins, n_classes)
    y[: len(y) // 2] = 0  # some nodes hold one class only
    group = np.arange(n_nodes) * n_groups // n_nodes
    scores = kernels.level_scores(codes, y, starts, group, n_groups, n_classes, n_bins)
    expected = np.zeros((n_groups, 3, n_bins - 1), dtype=np.int64)
    for v in range(n_nodes):
        rows = slice(starts[v], starts[v + 1])
        for f in range(3):
            for b in range(n_bins - 1):
                expected[group[v], f, b] += score_by_hand(codes[rows, f], y[rows], b, n_classes)
    assert scores.tolist() == expected.tolist()


@settings(max_examples=200)
@given(st.data())
def test_one_row_raises_every_score_by_at_most_one_unit(data):
    """The sensitivity that the selection is given: no score falls, none rises by more than SCORE_UNIT."""
    n_classes, n_bins, n_nodes = data.draw(st.integers(2, 4)), data.draw(st.integers(2, 4)), 2
    row = st.tuples(*(st.integers(0, most - 1) for most in (n_nodes, n_bins, n_bins, n_classes)))
    rows = data.draw(st.lists(row, max_size=40))
    added = data.draw(row)

    def scores(rows):
        table = np.array(sorted(rows), dtype=np.int64).reshape(-1, 4)
        starts = np.searchsorted(table[:, 0], np.arange(n_nodes + 1)).astype(np.int64)
        codes, y = np.ascontiguousarray(table[:, 1:3]).astype(np.uint8), table[:, 3].astype(np.uint8)
        return kernels.level_scores(codes, y, starts, np.arange(n_nodes), n_nodes, n_classes, n_bins)

    rise = scores([*rows, added]) - scores(rows)
    assert rise.min() >= 0
    assert rise.max() <= UNIT
    assert not rise[1 - added[0]].any(), "a row counts in its own node only"


@pytest.mark.parametrize("n_rows", [262_143, 262_145, 400_000])
def test_scores_of_many_rows_are_exact_too(n_rows):
    """About 2 ** 18 rows the kernel turns from floating-point roots to integer roots."""
    y = np.zeros(n_rows, dtype=np.uint8)
    y[0] = 1  # both sides are next to whole numbers, where a root is easily rounded up
    codes = np.zeros((n_rows, 2), dtype=np.uint8)
    codes[: n_rows // 3, 0] = 1
    codes[1:, 1] = 1
    scores = kernels.level_scores(codes, y, np.array([0, n_rows]), np.array([0]), 1, 2, 2)
    assert scores[0, :, 0].tolist() == [score_by_hand(codes[:, f], y, 0, 2) for f in range(2)]


@given(st.integers(0, 11_000_000), st.integers(-2, 2))
def test_the_integer_root_is_the_floor(n, off):
    square_sum = max(0, n * n + off)
    assert kernels.scaled_norm(np.int64(square_sum)) == math.isqrt(UNIT**2 * square_sum)


@pytest.mark.parametrize("seed", range(4))
def test_scores_by_difference_are_the_same(seed):
    rng = np.random.default_rng(seed)
    n_classes, n_bins = 3, 5
    codes, y, starts = a_level(rng, 200, 1, 4, n_bins, n_classes)
    histograms = np.empty((0, n_classes, n_bins, 4), dtype=np.int32)
    for level in range(4):
        n_nodes = 1 << level
        n_groups = min(n_nodes, 2)
        group = np.arange(n_nodes) * n_groups // n_nodes
        scores, histograms = kernels.level_scores_by_difference(codes, y, starts, histograms, group, n_groups)
        plain = kernels.level_scores(codes, y, starts, group, n_groups, n_classes, n_bins)
        assert scores.tolist() == plain.tolist()
        feature, split = rng.integers(4, size=n_nodes), rng.integers(n_bins - 1, size=n_nodes)
        positions, starts = kernels.child_positions(codes, starts, feature, split)
        routed = np.empty_like(codes)
        kernels.route_rows(codes, positions, routed)
        codes, y = routed, kernels.route_labels(y, positions)


@pytest.mark.parametrize("seed", range(4))
def test_rows_are_sorted_into_children_as_by_numpy(seed):
    rng = np.random.default_rng(seed)
    codes, y, starts = a_level(rng, 150, 4, 3, 6, 4)
    feature, split = rng.integers(3, size=4), rng.integers(5, size=4)
    node = np.repeat(np.arange(4), np.diff(starts))
    child = 2 * node + (codes[np.arange(150), feature[node]] > split[node])
    order = np.argsort(child, kind="stable")
    positions, child_starts = kernels.child_positions(codes, starts, feature, split)
    routed = np.empty_like(codes)
    kernels.route_rows(codes, positions, routed)
    assert routed.tolist() == codes[order].tolist()
    assert kernels.route_labels(y, positions).tolist() == y[order].tolist()
    assert child_starts.tolist() == np.searchsorted(child[order], np.arange(9)).tolist()
    expected = [np.bincount(y[child == k], minlength=4).tolist() for k in range(8)]
    assert kernels.class_counts(y[order], child_starts, 4).tolist() == expected


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_thresholds", [1, 31, 254])
def test_codes_count_the_thresholds_below_a_cell(dtype, n_thresholds):
    rng = np.random.default_rng(n_thresholds)
    thresholds = np.sort(rng.normal(size=(3, n_thresholds)).astype(np.float32).astype(dtype), axis=1)
    X = rng.normal(size=(700, 3)).astype(dtype)
    X[:100] = thresholds[:, rng.integers(n_thresholds, size=100)].T  # a cell on a threshold goes left
    expected = np.stack([np.searchsorted(thresholds[f], X[:, f], side="left") for f in range(3)], axis=1)
    assert kernels.bin_rows(X, thresholds).tolist() == expected.tolist()


def test_codes_by_node_use_the_thresholds_of_its_group():
    rng = np.random.default_rng(0)
    thresholds = np.sort(rng.normal(size=(2, 3, 4)), axis=2)
    X = rng.normal(size=(50, 3))
    starts, group = np.array([0, 10, 10, 35, 50]), np.array([0, 0, 1, 1])
    expected = np.concatenate([kernels.bin_rows(X[:10], thresholds[0]), kernels.bin_rows(X[10:], thresholds[1])])
    assert kernels.bin_rows_by_node(X, starts, group, thresholds).tolist() == expected.tolist()


def test_the_grid_that_trees_share_is_the_schemas_and_stays_so():
    schema = Schema([Feature("a", 0, 1), Feature("b", -3, 1e30)], classes=("a", "b"))  # type: ignore[arg-type]
    first, second = (GridCandidates(np.zeros((1, 2), dtype=np.float32), schema, 5) for _ in range(2))
    here = np.zeros(2, dtype=int), np.array([0, 1]), np.array([2, 2])
    first.thresholds_of(*here)[:] = 0
    assert second.thresholds_of(*here).tolist() == [grid[2] for grid in schema.grid(5)]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("n_groups", [1, 2, 8])
def test_only_thresholds_that_cut_a_nodes_box_are_useful(seed, n_groups):
    """By brute force: useful is what sends some code vector of one of the group's nodes left and another right."""

    def cuts(inside):
        goes_left = inside[:, :, None] <= np.arange(bins - 1)
        return goes_left.any(axis=0) & ~goes_left.all(axis=0)

    rng = np.random.default_rng(seed)
    bins, n_features = 4, 3
    schema = Schema(tuple(Feature(f"f{f}", 0, 1) for f in range(n_features)), classes=("a", "b"))
    every_code = np.indices((bins,) * n_features).reshape(n_features, -1).T
    candidates = GridCandidates((every_code + 0.5) / bins, schema, bins)
    codes = candidates.codes(np.array([0, len(every_code)]), np.array([0]), 1).copy()
    starts = np.array([0, len(codes)], dtype=np.int64)
    for level in range(3):
        # Random splits that cut their nodes, as a grower chooses them while there are any.
        chosen = [rng.choice(np.argwhere(cuts(codes[starts[v] : starts[v + 1]]))) for v in range(1 << level)]
        feature, split = np.array(chosen).T
        positions, starts = kernels.child_positions(codes, starts, feature, split)
        candidates.route(positions, feature, split)
        codes = candidates.codes(starts, np.zeros(len(starts) - 1, dtype=np.int64), 1).copy()
    expected = np.zeros((n_groups, n_features, bins - 1), dtype=bool)
    for v in range(8):
        expected[v * n_groups // 8] |= cuts(codes[starts[v] : starts[v + 1]])
    assert candidates.useful(n_groups).tolist() == expected.tolist()
