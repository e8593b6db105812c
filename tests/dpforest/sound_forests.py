"""Forests as somebody else may send them, and what everybody does with one that passed the server's check."""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np

from dpforest.errors import DPForestError
from dpforest.explain import explain_prediction, to_dot, tree_rules
from dpforest.forest import Forest, concatenate, feature_importances, pack, unpack
from dpforest.forest.json_format import from_dict, to_dict
from dpforest.forest.nested import to_nested
from dpforest.growers import balance_votes, finish_classifier, resolve
from dpforest.growers.settings import GrowerSettings
from dpforest.schema import Schema

_NUMBERS = (0.0, -0.0, 1.0, -1.0, 1e-45, 3.4028235e38, -3.4028235e38, 1e39, -1e39, 1e308, np.inf, -np.inf, np.nan)
_WHOLE = (-1, 0, 1, 2, 60, 2**31 - 1, -(2**31), 2**32, 2**62, 2**63 - 1, -(2**63), -(2**63) + 7)


def mutated(arrays: Mapping[str, np.ndarray], rng: np.random.Generator) -> dict[str, np.ndarray]:
    """A few changes of cells, types, lengths and shapes."""
    changed = {name: np.array(array) for name, array in arrays.items()}
    for _ in range(rng.integers(1, 4)):
        name = str(rng.choice(list(changed)))
        changed[name] = _mutated(changed[name], rng)
    return changed


def _mutated(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    kind = rng.integers(8)
    if kind == 0:
        return array[: rng.integers(len(array) + 1)] if array.ndim else array
    if kind == 1:
        with np.errstate(all="ignore"):
            return array.astype(rng.choice(["i1", "u8", "i8", "f2", "f4", "f8", "?"]))
    if kind == 2 and array.ndim:
        return np.concatenate([array, array[-1:]])
    if kind == 3:
        return array.reshape(-1)
    if not array.size:
        return array
    wide = array.astype(np.float64 if array.dtype.kind == "f" else np.int64)
    flat = wide.reshape(-1)
    at = rng.integers(flat.size, size=flat.size if kind == 4 else 1)
    flat[at] = rng.choice(np.array(_NUMBERS if flat.dtype.kind == "f" else _WHOLE, dtype=flat.dtype))
    return wide


def rows_of(schema: Schema) -> np.ndarray:
    """Rows of numbers, inside of bounds and outside."""
    return np.random.default_rng(0).uniform(-3, 6, size=(30, schema.n_features)).astype(np.float32)


def assert_serves_everybody(forest: Forest) -> None:
    """Send on, join, save, load, explain and predict; all of it works and gives finite numbers."""
    if forest.output == "counts":
        _assert_sent_on(forest)
        for smoothing in ("shrink", "laplace", "none"):
            settings = resolve(GrowerSettings(smoothing=smoothing), 1.0, 1000)
            finished = finish_classifier(forest, settings, 0.5)
            _assert_finished(balance_votes(finished, forest, 1.0))
    else:
        _assert_finished(forest)


def _assert_sent_on(forest: Forest) -> Forest:
    arrays = pack(forest)
    received = unpack(arrays, forest.schema, forest.output, forest.owners)
    again = pack(received)
    assert all(np.array_equal(again[name], array) for name, array in arrays.items())
    return received


def _assert_finished(forest: Forest) -> None:
    joined = concatenate([forest, forest])
    X = rows_of(forest.schema)
    for each in (forest, _assert_sent_on(joined)):
        loaded = from_dict(json.loads(json.dumps(to_dict(each), allow_nan=False)))
        from_dict(json.loads(json.dumps(to_dict(loaded), allow_nan=False)))
        for one in (each, loaded):
            importances = feature_importances(one)
            assert np.isfinite(importances).all()
            assert (importances >= 0).all()
            predicted = one.predict_proba(X) if one.schema.is_classification else one.predict(X)
            assert np.isfinite(predicted).all()
            if one.schema.is_classification:
                assert (predicted >= 0).all()
                np.testing.assert_allclose(predicted.sum(axis=1), 1.0, atol=1e-3)
            _assert_explained(one)


def _assert_explained(forest: Forest) -> None:
    assert all(str(path) for path in explain_prediction(forest, rows_of(forest.schema)[0])) or forest.output in (
        "logit",
        "target_sum",
    )
    parts_of_a_sum = forest.output in ("logit", "target_sum")
    for explain, says_nothing in (
        (tree_rules, parts_of_a_sum),
        (to_dot, parts_of_a_sum),
        (_as_nested, parts_of_a_sum or len(forest.sets) > 0),
    ):
        try:
            assert explain(forest)
        except DPForestError:
            assert says_nothing


def _as_nested(forest: Forest) -> str:
    return json.dumps(to_nested(forest), allow_nan=False)
