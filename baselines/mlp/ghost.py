"""Sums of clipped per-example gradients without a gradient of any single example.

In a dense layer ``z = a W + b`` the gradient of one example's loss is the outer product of its input ``a`` and
``delta``, the gradient with respect to ``z``. Its squared length, bias included, is ``(|a|^2 + 1) |delta|^2``
(Goodfellow 2015), and a sum over examples with weights c is ``a^T (c delta)``: one backward pass to the deltas gives
the lengths and then the clipped sum, at about the price of a plain step. Layers that mix examples (batch
normalisation) have no gradient of one example.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from baselines.mlp.architecture import Architecture, refuse_batch_norm
from baselines.mlp.backend import tensorflow
from baselines.mlp.network import row_losses

_SPREAD = 4
_MULTIPLE = 32
_LARGEST_BLOCK = 1 << 14


class ClippedGradients:
    """Sums of gradients, each clipped to a length, of batches of any size.

    Rows are fed in blocks of one padded shape, so that TensorFlow compiles once; padded rows count nothing, and a
    larger batch takes several blocks. No row is ever dropped, since the accounting relies on the Poisson draw.

    Parameters
    ----------
    architecture : Architecture
        Without batch normalisation.
    block : int
        Rows of a block.
    dtype : {"float32", "float64"}
        Of the computation. In single precision the rounding of sums can exceed the clip by about 1e-6 of it;
        a deployment takes double precision.

    Raises
    ------
    DPForestError
        The network has layers that mix examples.
    """

    def __init__(self, architecture: Architecture, block: int, dtype: str) -> None:
        refuse_batch_norm(architecture, "it mixes the examples of a batch")
        tf = tensorflow()
        self._architecture = architecture
        self._block = block
        self._dtype = dtype
        kind = tf.as_dtype(dtype)
        shapes = list(architecture.shapes.values())
        activation = {"relu": tf.nn.relu, "tanh": tf.nn.tanh}[architecture.activation]

        @tf.function(
            input_signature=[
                tf.TensorSpec([architecture.size], kind),
                tf.TensorSpec([block, architecture.inputs], kind),
                tf.TensorSpec([block], tf.int32 if architecture.classifies else kind),
                tf.TensorSpec([block], tf.bool),
                tf.TensorSpec([], kind),
                tf.TensorSpec([2], tf.int32),
            ]
        )
        def clipped_sum(flat: Any, X: Any, y: Any, real: Any, clip: Any, seed: Any) -> Any:
            parts = tf.split(flat, [math.prod(shape) for shape in shapes])
            weights = [tf.reshape(part, shape) for part, shape in zip(parts, shapes, strict=True)]
            layers = list(zip(weights[::2], weights[1::2], strict=True))
            below, above = [X], []
            with tf.GradientTape() as tape:
                for number, (kernel, bias) in enumerate(layers):
                    z = tf.matmul(below[-1], kernel) + bias
                    tape.watch(z)
                    above.append(z)
                    if number < len(layers) - 1:
                        hidden = activation(z)
                        if architecture.dropout:
                            hidden = tf.nn.experimental.stateless_dropout(hidden, architecture.dropout, seed + number)
                        below.append(hidden)
                losses = row_losses(architecture, above[-1], y)
            deltas = tape.gradient(losses, above)
            lengths = [tf.sqrt(_length(a) ** 2 + 1) * _length(d) for a, d in zip(below, deltas, strict=True)]
            length = _length(tf.stack(lengths, axis=1))
            factor = tf.minimum(tf.ones([], kind), clip / tf.maximum(length, tf.constant(1e-30, kind)))
            # A row whose gradient overflows must not spoil the sum: it adds nothing, which is within the clip.
            used = tf.logical_and(real, tf.math.is_finite(length))[:, None]
            gradients = []
            for a, d in zip(below, deltas, strict=True):
                scaled = tf.where(used, d * factor[:, None], tf.zeros([], kind))
                kernel = tf.matmul(tf.where(used, a, tf.zeros([], kind)), scaled, transpose_a=True)
                gradients += [tf.reshape(kernel, [-1]), tf.reduce_sum(scaled, axis=0)]
            return tf.concat(gradients, axis=0)

        self._clipped_sum = clipped_sum

    def sum(
        self, weights: np.ndarray, inputs: np.ndarray, y: np.ndarray, clip: float, rng: np.random.Generator
    ) -> np.ndarray:
        """The sum over a batch.

        Parameters
        ----------
        weights : ndarray of shape (architecture.size,)
        inputs : ndarray of shape (n_rows, n_features)
            May have no row at all.
        y : ndarray of shape (n_rows,)
        clip : float
            Largest length of one row's gradient.
        rng : Generator
            Of dropout.

        Returns
        -------
        ndarray of shape (architecture.size,)
            One row more or less moves it by ``clip`` at most.
        """
        total = np.zeros(self._architecture.size, dtype=self._dtype)
        weights = weights.astype(self._dtype)
        for start in range(0, len(y), self._block):
            part = slice(start, start + self._block)
            rows = len(y[part])
            X = np.zeros((self._block, inputs.shape[1]), dtype=self._dtype)
            X[:rows] = inputs[part]
            wanted = np.zeros(self._block, dtype=np.int32 if self._architecture.classifies else self._dtype)
            wanted[:rows] = y[part]
            seed = rng.integers(2**31 - len(self._architecture.hidden) - 1, size=2).astype(np.int32)
            total += self._clipped_sum(
                weights, X, wanted, np.arange(self._block) < rows, np.asarray(clip, self._dtype), seed
            ).numpy()
        return total


def _length(rows: Any) -> Any:
    """Euclidean length of each row, also where squares would vanish or overflow.

    A server chooses weights and clip: were a tiny length taken for 0, a row could move the sum by more than a tiny
    clip.
    """
    tf = tensorflow()
    largest = tf.reduce_max(tf.abs(rows), axis=1)
    unit = rows / tf.where(largest > 0, largest, tf.ones([], rows.dtype))[:, None]
    return largest * tf.sqrt(tf.reduce_sum(unit * unit, axis=1))


def block_for(batch: float) -> int:
    """Rows of a block that nearly always holds a Poisson batch of that expected size, or one of several for a huge one.

    A server chooses the size, and no memory would be asked for before the first row is in a batch: whether that fails
    must not tell that there is one.
    """
    wanted = math.ceil((batch + _SPREAD * math.sqrt(batch)) / _MULTIPLE) * _MULTIPLE
    return min(wanted, _LARGEST_BLOCK)


@lru_cache(maxsize=8)
def clipped_gradients_for(architecture: Architecture, block: int, dtype: str) -> ClippedGradients:
    """The compiled sums of this process."""
    return ClippedGradients(architecture, block, dtype)
