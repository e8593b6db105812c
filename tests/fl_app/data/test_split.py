from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up_data import made_up

from fl_app.data import DataError, Evaluation, Partition, Rows, client_data, split_rows
from fl_app.data.split import subject_roles

SUBJECTS = [f"{i:02d}" for i in range(1, 19)]


def held_out_subjects(subjects: Sequence[str], evaluation: Evaluation) -> tuple[str, ...]:
    return tuple(subject for subject, role in subject_roles(subjects, evaluation).items() if role == "test")


def rows_of(y: list[int], recording: list[int] | None = None) -> Rows:
    n = len(y)
    return Rows(
        np.arange(n, dtype=float)[:, None], np.array(y, dtype=np.int64), np.array(recording or [0] * n, dtype=np.int64)
    )


@settings(max_examples=100)
@given(
    st.lists(st.integers(0, 4), max_size=60), st.sampled_from(["row", "recording"]), st.floats(0.05, 0.95),
    st.booleans(), st.integers(1, 6),
)  # fmt: skip
def test_rows_are_divided_without_loss_or_overlap(
    y: list[int], split: str, share: float, classes: bool, recordings: int
) -> None:
    rows = rows_of(y, [i % recordings for i in range(len(y))])
    evaluation = Evaluation(split, test_share=share)
    train, test = split_rows(rows, evaluation, classes)
    assert sorted([*train.X[:, 0], *test.X[:, 0]]) == list(range(len(y)))
    if y:
        assert len(train) > 0
    if split == "recording":
        assert not set(train.recording) & set(test.recording)
    elif classes:
        assert set(train.y) == set(y), "no class leaves training"
        ideal = share * np.bincount(y, minlength=5)
        assert np.all(np.abs(np.bincount(test.y, minlength=5) - ideal) <= 1)
    again = split_rows(rows, evaluation, classes)
    np.testing.assert_array_equal(again[1].X, test.X)


@given(st.lists(st.integers(0, 3), max_size=60), st.sampled_from(["row", "recording"]))
def test_validation_never_touches_the_test_rows(y: list[int], split: str) -> None:
    rows = rows_of(y, [i % 7 for i in range(len(y))])
    train, test = split_rows(rows, Evaluation(split), True)
    fitted, validation = split_rows(rows, Evaluation(split, part="validation"), True)
    assert sorted([*fitted.X[:, 0], *validation.X[:, 0]]) == train.X[:, 0].tolist()
    assert not set(validation.X[:, 0]) & set(test.X[:, 0])


def test_shares_are_as_asked() -> None:
    rows = rows_of([0] * 70 + [1] * 30)
    train, test = split_rows(rows, Evaluation("row"), True)
    assert np.bincount(test.y).tolist() == [14, 6]
    assert len(train) == 80
    fitted, validation = split_rows(rows, Evaluation("row", part="validation"), True)
    assert len(validation) == 16
    assert len(fitted) == 64


