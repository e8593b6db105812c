"""Rows declared public, and clients whose rows overlap."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from made_up_data import made_up

from fl_app.data import DataError, Evaluation, Partition, client_data, public_rows
from fl_app.data.split import subject_roles


def ids(rows: Any) -> set[int]:
    return set(rows.X[:, 0].astype(int).tolist())


@pytest.mark.parametrize("n_classes", [0, 3])
@pytest.mark.parametrize(
    ("split", "partition"),
    [
        ("row", Partition("subject")),
        ("row", Partition("iid", clients=5)),
        ("row", Partition("overlap", clients=5, share=0.4)),
        ("recording", Partition("subject")),
    ],
)
def test_public_rows_train_nobody_evaluate_nobody_and_are_the_same_for_tuning(
    split: Any, partition: Partition, n_classes: int
) -> None:
    source = made_up([200] * 5, n_classes, recordings=20)
    found = {}
    for part in ("test", "validation"):
        evaluation = Evaluation(split, part, public_share=0.25)
        clients = [client_data(source, partition, evaluation, c, 5) for c in range(5)]
        public = public_rows(source, partition, evaluation, 5)
        found[part] = ids(public)
        assert 0 < len(found[part]) == len(public)
        for client in clients:
            assert not found[part] & (ids(client.train) | ids(client.test))
            assert not ids(client.train) & ids(client.test)
    assert found["test"] == found["validation"]
    everything = Evaluation(split)
    whole = set().union(*(ids(client_data(source, partition, everything, c, 5).test) for c in range(5)))
    evaluated = Evaluation(split, public_share=0.25)
    now = set().union(*(ids(client_data(source, partition, evaluated, c, 5).test) for c in range(5)))
    assert now | found["test"] == whole, "public rows are taken out of the test rows"
    assert len(found["test"]) == pytest.approx(0.25 * len(whole), rel=0.25)


@pytest.mark.parametrize("part", ["test", "validation"])
def test_under_a_subject_split_public_rows_are_of_the_test_subjects(part: Any) -> None:
    source = made_up([50] * 12)
    evaluation = Evaluation("subject", part, public_share=0.2)
    roles = subject_roles(source.subjects(), Evaluation("subject"))
    public = ids(public_rows(source, Partition(), evaluation, 12))
    of_test = {i for s, (name, role) in enumerate(roles.items()) if role == "test" for i in range(50 * s, 50 * s + 50)}
    assert len(public) == 20
    assert public < of_test
    for c in range(12):
        data = client_data(source, Partition(), evaluation, c, 12)
        assert not public & (ids(data.train) | ids(data.test))


def test_without_a_public_share_nothing_changes() -> None:
    source = made_up([100] * 3)
    assert len(public_rows(source, Partition(), Evaluation(), 3)) == 0


@pytest.mark.parametrize("share", [-0.1, 1.0, "half", True])
def test_a_bad_public_share_is_refused(share: Any) -> None:
    with pytest.raises(DataError, match="public_share"):
        Evaluation(public_share=share)


def test_overlapping_clients_draw_the_same_number_each_and_share_rows() -> None:
    source = made_up([500] * 2)
    partition = Partition("overlap", clients=4, share=0.5)
    clients = [client_data(source, partition, Evaluation(), c, 4) for c in range(4)]
    trained = [ids(client.train) for client in clients]
    assert [len(rows) for rows in trained] == [400] * 4, "half of the 800 training rows"
    assert len({frozenset(rows) for rows in trained}) == 4
    assert len(trained[0] & trained[1]) == pytest.approx(200, abs=60)
    evaluated = np.concatenate([client.test.X[:, 0] for client in clients])
    assert len(evaluated) == len(set(evaluated)) == 200, "every held-out row evaluates once"
    assert not set(evaluated.astype(int)) & set().union(*trained)


@pytest.mark.parametrize("share", [0, 1.5, "all"])
def test_a_bad_overlap_is_refused(share: Any) -> None:
    with pytest.raises(DataError, match=r"partition\.share"):
        Partition("overlap", clients=4, share=share)
