"""Rows and thresholds are compared in single precision by all who compare them: growers, prediction, words, ONNX."""

import math

import numpy as np
import pytest

from dpforest.explain import explain_prediction
from dpforest.forest import to_onnx
from dpforest.forest.forest import Forest
from dpforest.growers import grow_classifier
from dpforest.growers.leaves import finish_classifier
from dpforest.growers.settings import ResolvedSettings
from dpforest.ledger import Budget, Ledger
from dpforest.noise import Seeded
from dpforest.schema import Feature, Schema

DECIMALS = np.round(np.concatenate([np.arange(0, 1001) / 1000, np.arange(0, 100) / 7]), 6)


def schema_with_cut_at(value: float) -> Schema:
    """A grid of two cells has one cut, in the middle."""
    return Schema((Feature("x", value - 1, value + 1),), classes=("a", "b"))


def grow(schema: Schema, X: np.ndarray) -> Forest:
    """One split at the only cut, with exact counts in its leaves."""
    settings = ResolvedSettings(bins=2, depth=1, trees=1)
    y = np.zeros(len(X), dtype=np.int64)
    return grow_classifier(X, y, schema, settings, math.inf, Ledger(Budget(math.inf)), Seeded(0))


@pytest.mark.parametrize("value", [0.1, 0.3, 0.7, 0.9, 1.1, 2.3, 9.7, 1e-5, 16777.217, -0.7])
def test_a_decimal_at_a_threshold_has_one_side(value: float) -> None:
    schema = schema_with_cut_at(value)
    steps = np.arange(-3, 4)
    raw = np.array([value, value + 1e-9, value - 1e-9, *(value + steps * np.spacing(value))])[:, None]
    rows, _ = schema.check_matrix(raw)
    counts = grow(schema, rows)
    forest = finish_classifier(counts, ResolvedSettings(smoothing="laplace"), math.inf)
    leaves = forest.apply(raw)
    np.testing.assert_array_equal(leaves, forest.apply(rows), "double precision goes where single does")
    grown = counts.value[counts.is_leaf].sum(axis=1)
    np.testing.assert_array_equal(np.bincount(leaves[:, 0], minlength=3)[counts.is_leaf], grown, "as in training")
    for row, leaf in zip(raw, leaves[:, 0], strict=True):
        (path,) = explain_prediction(forest, row)
        assert path.steps[0].goes_left == (leaf == forest.left[0])


def test_onnx_goes_the_same_way_at_every_decimal() -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    schema = Schema((Feature("x", 0, 100),), classes=("a", "b"))
    n = len(DECIMALS)
    # A stump a decimal, whose left leaf says "a"; thresholds in double precision, as a file or a user may have them.
    forest = Forest(
        schema=schema,
        output="probability",
        offsets=np.arange(n + 1) * 3,
        feature=np.tile(np.array([0, -1, -1], dtype=np.int32), n),
        threshold=np.stack([DECIMALS, np.zeros(n), np.zeros(n)], axis=1).ravel(),
        left=np.stack([np.arange(n) * 3 + 1, np.full(n, -1), np.full(n, -1)], axis=1).ravel().astype(np.int32),
        value=np.tile(np.array([[0.5, 0.5], [1.0, 0.0], [0.0, 1.0]]), (n, 1)),
        weight=np.zeros(3 * n),
        base=np.zeros(2),
        owners=("",) * n,
    )
    session = runtime.InferenceSession(to_onnx(forest).SerializeToString(), providers=["CPUExecutionProvider"])
    raw = DECIMALS[:, None]
    found = session.run(["probabilities"], {"rows": schema.check_matrix(raw)[0]})[0]
    np.testing.assert_allclose(found, forest.predict_proba(raw), atol=1e-5)
    own = np.take_along_axis(forest.apply(raw), np.arange(n)[:, None], axis=1)[:, 0]
    assert (own == np.arange(n) * 3 + 1).all(), "a decimal goes left of a threshold of that decimal"


def test_rows_are_rounded_once_and_stay_inside_their_bounds() -> None:
    rng = np.random.default_rng(0)
    low = rng.uniform(-100, 100, 300)
    high = low + rng.uniform(0.1, 10, 300)
    schema = Schema(
        tuple(Feature(f"x{i}", a, b) for i, (a, b) in enumerate(zip(low, high, strict=True))), "t", ("a", "b")
    )
    rows, clipped = schema.check_matrix(np.stack([low, high, (low + high) / 2, low - 1, high + 1]))
    assert rows.dtype == np.float32
    assert ((rows >= low) & (rows <= high)).all()
    assert clipped == 600, "a bound itself is inside"
    again, clipped = schema.check_matrix(rows)
    np.testing.assert_array_equal(rows, again)
    assert clipped == 0
