"""Training and using a network with Keras. One model a process and architecture, however many clients and runs."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from baselines.mlp.architecture import Architecture
from baselines.mlp.backend import keras, tensorflow
from baselines.mlp.settings import LocalSettings
from dpforest.errors import DPForestError
from strategies.method import Arrays


class Diverged(DPForestError):
    """Training on rows has left the numbers: a fact about these rows."""


@dataclass(frozen=True)
class Trained:
    """Weights after training, and the mean loss of the last pass over the rows."""

    weights: dict[str, np.ndarray]
    loss: float


class Network:
    """A Keras model whose weights are set anew for each use.

    Parameters
    ----------
    architecture : Architecture
    """

    def __init__(self, architecture: Architecture) -> None:
        tf = tensorflow()
        self._architecture = architecture
        self._model = build_model(architecture)
        self._variables = {f"{layer.name}/{v.name}": v for layer in self._model.layers for v in layer.weights}
        self._epochs: dict[tuple[str, bool, bool], tuple[Any, Any, list[Any]]] = {}
        # Two clients of one process must not share the variables at the same time.
        self._lock = threading.Lock()

        @tf.function(input_signature=[tf.TensorSpec([None, architecture.inputs], tf.float32)])
        def outputs(X: Any) -> Any:
            result = self._model(X, training=False)
            return tf.nn.softmax(result) if architecture.classifies else result

        self._outputs = outputs

    def predict(self, weights: Arrays, inputs: np.ndarray) -> np.ndarray:
        """Class probabilities, or the bare output of a regression; shape (n_rows, n_outputs)."""
        with self._lock:
            self._set(weights)
            return np.asarray(self._outputs(inputs).numpy(), dtype=np.float64)

    def fit(
        self,
        weights: Arrays,
        inputs: np.ndarray,
        y: np.ndarray,
        settings: LocalSettings,
        rng: np.random.Generator,
        proximal: float = 0.0,
        clip: float = 0.0,
        row_weights: np.ndarray | None = None,
    ) -> Trained:
        """Train from given weights.

        Parameters
        ----------
        weights : mapping of str to ndarray
        inputs : ndarray of float32, shape (n_rows, n_features)
        y : ndarray of shape (n_rows,)
        settings : LocalSettings
        rng : Generator
            Of the order of the rows and of dropout.
        proximal : float
            Pull back to the given weights (mu of FedProx, Li et al. 2020); 0 for none.
        clip : float
            Largest length of the gradient of a batch; 0 for no limit.
        row_weights : ndarray of shape (n_rows,), optional
            Factors of the rows' losses; 1 by default.

        Raises
        ------
        Diverged
            The loss or a weight is no longer finite.
        """
        tf = tensorflow()
        with self._lock:
            self._set(weights)
            for layer in self._model.layers:
                if hasattr(layer, "seed_generator"):
                    layer.seed_generator.state.assign(rng.integers(2**31, size=2).astype(np.uint32))
            epoch, optimizer, anchors = self._epoch(settings.optimizer, proximal > 0, clip > 0)
            for variable in optimizer.variables:
                variable.assign(np.zeros(variable.shape))
            optimizer.learning_rate.assign(settings.learning_rate)
            for anchor, variable in zip(anchors, self._model.trainable_variables, strict=True):
                anchor.assign(variable)
            X, wanted = tf.constant(inputs), tf.constant(y)
            factors = tf.constant(np.ones(len(y)) if row_weights is None else row_weights, tf.float32)
            limits = tf.constant([proximal, clip], tf.float32)
            batch = tf.constant(settings.batch)
            loss = 0.0
            for _ in range(settings.epochs):
                order = tf.constant(rng.permutation(len(y)).astype(np.int32))
                loss = float(epoch(X, wanted, factors, order, batch, limits)) / max(len(y), 1)
            trained = {name: variable.numpy() for name, variable in self._variables.items()}
        if not np.isfinite(loss) or not all(np.isfinite(array).all() for array in trained.values()):
            raise Diverged(
                f"local training diverged (loss {loss}): lower learning_rate (now {settings.learning_rate:g})"
            )
        return Trained(trained, loss)

    def _set(self, weights: Arrays) -> None:
        for name, variable in self._variables.items():
            variable.assign(weights[name])

    def _epoch(self, optimizer_name: str, proximal: bool, clip: bool) -> tuple[Any, Any, list[Any]]:
        """A compiled pass over the rows, its optimizer, and the variables of the weights to be pulled back to."""
        key = (optimizer_name, proximal, clip)
        if key not in self._epochs:
            self._epochs[key] = self._compile(*key)
        return self._epochs[key]

    def _compile(self, optimizer_name: str, proximal: bool, clip: bool) -> tuple[Any, Any, list[Any]]:
        tf, kinds = tensorflow(), keras().optimizers
        optimizer = {"adam": kinds.Adam, "sgd": kinds.SGD}[optimizer_name]()
        variables = self._model.trainable_variables
        optimizer.build(variables)
        anchors = [tf.Variable(tf.zeros(v.shape), trainable=False) for v in variables]
        target_type = tf.int32 if self._architecture.classifies else tf.float32

        def step(X: Any, y: Any, factors: Any, rows: Any, limits: Any) -> Any:
            with tf.GradientTape() as tape:
                outputs = self._model(tf.gather(X, rows), training=True)
                losses = row_losses(self._architecture, outputs, tf.gather(y, rows))
                loss = tf.reduce_mean(losses * tf.gather(factors, rows))
            gradients = tape.gradient(loss, [v.value for v in variables])
            if proximal:
                gradients = [g + limits[0] * (v - a) for g, v, a in zip(gradients, variables, anchors, strict=True)]
            if clip:
                gradients, _ = tf.clip_by_global_norm(gradients, limits[1])
            optimizer.apply(gradients, variables)
            return loss

        # The loop over batches is compiled too: from Python, calling a small network's step takes longer than the step.
        @tf.function(
            input_signature=[
                tf.TensorSpec([None, self._architecture.inputs], tf.float32),
                tf.TensorSpec([None], target_type),
                tf.TensorSpec([None], tf.float32),
                tf.TensorSpec([None], tf.int32),
                tf.TensorSpec([], tf.int32),
                tf.TensorSpec([2], tf.float32),
            ]
        )
        def epoch(X: Any, y: Any, factors: Any, order: Any, batch: Any, limits: Any) -> Any:
            total = tf.constant(0.0, tf.float64)
            for start in tf.range(0, tf.size(order), batch):
                rows = order[start : start + batch]
                total += tf.cast(step(X, y, factors, rows, limits), tf.float64) * tf.cast(tf.size(rows), tf.float64)
            return total

        return epoch, optimizer, anchors


@lru_cache(maxsize=8)
def network_for(architecture: Architecture) -> Network:
    """The network of this process; building and compiling it takes seconds, so a sweep does it once."""
    return Network(architecture)


def build_model(architecture: Architecture) -> Any:
    """The Keras model, with a linear output; the names of its weights are those of `Architecture.shapes`."""
    layers = keras().layers
    model = keras().Sequential([keras().Input((architecture.inputs,))])
    for layer, units in enumerate(architecture.hidden, start=1):
        model.add(layers.Dense(units, name=f"hidden_{layer}"))
        if layer in architecture.batch_norm:
            model.add(layers.BatchNormalization(name=f"norm_{layer}"))
        model.add(layers.Activation(architecture.activation))
        if architecture.dropout:
            model.add(layers.Dropout(architecture.dropout, seed=0))
    model.add(layers.Dense(architecture.outputs, name="output"))
    return model


def row_losses(architecture: Architecture, outputs: Any, y: Any) -> Any:
    """Loss of each row, shape (n_rows,): cross-entropy, or squared error."""
    tf = tensorflow()
    if architecture.classifies:
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=outputs)
    return tf.square(outputs[:, 0] - y)
