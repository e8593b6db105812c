from __future__ import annotations

import numpy as np
import pytest
from network_loop import REGRESSION, SCHEMA, rows

pytest.importorskip("tensorflow")

from baselines.dp_sgd.settings import DpSgdSettings
from baselines.fedavg.settings import FedAvgSettings
from baselines.mlp.architecture import Architecture
from baselines.mlp.backend import tensorflow
from baselines.mlp.ghost import ClippedGradients, block_for, clipped_gradients_for
from baselines.mlp.inputs import targets, to_unit_range
from baselines.mlp.network import build_model, row_losses
from dpforest.errors import DPForestError
from dpforest.schema import Schema

BLOCK = 32
RNG = np.random.default_rng(0)


def network(schema: Schema = SCHEMA, activation: str = "relu", hidden: tuple[int, ...] = (7, 5)) -> Architecture:
    return DpSgdSettings(hidden=hidden, activation=activation).architecture(schema)  # type: ignore[arg-type]


def batch(n: int, schema: Schema = SCHEMA) -> tuple[np.ndarray, np.ndarray]:
    X, y = rows(0, n, schema)
    return to_unit_range(X, schema), targets(y, schema)


def explicit(architecture: Architecture, flat: np.ndarray, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Every example's gradient by itself, from the Keras model; shape (n_rows, size)."""
    tf = tensorflow()
    model = build_model(architecture)
    for variable, value in zip(model.weights, architecture.unflatten(flat).values(), strict=True):
        variable.assign(value)
    gradients = []
    for i in range(len(y)):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(row_losses(architecture, model(X[i : i + 1], training=True), y[i : i + 1]))
        parts = tape.gradient(loss, [v.value for v in model.trainable_variables])
        gradients.append(np.concatenate([np.ravel(part) for part in parts]))
    return np.array(gradients)


def start(architecture: Architecture) -> np.ndarray:
    return architecture.flatten(architecture.initial_weights(np.random.default_rng(1)))


@pytest.mark.parametrize("schema", [SCHEMA, REGRESSION], ids=["classes", "target"])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("hidden", [(), (7, 5)], ids=["linear", "deep"])
@pytest.mark.parametrize("clip", [0.05, 1e6], ids=["clipped", "free"])
def test_the_sum_is_that_of_explicit_per_example_gradients(
    schema: Schema, activation: str, hidden: tuple[int, ...], clip: float
) -> None:
    architecture = network(schema, activation, hidden)
    X, y = batch(20, schema)
    flat = start(architecture)
    each = explicit(architecture, flat, X, y)
    lengths = np.linalg.norm(each, axis=1)
    expected = (each * np.minimum(1, clip / lengths)[:, None]).sum(axis=0)
    found = ClippedGradients(architecture, BLOCK, "float32").sum(flat, X, y, clip, RNG)
    assert found == pytest.approx(expected, rel=1e-4, abs=1e-5)
    assert (lengths > 0.05).any()


def test_the_length_of_one_row_is_that_of_its_explicit_gradient() -> None:
    architecture = network()
    X, y = batch(8)
    flat = start(architecture)
    gradients = ClippedGradients(architecture, BLOCK, "float32")
    for i, gradient in enumerate(explicit(architecture, flat, X, y)):
        clip = np.linalg.norm(gradient) / 3
        found = gradients.sum(flat, X[i : i + 1], y[i : i + 1], clip, RNG)
        assert np.linalg.norm(found) == pytest.approx(clip, rel=1e-4)


@pytest.mark.parametrize("n", [1, BLOCK, BLOCK + 1, 3 * BLOCK + 5])
def test_one_more_row_moves_the_sum_by_the_clip_at_most(n: int) -> None:
    # float64, as in a deployment: the bound holds to the last digits there. The row comes first and moves all others.
    architecture = network()
    gradients = clipped_gradients_for(architecture, BLOCK, "float64")
    X, y = batch(n + 1)
    flat = 5 * start(architecture)
    for clip in (0.01, 0.7):
        moved = gradients.sum(flat, X, y, clip, RNG) - gradients.sum(flat, X[1:], y[1:], clip, RNG)
        assert np.linalg.norm(moved) <= clip * (1 + 1e-9)
    assert np.linalg.norm(moved) > 0


@pytest.mark.parametrize("label", [0, 1])
def test_a_gradient_whose_square_vanishes_is_clipped_too(label: int) -> None:
    # A server's weights: activations of 1e152 before an output that follows its bias alone. The error of a row of class
    # 0 is then exp(-360), whose square is 0 in double precision, and its gradient is far longer than the clip.
    architecture = network(hidden=(1, 1, 1, 1))
    weights = {name: np.zeros(shape, np.float32) for name, shape in architecture.shapes.items()}
    weights["hidden_1/bias"][:] = 1e38
    for layer in (2, 3, 4):
        weights[f"hidden_{layer}/kernel"][:] = 1e38
    weights["output/bias"][0] = 360
    found = clipped_gradients_for(architecture, BLOCK, "float64").sum(
        architecture.flatten(weights), np.zeros((1, 4)), np.array([label]), 1e-12, RNG
    )
    assert np.linalg.norm(found) == pytest.approx(1e-12, rel=1e-9)


def test_padding_and_blocks_change_nothing() -> None:
    architecture = network()
    X, y = batch(90)
    flat = start(architecture)
    small, large = (ClippedGradients(architecture, block, "float64") for block in (BLOCK, 128))
    assert small.sum(flat, X, y, 0.3, RNG) == pytest.approx(large.sum(flat, X, y, 0.3, RNG), abs=1e-12)


def test_an_empty_batch_sums_to_nothing() -> None:
    architecture = network()
    X, y = batch(1)
    total = clipped_gradients_for(architecture, BLOCK, "float64").sum(start(architecture), X[:0], y[:0], 1.0, RNG)
    assert total.shape == (architecture.size,)
    assert not total.any()


def test_a_row_whose_gradient_overflows_adds_nothing() -> None:
    architecture = network()
    X, y = batch(3)
    flat = start(architecture)
    gradients = ClippedGradients(architecture, BLOCK, "float32")
    spoilt = X.copy()
    spoilt[1] = 1e38
    found = gradients.sum(flat, spoilt, y, 0.3, RNG)
    assert np.isfinite(found).all()
    assert found == pytest.approx(gradients.sum(flat, X[[0, 2]], y[[0, 2]], 0.3, RNG), abs=1e-6)


def test_dropout_follows_the_generator() -> None:
    architecture = DpSgdSettings(hidden=[16], dropout=0.5).architecture(SCHEMA)
    X, y = batch(20)
    gradients = ClippedGradients(architecture, BLOCK, "float32")
    sums = [gradients.sum(start(architecture), X, y, 1.0, np.random.default_rng(seed)) for seed in (3, 3, 4)]
    assert np.array_equal(sums[0], sums[1])
    assert not np.array_equal(sums[0], sums[2])


def test_layers_that_mix_examples_are_refused() -> None:
    mixing = FedAvgSettings(hidden=[4], batch_norm=[1]).architecture(SCHEMA)
    with pytest.raises(DPForestError, match=r"batch_norm \[1\].*use batch_norm=\[\]"):
        ClippedGradients(mixing, BLOCK, "float32")


def test_a_block_nearly_always_holds_a_batch() -> None:
    assert block_for(256) == 320
    assert block_for(1e12) == 16384, "a server that asks for a huge batch takes no more memory"
    assert np.mean(np.random.default_rng(0).poisson(64, 10_000) > block_for(64)) < 1e-3
