"""A network as plain facts: layers, and the names and shapes of its weights. Needs no TensorFlow."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpforest.errors import DPForestError
from strategies.method import Arrays


class BadWeights(DPForestError):
    """Arrays do not hold the weights of the network."""


@dataclass(frozen=True)
class Architecture:
    """A multilayer perceptron: dense layers, optional batch normalisation, activation, dropout, linear output.

    Parameters
    ----------
    inputs, outputs : int
        Features; classes, or 1 for a regression.
    classifies : bool
        Cross-entropy of a softmax, else squared error.
    hidden, activation, dropout, batch_norm
        See `NetworkSettings`.
    """

    inputs: int
    outputs: int
    classifies: bool
    hidden: tuple[int, ...]
    activation: str
    dropout: float
    batch_norm: tuple[int, ...]

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of each weight by name, from the input to the output."""
        shapes: dict[str, tuple[int, ...]] = {}
        width = self.inputs
        for layer, units in enumerate(self.hidden, start=1):
            shapes[f"hidden_{layer}/kernel"] = (width, units)
            shapes[f"hidden_{layer}/bias"] = (units,)
            if layer in self.batch_norm:
                for name in ("gamma", "beta", "moving_mean", "moving_variance"):
                    shapes[f"norm_{layer}/{name}"] = (units,)
            width = units
        shapes["output/kernel"] = (width, self.outputs)
        shapes["output/bias"] = (self.outputs,)
        return shapes

    @property
    def size(self) -> int:
        """Number of weights."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    def initial_weights(self, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Glorot-uniform kernels (Glorot and Bengio 2010), zero biases, neutral normalisation; float32.

        Without hidden layers there is no symmetry to break, and the kernel starts at zero too: under privacy a random
        start is noise that nobody needs.
        """
        weights = {}
        for name, shape in self.shapes.items():
            if name.endswith("kernel") and self.hidden:
                limit = math.sqrt(6 / sum(shape))
                weights[name] = rng.uniform(-limit, limit, shape).astype(np.float32)
            else:
                start = np.ones if name.endswith(("gamma", "moving_variance")) else np.zeros
                weights[name] = start(shape, dtype=np.float32)
        return weights

    def check_weights(self, arrays: Arrays) -> dict[str, np.ndarray]:
        """The weights in untrusted arrays, in the order of `shapes`, as float32.

        Raises
        ------
        BadWeights
            A weight is missing, has another shape, is not of floating-point type, or is not finite.
        """
        weights = {}
        for name, shape in self.shapes.items():
            if name not in arrays:
                raise BadWeights(f"the network has no weights {name!r}")
            array = np.asarray(arrays[name])
            if array.dtype.kind != "f":
                raise BadWeights(f"weights {name!r} are of type {array.dtype}; expected floating-point numbers")
            if array.shape != shape:
                raise BadWeights(f"weights {name!r} have shape {array.shape}; expected {shape}")
            with np.errstate(over="ignore"):
                weights[name] = array.astype(np.float32)
            if not np.isfinite(weights[name]).all():
                raise BadWeights(f"weights {name!r} hold NaN, infinity, or what single precision cannot hold")
        return weights

    def flatten(self, weights: Arrays) -> np.ndarray:
        """All weights behind one another, shape (size,)."""
        return np.concatenate([np.ravel(weights[name]) for name in self.shapes])

    def unflatten(self, flat: np.ndarray) -> dict[str, np.ndarray]:
        """The inverse of `flatten`, as float32."""
        ends = np.cumsum([math.prod(shape) for shape in self.shapes.values()])
        parts = np.split(flat.astype(np.float32), ends[:-1])
        return {name: part.reshape(shape) for (name, shape), part in zip(self.shapes.items(), parts, strict=True)}


def refuse_batch_norm(architecture: Architecture, why: str) -> None:
    """Refuse batch normalisation under differential privacy."""
    if architecture.batch_norm:
        raise DPForestError(
            f"batch_norm {list(architecture.batch_norm)} is not possible under DP ({why}): use batch_norm=[]"
        )
