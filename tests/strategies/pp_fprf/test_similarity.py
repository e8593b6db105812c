"""Who is similar to whom."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from users import SCHEMA

from dpforest.errors import DPForestError
from dpforest.schema import Feature, Schema
from strategies.pp_fprf import PersonalSettings
from strategies.pp_fprf.similarity import (
    choose_similar,
    hash_rows,
    histograms,
    similarity_of_hashes,
    similarity_of_histograms,
)


def test_hashes_are_those_of_the_definition() -> None:
    """Datar et al. 2004: floor((a . v + b) / r), with a and b drawn again here."""
    schema = Schema((Feature("a", -10, 30), Feature("b", 0, 4, scale="signed_sqrt")), classes=("u", "v"))
    X = np.array([[10.0, 1.0], [30.0, 4.0]])
    unit = np.array([[0.5, 0.5], [1.0, 1.0]])  # (10 + 10) / 40; sqrt(1 / 4)
    rng = np.random.default_rng(9)
    a, b = rng.standard_normal((2, 3)), rng.uniform(0, 0.5, 3)
    expected = np.floor(((unit - 0.5) @ a + b) / 0.5)
    np.testing.assert_array_equal(hash_rows(X, schema, PersonalSettings(functions=3, window=0.5), 9), expected)


def test_equal_rows_have_equal_hashes_and_distant_rows_hardly_any() -> None:
    options = PersonalSettings(functions=200, window=0.1)
    hashes = hash_rows(np.array([[0.2, 0.2], [0.2, 0.2], [0.21, 0.2], [0.9, 0.9]]), SCHEMA, options, 1)
    same = (hashes[0] == hashes).mean(axis=1)
    assert same[1] == 1
    assert same[2] > 0.8 > 0.2 > same[3]


@settings(deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 4), st.integers(0, 100))
def test_similarity_is_the_share_of_the_others_rows(n: int, m: int, functions: int, seed: int) -> None:
    """Against a plain loop over pairs of rows."""
    rng = np.random.default_rng(seed)
    own, other = (rng.integers(0, 3, (size, functions)).astype(np.int32) for size in (n, m))
    expected = np.mean([max((row == mine).sum() for mine in own) >= np.ceil(0.6 * functions) for row in other])
    assert similarity_of_hashes({0: own, 1: other}, 0.6)[0, 1] == pytest.approx(expected)


def test_histograms_count_every_row_once_a_function() -> None:
    hashes = np.array([[-100, 0], [3, 1], [100, 1]])
    np.testing.assert_array_equal(histograms(hashes, 4), [[1, 0, 0, 2], [0, 0, 1, 2]])


def test_overlap_of_histograms_is_one_for_the_same_and_zero_for_disjoint() -> None:
    a, b = np.array([[4, 0, 4], [2, 6, 0]]), np.array([[0, 9, -3], [0, 0, 1]])
    found = similarity_of_histograms({0: a, 1: a * 2, 2: b})
    assert found[0, 1] == pytest.approx(1)
    assert found[0, 2] == 0


def test_the_most_similar_users_are_chosen_in_order() -> None:
    similarity = {(0, 1): 0.2, (0, 2): 0.9, (1, 0): 0.5, (1, 2): 0.5, (2, 0): 0.1, (2, 1): 0.3}
    assert choose_similar(similarity, [0, 1, 2], 2, None) == {0: [2, 1], 1: [0, 2], 2: [1, 0]}
    assert choose_similar(similarity, [0, 1, 2], 1, None) == {0: [2], 1: [0], 2: [1]}


@settings(deadline=None)
@given(st.integers(2, 9), st.integers(1, 8), st.integers(1, 6), st.integers(0, 1000))
def test_nobody_grows_with_more_masters_than_the_plan_says(users: int, k: int, most: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    similarity = {(i, j): rng.random() for i in range(users) for j in range(users) if i != j}
    chosen = choose_similar(similarity, list(range(users)), k, most)
    taken = [1 + sum(user in others for others in chosen.values()) for user in range(users)]
    assert max(taken) <= most
    assert all(len(set(others)) == len(others) <= k and i not in others for i, others in chosen.items())


def test_two_masters_may_choose_each_other() -> None:
    similarity = {(0, 1): 0.9, (1, 0): 0.9, (0, 2): 0.1, (2, 0): 0.1, (1, 2): 0.1, (2, 1): 0.1}
    chosen = choose_similar(similarity, [0, 1, 2], 1, None)
    assert (chosen[0], chosen[1]) == ([1], [0])


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("functions", 0, "functions 0 must be a whole number from 1"),
        ("k", 0, "k 0 must be a whole number from 1"),
        ("window", 0, "window 0 must be a number between 0"),
        ("sessions", 0, "sessions 0 must be a whole number from 1"),
        ("buckets", 1, "buckets 1 must be a whole number from 2"),
        ("select", "best", "select 'best' must be one of incremental"),
        ("vote_share", 0.95, "leave nothing for the leaves"),
        ("comparison_methods", ["one_shot"], "comparison_methods 'one_shot' must be one of lrf, pp_fgrf"),
        ("prior", -1, "prior -1 must be a number from 0"),
    ],
)
def test_bad_settings_are_refused_in_words(option: str, value: object, words: str) -> None:
    with pytest.raises(DPForestError, match=words):
        PersonalSettings(**{option: value})
