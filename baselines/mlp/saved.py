"""Networks in files, and their predictions without TensorFlow."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import softmax

from baselines.mlp.architecture import Architecture
from baselines.mlp.inputs import MEAN, Standard, from_outputs, model_inputs, n_inputs
from dpforest.errors import DPForestError
from dpforest.own_rows import OwnRows
from dpforest.schema import Schema
from dpforest.texts import parse_json
from strategies.method import Arrays

_LAYERS, _WEIGHTS = "network.json", "network.npz"
NORM_EPSILON = 1e-3  # of Keras' batch normalisation
_ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {"relu": lambda x: np.maximum(x, 0), "tanh": np.tanh}
_MOST_WEIGHTS = 100_000_000
_LARGEST = 1e6  # of what own scales are shifted and multiplied by


def save_network(
    folder: Path, architecture: Architecture, schema: Schema, arrays: Arrays, rows: Mapping[str, Any] | None = None
) -> None:
    """Write ``network.json`` (layers, and how rows are read) and ``network.npz`` (weights by name; no pickle)."""
    plain = {**asdict(architecture), "rows": {**(rows or {}), "schema": schema.to_dict()}}
    (folder / _LAYERS).write_text(json.dumps(plain, indent=2) + "\n", encoding="utf-8")
    np.savez(folder / _WEIGHTS, allow_pickle=False, **arrays)


@dataclass(frozen=True)
class OwnScale:
    """How rows on a person's own scale become inputs: ``(values - less) * times``.

    Parameters
    ----------
    scale : {"z", "ranks"}
        Which values (`dpforest.own_rows.OwnRows`).
    less, times : float
    """

    scale: str
    less: float
    times: float


@dataclass(frozen=True)
class SavedNetwork:
    """A finished network.

    Parameters
    ----------
    schema : Schema
    architecture : Architecture
    arrays : mapping of str to ndarray
        Weights, and the standardisation if there is one.
    own_scale : OwnScale or None
        Of a network that is fed rows on a person's own scale: it predicts what `of_person` makes of them.
    """

    schema: Schema
    architecture: Architecture
    arrays: Mapping[str, np.ndarray]
    own_scale: OwnScale | None = None

    @property
    def own(self) -> OwnRows | None:
        """How rows come to a person's own scale, if they do."""
        return OwnRows(self.schema) if self.own_scale else None

    def of_person(self, X: np.ndarray) -> np.ndarray:
        """Rows of one person, inside the schema's bounds, as the network asks them; others as they come."""
        if self.own is None or self.own_scale is None:
            return X
        values = self.own.steps(X) if self.own_scale.scale == "z" else self.own.ranks(X)
        return (values - np.float32(self.own_scale.less)) * np.float32(self.own_scale.times)

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Class probabilities, shape (n_rows, n_classes), of rows inside the schema's bounds, or of `of_person`."""
        return np.asarray(softmax(self._outputs(X), axis=1))

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Class indices, or targets, shape (n_rows,)."""
        outputs = self._outputs(X)
        return np.argmax(outputs, axis=1) if self.schema.is_classification else from_outputs(outputs, self.schema)

    def to_onnx(self) -> Any:
        """The network with all that comes before it, as an ONNX model; see `baselines.mlp.onnx_export`."""
        from baselines.mlp.onnx_export import network_to_onnx  # only here: predictions do without

        return network_to_onnx(self)

    def _outputs(self, X: np.ndarray) -> np.ndarray:
        inputs = X if self.own_scale else model_inputs(X, self.schema, MEAN in self.arrays, self.arrays)
        value = inputs.astype(np.float64)
        for layer in range(1, len(self.architecture.hidden) + 1):
            value = self._dense(value, f"hidden_{layer}")
            if layer in self.architecture.batch_norm:
                gamma, beta, mean, variance = (
                    self.arrays[f"norm_{layer}/{name}"] for name in ("gamma", "beta", "moving_mean", "moving_variance")
                )
                value = (value - mean) / np.sqrt(variance + NORM_EPSILON) * gamma + beta
            value = _ACTIVATIONS[self.architecture.activation](value)
        return self._dense(value, "output")

    def _dense(self, value: np.ndarray, layer: str) -> np.ndarray:
        return value @ self.arrays[f"{layer}/kernel"].astype(np.float64) + self.arrays[f"{layer}/bias"]


def load_network(path: Path) -> SavedNetwork:
    """Read a network that `save_network` has written.

    Parameters
    ----------
    path : Path
        Its ``network.json`` or ``network.npz``; the other one lies next to it.

    Raises
    ------
    DPForestError
        A file is missing, cut short, or holds no sound network.
    """
    layers, weights = path.with_suffix(".json"), path.with_suffix(".npz")
    try:
        plain = parse_json(layers.read_text(encoding="utf-8"))
        with np.load(weights, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise DPForestError(f"{path} cannot be read as a network (was it cut short?): {error}") from error
    rows = plain.pop("rows", None) if isinstance(plain, dict) else None
    if not isinstance(rows, dict) or "schema" not in rows:
        raise DPForestError(f"{layers} says nothing of its rows: an earlier version wrote it; run the experiment again")
    schema = Schema.from_dict(rows["schema"])
    architecture = _architecture(plain, schema, layers)
    sound = architecture.check_weights(arrays)
    if MEAN in arrays:
        sound |= Standard.read(arrays, architecture.inputs).to_arrays()
    return SavedNetwork(schema, architecture, sound, _own_scale(rows, layers))


def _own_scale(rows: Mapping[str, Any], path: Path) -> OwnScale | None:
    """What the file says of a person's own scale."""
    if not set(rows) <= {"schema", "standardize", "own_scale", "less", "times"}:
        raise DPForestError(f"{path} says more of its rows than this version knows: use the one that wrote it")
    if rows.get("standardize") != "own":
        return None
    scale = rows.get("own_scale")
    numbers: list[Any] = [rows.get("less"), rows.get("times")]
    if scale not in ("z", "ranks") or not all(isinstance(n, int | float) and abs(n) < _LARGEST for n in numbers):
        raise DPForestError(f"{path}: own_scale must be z or ranks, and less and times numbers below {_LARGEST:g}")
    return OwnScale(scale, float(numbers[0]), float(numbers[1]))


def _architecture(plain: Mapping[str, Any], schema: Schema, path: Path) -> Architecture:
    names = [field.name for field in fields(Architecture)]
    if set(plain) != set(names) or not isinstance(plain["hidden"], list) or not isinstance(plain["batch_norm"], list):
        raise DPForestError(f"{path} must say {', '.join(names)} and rows")
    whole = [plain["inputs"], plain["outputs"], *plain["hidden"], *plain["batch_norm"]]
    if not all(type(number) is int and 0 < number < _MOST_WEIGHTS for number in whole):
        raise DPForestError(f"{path}: inputs, outputs, hidden and batch_norm must be whole numbers from 1")
    if plain["activation"] not in _ACTIVATIONS:
        raise DPForestError(f"{path}: activation {plain['activation']!r} must be one of {', '.join(_ACTIVATIONS)}")
    found = Architecture(**{**plain, "hidden": tuple(plain["hidden"]), "batch_norm": tuple(plain["batch_norm"])})
    wanted = (n_inputs(schema), schema.n_outputs, schema.is_classification)
    if (found.inputs, found.outputs, found.classifies) != wanted or found.size > _MOST_WEIGHTS:
        raise DPForestError(f"{path}: the network does not fit its schema")
    return found
