"""A model that many clients of one process are sent is decoded once, and never taken for another."""

from __future__ import annotations

import numpy as np
import pytest
from flwr.app import RecordDict

import strategies.forests
from dpforest.errors import InvalidForest
from dpforest.forest import pack
from dpforest.forest.forest import Forest
from dpforest.schema import Feature, Schema
from strategies.forests import model_arrays, read_model
from strategies.messages import ARRAYS, read_arrays, to_arrays_record

SCHEMA = Schema((Feature("a", 0, 1),), classes=("x", "y"))


def forest(vote: float) -> Forest:
    return Forest(
        schema=SCHEMA,
        output="probability",
        offsets=np.array([0, 1]),
        feature=np.array([-1], np.int32),
        threshold=np.zeros(1),
        left=np.array([-1], np.int32),
        value=np.array([[vote, 1 - vote]]),
        weight=np.ones(1),
        base=np.zeros(2),
        owners=("0",),
    )


def sent(vote: float) -> RecordDict:
    return RecordDict({ARRAYS: to_arrays_record(model_arrays(forest(vote), pack(forest(vote))))})


def test_the_same_model_is_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = []
    original = strategies.forests.unpack
    monkeypatch.setattr(strategies.forests, "unpack", lambda *a, **k: decoded.append(1) or original(*a, **k))
    message = sent(0.75)
    models = [read_model(read_arrays(message), SCHEMA) for _ in range(5)]
    assert len(decoded) == 1
    assert all(model is models[0] for model in models)
    # Bytes that are the same but came anew, as they do from another process.
    assert read_model(read_arrays(sent(0.75)), SCHEMA) is models[0]


def test_another_model_or_schema_is_decoded_anew() -> None:
    X = np.array([[0.5]])
    for vote in (0.75, 0.25, 0.75):
        assert read_model(read_arrays(sent(vote)), SCHEMA).predict_proba(X)[0, 0] == pytest.approx(vote)
    other = Schema((Feature("a", 0, 2),), classes=("x", "y"))
    message = sent(0.75)
    assert read_model(read_arrays(message), SCHEMA).schema == SCHEMA
    assert read_model(read_arrays(message), other).schema == other
    wrong = Schema((Feature("a", 0, 1),), classes=("x", "y", "z"))
    with pytest.raises(InvalidForest):
        read_model(read_arrays(message), wrong)


def test_arrays_that_somebody_may_change_are_not_remembered() -> None:
    arrays = {name: array.copy() for name, array in model_arrays(forest(0.75), pack(forest(0.75))).items()}
    assert read_model(arrays, SCHEMA).value[0, 0] == pytest.approx(0.75)
    arrays["value"][0] = [0.25, 0.75]
    assert read_model(arrays, SCHEMA).value[0, 0] == pytest.approx(0.25)


def test_what_was_read_cannot_be_changed() -> None:
    arrays = read_arrays(sent(0.75))
    with pytest.raises(ValueError, match="read-only"):
        arrays["value"][0] = 0
