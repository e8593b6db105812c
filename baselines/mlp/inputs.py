"""What the network is fed: features and targets on public scales, or standardised by noised sums."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dpforest.errors import DPForestError
from dpforest.mechanisms import whole_numbers
from dpforest.schema import Schema
from strategies.method import Arrays

MEAN, SCALE = "inputs/mean", "inputs/scale"
# A feature that hardly varies, or whose noised variance came out too small, must not be blown up.
_SMALLEST_SCALE = 0.05
FURTHEST = 5.0  # standard deviations that an input may be away from its mean
# Parts of a row's numbers in exact sums; a power of 2, so that dividing by it loses nothing.
ROW_UNIT = 1 << 24


def n_inputs(schema: Schema) -> int:
    """How many numbers a network is fed a row: one a feature, and one more a feature that has missing cells."""
    return schema.n_features + len(schema.gaps)


def to_unit_range(X: np.ndarray, schema: Schema) -> np.ndarray:
    """Map each feature from its public bounds to [-1, 1], along its public scale.

    A missing cell is in the middle, 0, and one more input says so: behind the features stands for each that has a
    branch for missing cells 1 where the cell is missing, 0 elsewhere.

    A ``signed_sqrt`` feature is first mapped by ``sign(x - centre) sqrt(|x - centre|)``, which spreads the values near
    the centre, where heavy-tailed measurements are crowded.

    Returns
    -------
    ndarray of float32, shape (n_rows, n_inputs(schema))
    """
    gaps = schema.gaps
    missing = X[:, gaps] == schema.missing_values[gaps]
    unit = 2 * schema.grid_position(X) - 1
    unit[:, gaps] = np.where(missing, 0, unit[:, gaps])
    return np.concatenate([unit, missing], axis=1).astype(np.float32)


def targets(y: np.ndarray, schema: Schema) -> np.ndarray:
    """Class indices as int32, or targets mapped from their public range to [-1, 1] as float32."""
    if schema.target_range is None:
        return np.asarray(y, dtype=np.int32)
    low, high = schema.target_range
    return np.clip(2 * (np.asarray(y) - low) / (high - low) - 1, -1, 1).astype(np.float32)


def from_outputs(outputs: np.ndarray, schema: Schema) -> np.ndarray:
    """What the network says, in the schema's terms: class probabilities, or targets inside their range."""
    if schema.target_range is None:
        return outputs
    low, high = schema.target_range
    return low + (np.clip(outputs[:, 0], -1, 1) + 1) / 2 * (high - low)


@dataclass(frozen=True)
class Standard:
    """Mean and standard deviation of the inputs on their public scale, each of shape (n_inputs,)."""

    mean: np.ndarray
    scale: np.ndarray

    def apply(self, unit: np.ndarray) -> np.ndarray:
        """Standardised inputs, float32."""
        return np.clip((unit - self.mean) / self.scale, -FURTHEST, FURTHEST).astype(np.float32)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """As they go to the clients."""
        return {MEAN: self.mean, SCALE: self.scale}

    @classmethod
    def of_sums(cls, sums: np.ndarray, width: int) -> Standard:
        """From the sums of all clients (see `row_sums`), noised or not; free, since it only reads what was released."""
        rows = max(1.0, float(sums[-1]))
        mean = np.clip(sums[:width] / rows, -1, 1)
        variance = sums[width:-1] / rows - mean**2
        return cls(mean.astype(np.float32), np.sqrt(np.clip(variance, _SMALLEST_SCALE**2, 1)).astype(np.float32))

    @classmethod
    def read(cls, arrays: Mapping[str, np.ndarray], width: int) -> Standard:
        """From a server's untrusted arrays.

        Raises
        ------
        DPForestError
            They are missing or not sound.
        """
        parts = []
        for name in (MEAN, SCALE):
            part = np.asarray(arrays.get(name, ()))
            if part.shape != (width,) or part.dtype.kind != "f" or not np.isfinite(part).all():
                raise DPForestError(f"the model's {name!r} must be {width} finite numbers")
            parts.append(part)
        if (parts[1] < _SMALLEST_SCALE / 2).any():
            raise DPForestError(f"the model's {SCALE!r} must be at least {_SMALLEST_SCALE}")
        return cls(*parts)


def row_sums(unit: np.ndarray) -> np.ndarray:
    """Sums over the rows of (inputs, squared inputs, 1), shape (2 n_inputs + 1,).

    One row adds a vector of numbers in [-1, 1], so its Euclidean length is at most `row_sums_sensitivity`. Each is
    rounded to a multiple of ``1 / ROW_UNIT`` for itself, so that the sums are exact and a row adds nothing else.
    """
    return whole_row_sums(unit, ROW_UNIT) / ROW_UNIT


def whole_row_sums(unit: np.ndarray, units: int) -> np.ndarray:
    """`row_sums` in whole numbers, of which ``units`` make 1, int64: a row moves them by ``units`` in each at most."""
    unit = unit.astype(np.float64)
    parts = whole_numbers(np.concatenate([unit, unit**2], axis=1) * units, units)
    return np.append(parts.sum(axis=0), units * len(unit))


def row_sums_sensitivity(width: int) -> float:
    """How far one row of so many inputs moves `row_sums` at most."""
    return math.sqrt(2 * width + 1)


def model_inputs(X: np.ndarray, schema: Schema, standardized: bool, arrays: Arrays) -> np.ndarray:
    """Rows as the network wants them, by the standardisation that came with the model."""
    unit = to_unit_range(X, schema)
    return Standard.read(arrays, n_inputs(schema)).apply(unit) if standardized else unit
