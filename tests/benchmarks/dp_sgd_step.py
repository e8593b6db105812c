"""``python -m tests.benchmarks.dp_sgd_step``: a DP-SGD step against a plain one, 561-128-64-12 units, batch of 256.

All three take the same rows in turn, on one thread: the plain Keras step, the DP-SGD step as `DpSgdClient` takes it
(sum of clipped gradients without per-example gradients, noise, sgd), and the same step with every example's gradient
written out by ``tf.vectorized_map``.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from baselines.dp_sgd.optimizers import Sgd
from baselines.dp_sgd.settings import DpSgdSettings
from baselines.mlp.architecture import Architecture
from baselines.mlp.backend import keras, tensorflow
from baselines.mlp.ghost import block_for, clipped_gradients_for
from baselines.mlp.network import build_model, row_losses
from dpforest.ledger import Budget, Ledger
from dpforest.mechanisms import GaussianSums, Paid
from dpforest.noise import Seeded
from dpforest.schema import Feature, Schema

_BATCH, _CLIP, _MULTIPLIER, _RATE = 256, 1.0, 1.1, 0.1
_REPEATS = 60


def main() -> None:
    """Print medians of milliseconds and the ratios to the plain step."""
    schema = Schema(tuple(Feature(f"f{i}", -1, 1) for i in range(561)), classes=tuple("abcdefghijkl"), rows=10_000)
    architecture = DpSgdSettings(hidden=(128, 64), batch=_BATCH).architecture(schema)
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (_BATCH, 561)).astype(np.float32)
    y = rng.integers(12, size=_BATCH).astype(np.int32)
    steps = {
        "plain step": plain_step(architecture, X, y),
        "DP-SGD step": private_step(architecture, X, y),
        "per-example gradients": naive_step(architecture, X, y),
    }
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for step in steps.values():
        step()  # compiles
    for _ in range(_REPEATS):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            seconds[name].append(time.perf_counter() - start)
    plain = seconds["plain step"]
    for name, times in seconds.items():
        ratio = statistics.median(a / b for a, b in zip(times, plain, strict=True))
        print(f"{name:<24} {1000 * statistics.median(times):8.2f} ms  {ratio:6.2f} x")


def plain_step(architecture: Architecture, X: np.ndarray, y: np.ndarray) -> Callable[[], Any]:
    """A step of Keras' own SGD on the mean loss."""
    tf = tensorflow()
    model = build_model(architecture)
    optimizer = keras().optimizers.SGD(_RATE)
    optimizer.build(model.trainable_variables)

    @tf.function
    def step(X: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(row_losses(architecture, model(X, training=True), y))
        optimizer.apply(tape.gradient(loss, [v.value for v in model.trainable_variables]), model.trainable_variables)
        return loss

    return lambda: float(step(X, y))


def many_steps() -> Paid:
    """More noised steps than are taken here."""
    mechanism = GaussianSums(_CLIP, 1 / _MULTIPLIER)
    return mechanism.charge(mechanism.entry("steps", times=10**6), Ledger(Budget(math.inf, 1e-5)))


def private_step(architecture: Architecture, X: np.ndarray, y: np.ndarray) -> Callable[[], Any]:
    """A step as the client takes it, with weights that go on changing."""
    gradients = clipped_gradients_for(architecture, block_for(_BATCH), "float32")
    paid = many_steps()
    optimizer = Sgd(_RATE, 0.0, architecture.size)
    noise, rng = Seeded(0), np.random.default_rng(0)
    state = {"weights": architecture.flatten(architecture.initial_weights(rng))}

    def step() -> None:
        total = gradients.sum(state["weights"], X, y, _CLIP, rng)
        state["weights"] = state["weights"] - optimizer.step(paid.draw(total, noise) / np.float32(_BATCH))

    return step


def naive_step(architecture: Architecture, X: np.ndarray, y: np.ndarray) -> Callable[[], Any]:
    """The same step with a gradient of every example in memory: 256 times the size of the network."""
    tf = tensorflow()
    model = build_model(architecture)
    variables = model.trainable_variables
    noise, paid = Seeded(0), many_steps()

    def clipped(example: tuple[Any, Any]) -> list[Any]:
        with tf.GradientTape() as tape:
            outputs = model(example[0][None], training=True)
            loss = tf.reduce_sum(row_losses(architecture, outputs, example[1][None]))
        gradients = tape.gradient(loss, [v.value for v in variables])
        length = tf.sqrt(tf.add_n([tf.reduce_sum(gradient * gradient) for gradient in gradients]))
        return [gradient * tf.minimum(1.0, _CLIP / length) for gradient in gradients]

    @tf.function
    def sums(X: Any, y: Any) -> list[Any]:
        return [tf.reduce_sum(gradients, axis=0) for gradients in tf.vectorized_map(clipped, (X, y))]

    def step() -> None:
        for variable, total in zip(variables, sums(X, y), strict=True):
            noised = paid.draw(total.numpy(), noise)
            variable.assign_sub(_RATE * noised / _BATCH)

    return step


if __name__ == "__main__":
    main()
