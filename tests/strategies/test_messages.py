"""What travels is read without belief."""

from __future__ import annotations

import json

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, RecordDict
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from dpforest.errors import DPForestError
from dpforest.forest import Forest, pack
from dpforest.ledger import Budget, Entry, Ledger
from dpforest.schema import Feature, Schema
from strategies.forests import model_arrays, read_model
from strategies.messages import (
    ARRAYS,
    CONFIG,
    METRICS,
    BadMessage,
    copied,
    error_content,
    read_arrays,
    read_config,
    to_arrays_record,
    update_content,
)
from strategies.method import Public, Update

SCHEMA = Schema((Feature("a", 0, 1), Feature("b", 0, 1)), classes=("x", "y"))


@given(
    st.dictionaries(
        st.text("abc", min_size=1, max_size=3),
        npst.arrays(
            st.sampled_from([np.int8, np.int32, np.int64, np.float32, np.float64, np.bool_]),
            npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
        ),
        max_size=3,
    )
)
@settings(max_examples=50, deadline=None)
def test_arrays_survive_their_trip(arrays: dict[str, np.ndarray]) -> None:
    read = read_arrays(RecordDict({ARRAYS: to_arrays_record(arrays)}))
    assert set(read) == set(arrays)
    for name, array in arrays.items():
        assert read[name].dtype == array.dtype
        np.testing.assert_array_equal(read[name].reshape(array.shape), array)


def test_nothing_but_plain_numbers_is_read() -> None:
    for array in (np.array(["a"]), np.array([1j]), np.array([b"x"]), np.array(["2020"], "datetime64[Y]")):
        with pytest.raises(BadMessage, match="expected plain numbers"):
            read_arrays(RecordDict({ARRAYS: to_arrays_record({"x": array})}))
    with pytest.raises(BadMessage, match="9 dimensions"):
        read_arrays(RecordDict({ARRAYS: to_arrays_record({"x": np.zeros((1,) * 9)})}))
    assert read_arrays(RecordDict()) == {}
    assert read_arrays(RecordDict({ARRAYS: ArrayRecord()})) == {}
    with pytest.raises(BadMessage, match="no settings"):
        read_config(RecordDict())


def test_an_update_says_what_it_cost() -> None:
    ledger = Ledger(Budget(2.0))
    ledger.charge(Entry("counts", "discrete Laplace", epsilon=1.5))
    content = update_content(Update(Public({"x": np.arange(3)}, {"rows": 7})), 5, ledger, "secure")
    assert content[CONFIG]["client"] == 5
    assert content[CONFIG]["noise"] == "secure"
    assert content[METRICS]["rows"] == 7.0
    assert Ledger.from_dict(json.loads(str(content[CONFIG]["ledger"]))).guarantee().epsilon == 1.5


def test_an_error_is_one_setting() -> None:
    content = error_content(3, BadMessage("no rows"))
    assert set(content) == {CONFIG}
    assert dict(content[CONFIG]) == {
        "client": 3,
        "error": "BadMessage: no rows",
        "refused": False,
        "unprotected": False,
    }


def test_settings_of_two_messages_are_not_shared() -> None:
    shared = {"round": 1}
    one, two = copied(shared), copied(shared)
    one["round"] = 2
    assert two["round"] == 1
    assert isinstance(one, ConfigRecord)


def stump(owner: str = "4") -> Forest:
    return Forest(
        schema=SCHEMA,
        output="probability",
        offsets=np.array([0, 3]),
        feature=np.array([0, -1, -1], np.int32),
        threshold=np.array([0.5, 0, 0]),
        left=np.array([1, -1, -1], np.int32),
        value=np.array([[0.5, 0.5], [1, 0], [0, 1]]),
        weight=np.array([2.0, 1, 1]),
        base=np.zeros(2),
        owners=(owner,),
    )


@pytest.mark.parametrize("owner", ["4", ""])
def test_a_model_keeps_who_sent_which_tree(owner: str) -> None:
    again = read_model(model_arrays(stump(owner), pack(stump(owner))), SCHEMA)
    assert again.owners == (owner,)
    np.testing.assert_allclose(again.predict_proba(np.array([[0.2, 0], [0.7, 0]])), [[1, 0], [0, 1]])


@pytest.mark.parametrize(
    "change",
    [
        {"output": None},
        {"output": np.array([5])},
        {"output": np.array([-1])},
        {"output": np.array([0, 0])},
        {"output": np.array(0)},
        {"owners": None},
        {"owners": np.array([1, 2])},
        {"value": np.array([[0.9, 0.9], [0, 1]], np.float32)},
        {"weight": np.array([-1, 1], np.float32)},
        {"left": np.array([0], np.int32)},
    ],
)
def test_a_model_that_is_not_sound_is_refused(change: dict[str, np.ndarray | None]) -> None:
    arrays = {**model_arrays(stump(), pack(stump())), **change}
    with pytest.raises(DPForestError):
        read_model({name: array for name, array in arrays.items() if array is not None}, SCHEMA)
