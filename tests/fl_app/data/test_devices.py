"""People's recordings divided among many small clients, and evaluation on a sample of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up_data import made_up

from fl_app.data import DataError, Evaluation, Partition, Rows, client_data, client_roles, client_rows


def devices(sizes: list[int], clients: int, **options: object) -> list[Rows]:
    source, partition = made_up(sizes), Partition("devices", clients=clients, **options)  # type: ignore[arg-type]
    return [client_rows(source, partition, client, clients) for client in range(clients)]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(24, 60), min_size=1, max_size=4),
    st.integers(1, 5),
    st.integers(1, 6),
    st.sampled_from(["random", "time"]),
)
def test_blocks_of_one_subject_stay_together_on_one_device(sizes: list[int], each: int, block: int, order: str) -> None:
    clients = each * len(sizes)
    parts = devices(sizes, clients, block=block, order=order)
    ids = np.concatenate([part.X[:, 0] for part in parts])
    assert sorted(ids.tolist()) == list(range(sum(sizes)))
    owner = np.empty(sum(sizes), dtype=int)
    for device, part in enumerate(parts):
        assert len(part)
        owner[part.X[:, 0].astype(int)] = device
    source, start = made_up(sizes), 0
    for number, name in enumerate(source.subjects()):
        rows = source.load(name)
        own = owner[start : start + len(rows)]
        assert set(own) == set(range(number * each, (number + 1) * each)), "whole devices are one subject's"
        if order == "time":
            assert (np.diff(own) >= 0).all()
        for recording in np.unique(rows.recording):
            at = np.flatnonzero(rows.recording == recording)
            blocks = own[at].copy()
            for first in range(0, len(blocks), block):
                assert len(set(blocks[first : first + block])) == 1
        start += len(rows)


def test_random_blocks_follow_the_seed() -> None:
    first, again, other = (devices([400], 20, block=4, seed=seed) for seed in (1, 1, 2))
    assert all(np.array_equal(a.X, b.X) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a.X, b.X) for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize(
    ("clients", "options", "words"),
    [(2, {}, "fewer than the 3 subjects"), (200, {"block": 40}, "smaller partition.block")],
)
def test_numbers_that_make_no_devices_are_refused(clients: int, options: dict[str, int], words: str) -> None:
    with pytest.raises(DataError, match=words):
        devices([100, 100, 100], clients, **options)


@pytest.mark.parametrize("sizes", [[60, 0], [0, 60], [0]])
def test_a_subject_without_rows_has_no_devices(sizes: list[int]) -> None:
    with pytest.raises(DataError, match="one subject's 0 blocks"):
        devices(sizes, 2 * len(sizes), block=5)


def test_people_that_nobody_trained_on_hold_all_of_their_devices_out() -> None:
    source = made_up([60, 60, 60, 60])
    partition, evaluation = Partition("devices", clients=10, block=5), Evaluation("subject", held_out=1)
    roles = client_roles(source, partition, evaluation, 10)
    assert sorted(set(roles)) == ["test", "train"]
    data = [client_data(source, partition, evaluation, client, 10) for client in range(10)]
    for role, each in zip(roles, data, strict=True):
        assert len(each.train if role == "train" else each.test)
        assert not len(each.test if role == "train" else each.train)
    tested = np.concatenate([each.test.X[:, 0] for each in data])
    assert len(tested) == 60
    assert tested.max() - tested.min() == 59


def test_a_recording_cannot_be_held_out_where_devices_share_it() -> None:
    with pytest.raises(DataError, match="would hold out what others train on"):
        client_roles(made_up([60]), Partition("devices", clients=3, block=5), Evaluation("recording"), 3)


def test_a_sample_of_clients_evaluates() -> None:
    some = Evaluation(clients=3, seed=1)
    assert some.sampled(list(range(100))) == some.sampled(list(range(100)))
    assert len(set(some.sampled(list(range(100))))) == 3
    assert some.sampled([4, 9]) == [4, 9]
    assert Evaluation().sampled([1, 2, 3]) == [1, 2, 3]
    with pytest.raises(DataError, match=r"evaluation\.clients"):
        Evaluation(clients=0)


def test_nobody_can_change_the_rows_that_clients_share() -> None:
    part = devices([60], 3, block=5)[1]
    with pytest.raises(ValueError, match="read-only"):
        part.X[0, 0] = 1
