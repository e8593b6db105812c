from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up_data import made_up

from fl_app.data import DataError, Partition, Rows, client_rows, client_schema
from fl_app.data.partition import group_subjects

KINDS = ["iid", "dirichlet", "quantity"]


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(KINDS),
    st.lists(st.integers(0, 30), min_size=1, max_size=5),
    st.integers(1, 9),
    st.floats(0.01, 100),
    st.integers(0, 5),
)
def test_random_kinds_are_disjoint_complete_and_repeatable(
    kind: str, sizes: list[int], clients: int, alpha: float, seed: int
) -> None:
    source, twin = made_up(sizes), made_up(sizes)
    partition = Partition(kind, clients=clients, alpha=alpha, seed=seed)
    parts = [client_rows(source, partition, client, clients) for client in range(clients)]
    ids = np.concatenate([part.X[:, 0] for part in parts])
    assert sorted(ids.tolist()) == list(range(sum(sizes)))
    for client, part in enumerate(parts):
        np.testing.assert_array_equal(part.X, client_rows(twin, partition, client, clients).X)
        for recording in np.unique(part.recording):
            assert np.all(np.diff(part.X[part.recording == recording, 0]) > 0), "time order inside a recording"


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 20), min_size=1, max_size=8), st.data())
def test_subjects_are_divided_whole(sizes: list[int], data: st.DataObject) -> None:
    source = made_up(sizes)
    clients = data.draw(st.integers(1, len(sizes)))
    parts = [client_rows(source, Partition(), client, clients) for client in range(clients)]
    assert sorted(np.concatenate([part.X[:, 0] for part in parts]).tolist()) == list(range(sum(sizes)))
    whole = {name: set(source.load(name).X[:, 0]) for name in source.subjects()}
    for part in parts:
        held = set(part.X[:, 0])
        assert all(rows <= held or not rows & held for rows in whole.values())
        pieces = sum(len(np.unique(source.load(name).recording)) for name, rows in whole.items() if rows <= held)
        assert len(np.unique(part.recording)) == pieces, "recordings of different subjects stay apart"


def test_one_client_a_subject_keeps_the_order() -> None:
    source = made_up([3, 4, 5])
    assert [len(client_rows(source, Partition(), client, 3)) for client in range(3)] == [3, 4, 5]
    assert Partition().count(source) == 3


def test_iid_shares_are_equal_and_quantity_shares_are_not() -> None:
    source = made_up([500, 500])
    even = [len(client_rows(source, Partition("iid", clients=4), client, 4)) for client in range(4)]
    skewed = [len(client_rows(source, Partition("quantity", clients=4, alpha=0.2), client, 4)) for client in range(4)]
    assert even == [250] * 4
    assert max(skewed) > 2 * min(skewed)


def test_small_alpha_gives_clients_few_classes() -> None:
    source = made_up([2000], n_classes=5)

    def largest_share(alpha: float) -> float:
        parts = [client_rows(source, Partition("dirichlet", clients=8, alpha=alpha), c, 8) for c in range(8)]
        return float(np.mean([np.bincount(part.y).max() / len(part) for part in parts if len(part)]))

    assert largest_share(0.05) > 0.7 > 0.35 > largest_share(1000)


def test_more_clients_than_subjects_says_how_many_to_use() -> None:
    source = made_up([5, 5])
    with pytest.raises(DataError, match=r"3 clients are more than the 2 subjects of made_up: use 2 clients"):
        client_rows(source, Partition(), 0, 3)
    with pytest.raises(DataError, match=r"use 2 clients"):
        Partition(clients=3).count(source)
    with pytest.raises(DataError, match=r"federation has 4 nodes.*makes 6 clients: start 6 nodes"):
        client_rows(source, Partition("iid", clients=6), 0, 4)
    with pytest.raises(DataError, match=r"client 2 must be a whole number, in 0 to 1"):
        client_rows(source, Partition(), 2, 2)


@pytest.mark.parametrize("partition", [Partition("dirichlet", clients=2), Partition("label_shares", shares=[0.2, 0.8])])
def test_skewed_classes_need_classes(partition: Partition) -> None:
    with pytest.raises(DataError, match="has none: use quantity or iid"):
        client_rows(made_up([9], n_classes=0), partition, 0, 2)


