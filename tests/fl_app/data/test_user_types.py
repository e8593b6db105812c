"""Users of types A, B and C (Liu et al. 2022, section 5.1)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up_data import made_up

from fl_app.data import DataError, Evaluation, Partition, client_data, client_rows, user_type

ROW = Evaluation()


def test_a_third_of_the_users_has_each_type() -> None:
    for clients in (3, 30, 50):
        types = [user_type(Partition("user_types", seed=2), client, clients) for client in range(clients)]
        assert max(types.count(kind) for kind in "ABC") - min(types.count(kind) for kind in "ABC") <= 1
    orders = {tuple(user_type(Partition("user_types", seed=seed), c, 6) for c in range(6)) for seed in range(9)}
    assert len(orders) > 1


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 60), min_size=3, max_size=7), st.floats(0.05, 1), st.floats(0.1, 1), st.integers(0, 9))
def test_a_keeps_all_b_a_sample_and_c_some_classes(sizes: list[int], share: float, kept: float, seed: int) -> None:
    source = made_up(sizes)
    partition = Partition("user_types", share=share, class_share=kept, seed=seed)
    for client, subject in enumerate(source.subjects()):
        whole, mine = source.load(subject), client_rows(source, partition, client, len(sizes))
        assert set(mine.X[:, 0]) <= set(whole.X[:, 0])
        kind = user_type(partition, client, len(sizes))
        if kind == "A":
            assert len(mine) == len(whole)
        elif kind == "B":
            assert len(mine) == max(1, round(share * len(whole)))
        else:
            classes = np.unique(mine.y)
            assert len(classes) == max(1, round(kept * len(np.unique(whole.y))))
            assert len(mine) == np.isin(whole.y, classes).sum(), "all rows of the classes that are left"


def test_users_are_evaluated_by_rows_like_their_own_or_by_all_they_have() -> None:
    source = made_up([300] * 6)
    for whole_test in (False, True):
        partition = Partition("user_types", class_share=0.34, share=0.1, whole_test=whole_test)
        for client in range(6):
            data = client_data(source, partition, ROW, client, 6)
            kind = user_type(partition, client, 6)
            assert not set(data.train.X[:, 0]) & set(data.test.X[:, 0])
            assert len(np.unique(data.train.y)) == (1 if kind == "C" else 3)
            assert len(np.unique(data.test.y)) == (1 if kind == "C" and not whole_test else 3)
            if kind == "A" or whole_test:
                assert len(data.test) == 60
            assert len(data.train) == {"A": 240, "B": 24}.get(kind, len(data.train))


@pytest.mark.parametrize(
    ("option", "value"), [("share", 0), ("share", 1.2), ("class_share", 0), ("class_share", True), ("whole_test", 1)]
)
def test_bad_shares_are_refused(option: str, value: object) -> None:
    with pytest.raises(DataError, match=f"partition.{option} {value}"):
        Partition("user_types", **{option: value})


def test_more_users_than_subjects_are_refused() -> None:
    with pytest.raises(DataError, match="4 clients are more than the 3 subjects"):
        client_rows(made_up([5, 5, 5]), Partition("user_types", clients=4), 0, 4)


def test_subjects_cannot_be_held_out_whole() -> None:
    with pytest.raises(DataError, match="partition=user_types spreads each subject"):
        client_data(made_up([9] * 6), Partition("user_types"), Evaluation(split="subject"), 0, 6)