def test_clients_hold_out_different_recordings() -> None:
    # one recording a class, twice: with one draw for all, the same two or three classes would evaluate everywhere
    rows = rows_of([label for label in range(7) for _ in range(10)] * 2, [i // 10 for i in range(140)])
    seen = {tuple(np.unique(split_rows(rows, Evaluation("recording"), True, client)[1].y)) for client in range(10)}
    assert len(seen) > 3
    assert all(len(classes) == 3 for classes in seen), "a fifth of 14 recordings is 3"


def test_held_out_subjects_are_blocks_of_a_fixed_order() -> None:
    order = np.random.default_rng(0).permutation(18)
    folds = [held_out_subjects(SUBJECTS, Evaluation("subject", fold=fold)) for fold in range(6)]
    assert [set(fold) for fold in folds] == [{SUBJECTS[i] for i in order[3 * f : 3 * f + 3]} for f in range(6)]
    assert sorted(name for fold in folds for name in fold) == SUBJECTS


@pytest.mark.parametrize("fold", range(6))
def test_validation_subjects_are_training_subjects(fold: int) -> None:
    test = held_out_subjects(SUBJECTS, Evaluation("subject", fold=fold))
    validation = held_out_subjects(SUBJECTS, Evaluation("subject", fold=fold, part="validation"))
    assert len(validation) == 3
    assert not set(test) & set(validation)


@pytest.mark.parametrize("clients", [2, 3, 5, 8])
@pytest.mark.parametrize("part", ["test", "validation"])
def test_subject_split_gives_a_client_one_role(clients: int, part: str) -> None:
    source = made_up([10] * 8)
    evaluation = Evaluation("subject", part=part, held_out=2)
    if part == "validation" and clients == 2:
        with pytest.raises(DataError, match="use 3 to 8 clients"):
            client_data(source, Partition(), evaluation, 0, clients)
        return
    data = [client_data(source, Partition(), evaluation, client, clients) for client in range(clients)]
    assert all(len(d.train) == 0 or len(d.test) == 0 for d in data)
    tested = {int(i) // 10 for d in data for i in d.test.X[:, 0]}
    trained = {int(i) // 10 for d in data for i in d.train.X[:, 0]}
    assert {f"s{i}" for i in tested} == set(held_out_subjects(source.subjects(), evaluation))
    unused = set(held_out_subjects(source.subjects(), Evaluation("subject", held_out=2))) if part != "test" else set()
    assert {f"s{i}" for i in trained | tested} == set(source.subjects()) - unused


@pytest.mark.parametrize("clients", [2, 5, 8])
def test_named_subjects_are_held_out(clients: int) -> None:
    source, evaluation = made_up([10] * 8), Evaluation("subject", subjects=["s6", "s1"])
    data = [client_data(source, Partition(), evaluation, client, clients) for client in range(clients)]
    assert {int(i) // 10 for d in data for i in d.test.X[:, 0]} == {1, 6}
    assert {int(i) // 10 for d in data for i in d.train.X[:, 0]} == {0, 2, 3, 4, 5, 7}
    validation = held_out_subjects(source.subjects(), replace(evaluation, part="validation", held_out=3))
    assert len(validation) == 3
    assert not {"s6", "s1"} & set(validation)


def test_blocks_in_time_may_hold_out_recordings() -> None:
    source, partition = made_up([200], recordings=20), Partition("time_blocks", clients=4)
    data = [client_data(source, partition, Evaluation("recording"), client, 4) for client in range(4)]
    trained = {int(i) // 10 for d in data for i in d.train.X[:, 0]}
    tested = {int(i) // 10 for d in data for i in d.test.X[:, 0]}
    assert len(tested) == 4, "one of the five recordings of each client"
    assert trained == set(range(20)) - tested


def test_one_subject_cannot_be_held_out() -> None:
    with pytest.raises(DataError, match="needs several subjects, and made_up has one"):
        client_data(made_up([20]), Partition(), Evaluation("subject"), 0, 1)


def test_row_split_of_each_client() -> None:
    source = made_up([50, 100])
    data = [client_data(source, Partition(), Evaluation(), client, 2) for client in range(2)]
    assert [(len(d.train), len(d.test)) for d in data] == [(40, 10), (80, 20)]
    assert client_data(source, Partition(), Evaluation(), 0, 2) is data[0]


@pytest.mark.parametrize("kind", ["iid", "dirichlet", "quantity"])
@pytest.mark.parametrize("split", ["recording", "subject"])
def test_mixed_clients_cannot_hold_out_whole_recordings_or_subjects(kind: str, split: str) -> None:
    with pytest.raises(DataError, match=f"partition={kind} spreads each {split} over clients.*use partition=subject"):
        client_data(made_up([20, 20]), Partition(kind), Evaluation(split), 0, 2)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"split": "rows"}, "'rows' is unknown: did you mean 'row'"),
        ({"part": "train"}, "evaluation.part 'train'"),
        ({"test_share": 1.0}, "evaluation.test_share 1.0 must be between 0 and 1"),
        ({"test_share": float("nan")}, "evaluation.test_share nan"),
        ({"fold": -1}, "evaluation.fold -1"),
        ({"held_out": 0}, "evaluation.held_out 0"),
        ({"split": "subject", "subjects": "02"}, "evaluation.subjects '02' must be a list of names"),
        ({"split": "subject", "subjects": [2, 4]}, "in quotes where they are numbers"),
        ({"subjects": ["02"]}, "set evaluation.split=subject"),
        ({"split": "subject", "subjects": ["02"], "fold": 1}, "leave evaluation.fold at 0"),
    ],
)
def test_wrong_settings_are_named(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Evaluation(**wrong)


@pytest.mark.parametrize(
    ("evaluation", "message"),
    [
        (Evaluation("subject", fold=6), "18 subjects make folds 0 to 5"),
        (Evaluation("subject", held_out=18), "use at most 17"),
        (Evaluation("subject", held_out=9, part="validation"), "use at most 8"),
        (Evaluation("subject", subjects=["2"]), "evaluation.subjects '2' is unknown.* there are 01, 02"),
        (Evaluation("subject", subjects=SUBJECTS), "no subject to train on: name fewer"),
        (Evaluation("subject", subjects=SUBJECTS[1:], part="validation"), "leaves 1 of 18 subjects"),
    ],
)
def test_impossible_folds_are_refused(evaluation: Evaluation, message: str) -> None:
    with pytest.raises(DataError, match=message):
        held_out_subjects(SUBJECTS, evaluation)