def test_label_shares_are_met_with_equal_sizes() -> None:
    source = made_up([1000])
    source.tables["s0"] = Rows(source.tables["s0"].X, (np.arange(1000) % 10 >= 7).astype(np.int64), np.zeros(1000, int))
    partition = Partition("label_shares", shares=[0.9, 0.8, 0.4])  # their mean is the share of the first class
    parts = [client_rows(source, partition, client, 3) for client in range(3)]
    assert sorted(np.concatenate([part.X[:, 0] for part in parts]).tolist()) == list(range(1000))
    assert [len(part) for part in parts] == pytest.approx([1000 / 3] * 3, abs=1)
    assert [np.mean(part.y == 0) for part in parts] == pytest.approx([0.9, 0.8, 0.4], abs=0.005)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=4), st.integers(1, 5), st.integers(1, 8))
def test_time_blocks_are_whole_recordings_in_order(sizes: list[int], recordings: int, clients: int) -> None:
    source = made_up(sizes, recordings=recordings)
    pieces = sum(len(np.unique(rows.recording)) for rows in source.tables.values())
    partition = Partition("time_blocks", clients=clients)
    if clients > pieces:
        with pytest.raises(DataError, match=f"blocks of {pieces} recordings: use {pieces} clients"):
            client_rows(source, partition, 0, clients)
        return
    parts = [client_rows(source, partition, client, clients) for client in range(clients)]
    assert np.concatenate([part.X[:, 0] for part in parts]).tolist() == list(range(sum(sizes)))
    assert all(len(part) for part in parts)
    assert sum(len(np.unique(part.recording)) for part in parts) == pieces, "no recording is divided"


def test_time_blocks_are_about_equal() -> None:
    source = made_up([1000], recordings=50)  # of 20 rows
    sizes = [len(client_rows(source, Partition("time_blocks", clients=7), client, 7)) for client in range(7)]
    assert all(abs(size - 1000 / 7) <= 20 for size in sizes)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"kind": "dirichet"}, "'dirichet' is unknown: did you mean 'dirichlet'"),
        ({"clients": 0}, "partition.clients 0"),
        ({"alpha": 0.0}, "partition.alpha 0.0 must be a finite number above 0"),
        ({"alpha": float("nan")}, "partition.alpha nan"),
        ({"seed": -1}, "partition.seed -1"),
        ({"kind": "label_shares"}, "kind label_shares needs one share a client"),
        ({"kind": "iid", "shares": [0.5]}, "no other kind has any"),
        ({"kind": "label_shares", "shares": 0.5}, "partition.shares 0.5 must be a list"),
        ({"kind": "label_shares", "shares": [0.5, 1.0]}, "partition.shares 1.0 must be a number between 0 and 1"),
        ({"kind": "label_shares", "shares": [0.5, 0.4], "clients": 3}, "partition.clients 3 differs .* give one share"),
    ],
)
def test_wrong_settings_are_named(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Partition(**wrong)


def test_public_rows_scale_with_the_number_of_clients() -> None:
    source = made_up([10, 10, 10, 10])  # the schema says 1000 rows a subject
    assert [client_schema(source, clients).rows for clients in (1, 4, 8)] == [4000, 1000, 500]


@settings(deadline=None)
@given(st.integers(2, 20), st.data())
def test_clients_never_mix_roles(n: int, data: st.DataObject) -> None:
    subjects = [f"s{i}" for i in range(n)]
    roles = {name: data.draw(st.sampled_from(["train", "test"])) for name in subjects}
    clients = data.draw(st.integers(len(set(roles.values())), n))
    groups = group_subjects(subjects, clients, roles)
    assert len(groups) == clients
    assert all(groups)
    assert sorted(name for group in groups for name in group) == sorted(subjects)
    assert all(len({roles[name] for name in group}) == 1 for group in groups)


def test_concat_keeps_recordings_apart() -> None:
    one = Rows(np.zeros((2, 1)), np.zeros(2), np.array([0, 3]))
    two = Rows(np.ones((2, 1)), np.ones(2), np.array([0, 0]))
    assert Rows.concat([one, two]).recording.tolist() == [0, 3, 4, 4]
