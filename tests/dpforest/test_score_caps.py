"""Scores of huge nodes: one record never moves one by more than the sensitivity, at and around every cap."""

import itertools
import math

import numpy as np
import pytest

from dpforest.growers import kernels
from dpforest.growers.regression import SCORE_SENSITIVITY
from dpforest.growers.regression_kernels import DIRECTION_UNIT, capped_norm, direction_scores
from strategies.pp_fprf.kernels import candidate_scores, norm_score

CAP = int(kernels.LARGEST_SQUARE_SUM**0.5)  # rows, about 11.9 million
# Around: roots in float64, the cap, twice the cap, whole squares in float64, and what 31 bits hold.
SIZES = [2**18, CAP - 1, CAP, CAP + 1, 12_000_000, 2 * CAP, 24_000_000, 2**26, 94_906_266, 2**30, 2**31 - 10]


def scores_of(left: tuple[int, int], right: tuple[int, int]) -> int:
    """Score of the one candidate of a node by the classifier's kernel, which is given counts only."""
    histogram = np.array([left, right], dtype=np.int32).T.reshape(2, 2, 1)
    scores = np.zeros((1, 1), dtype=np.int64)
    room = np.empty((2, 1, 1))
    kernels.add_scores(histogram, np.add(left, right).astype(np.int64), room[0], room[1], scores)
    return int(scores[0, 0])


def of_votes(left: tuple[int, int], right: tuple[int, int]) -> int:
    """The same by the kernel of trees that grow with others."""
    return int(norm_score(np.add(left, right).astype(np.int64), np.array(left, dtype=np.int64)))


@pytest.mark.parametrize("score", [scores_of, of_votes])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("share", [0.0, 1e-7, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("other", [0, 1, 1000])
def test_one_record_moves_the_score_of_a_class_by_its_sensitivity_at_most(score, size, share, other) -> None:
    a = int(share * size)
    node = (a, other), (size - a, 0)
    before = score(*node)
    assert before >= 0
    for side, label in itertools.product((0, 1), (0, 1)):
        more = [list(counts) for counts in node]
        more[side][label] += 1
        rise = score(tuple(more[0]), tuple(more[1])) - before
        assert 0 <= rise <= kernels.SCORE_UNIT, (node, side, label)


def test_both_kernels_agree_at_every_size() -> None:
    rng = np.random.default_rng(0)
    for size in SIZES:
        for _ in range(50):
            left, right = rng.multinomial(size, rng.dirichlet(np.full(4, 0.3))).reshape(2, 2).tolist()
            exact = of_votes(tuple(left), tuple(right))
            assert scores_of(tuple(left), tuple(right)) == exact
            norms = [min(n * n + m * m, kernels.LARGEST_SQUARE_SUM) << 16 for n, m in (left, right)]
            assert exact == sum(_root(norm) for norm in norms)


def _root(number: int) -> int:
    return math.isqrt(number)


@pytest.mark.parametrize("rows", [24_000_000, 11_800_000])
def test_a_record_of_another_class_in_a_huge_pure_node(rows: int) -> None:
    """The scores that are really asked for: counted from rows."""
    codes = np.zeros((rows + 1, 1), dtype=np.uint8)
    codes[: rows // 2] = 1
    y = np.zeros(rows + 1, dtype=np.uint8)
    group = np.zeros(1, dtype=np.int64)
    found = []
    for stop, label in ((rows, 0), (rows + 1, 0), (rows + 1, 1)):
        y[-1] = label
        starts = np.array([0, stop])
        by_counting = kernels.level_scores(codes[:stop], y[:stop], starts, group, 1, 2, 2)
        nothing = np.empty((0, 2, 2, 1), dtype=np.int32)
        by_difference, _ = kernels.level_scores_by_difference(codes[:stop], y[:stop], starts, nothing, group, 1)
        assert by_counting.tolist() == by_difference.tolist()
        found.append(int(by_counting[0, 0, 0]))
    for more in found[1:]:
        assert 0 <= more - found[0] <= kernels.SCORE_UNIT


def test_votes_of_a_huge_node() -> None:
    rows = 24_000_000
    X = np.zeros((rows + 1, 1), dtype=np.float32)
    X[: rows // 3] = 1
    y = np.zeros(rows + 1, dtype=np.int64)
    y[-1] = 1
    place = np.zeros((1, rows + 1), dtype=np.int32)
    common = (
        np.array([0, 1]),
        7,
        0,
        np.zeros(1, dtype=np.int64),
        np.ones(1, dtype=bool),
        np.full((1, 1), 0.5, np.float32),
    )
    scores = [int(candidate_scores(X[:n], y[:n], 2, place[:, :n], *common, False)[0, 0]) for n in (rows, rows + 1)]
    assert 0 <= scores[1] - scores[0] <= kernels.SCORE_UNIT


@pytest.mark.parametrize("rows", [1000, 4_194_304, 4_194_305, 9_000_000, 2**33])
def test_one_record_moves_the_score_of_a_target_by_its_sensitivity_at_most(rows: int) -> None:
    rng = np.random.default_rng(0)
    for angle in [0.0, np.pi / 4, *rng.uniform(0, np.pi, 20)]:
        whole = np.trunc(rows * DIRECTION_UNIT * np.array([np.cos(angle), np.sin(angle)])).astype(np.int64)
        for turn in [0.0, np.pi / 2, np.pi, *rng.uniform(0, np.pi, 20)]:
            x, y = np.trunc(DIRECTION_UNIT * np.array([np.cos(turn), np.sin(turn)])).astype(np.int64)
            rise = capped_norm(whole[0] + x, whole[1] + y) - capped_norm(whole[0], whole[1]) + DIRECTION_UNIT
            assert 0 <= rise <= SCORE_SENSITIVITY


def test_a_regression_of_more_rows_than_the_cap() -> None:
    rows = 4_194_310
    codes = np.zeros((rows, 1), dtype=np.uint8)
    directions = np.zeros((rows, 2), dtype=np.int32)
    directions[:, 0] = DIRECTION_UNIT
    group = np.zeros(1, dtype=np.int64)
    scores = [
        int(direction_scores(codes[:n], directions[:n], np.array([0, n]), group, 1, 2)[0, 0, 0])
        for n in range(4_194_302, rows)
    ]
    rises = np.diff(scores)
    assert ((rises >= 0) & (rises <= SCORE_SENSITIVITY)).all()
