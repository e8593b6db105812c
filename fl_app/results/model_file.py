"""Finished models in files: forests, networks, and those of other packages.

A package's own model is read by an entry point of the group ``dpforest.models``, named after its file::

    [project.entry-points."dpforest.models"]
    "votes.json" = "majority_votes:load_votes"

which is given the path and gives back a `Model`. With a method ``to_onnx`` that gives back an ``onnx.ModelProto``
such a model can be exported as well (`onnx_of`).
"""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from dpforest.errors import DPForestError
from dpforest.forest import Forest, load, to_onnx
from dpforest.own_rows import ENOUGH_ROWS, LEAST_ROWS, OwnRows
from dpforest.schema import Schema

GROUP = "dpforest.models"
_NETWORKS = ("network.json", "network.npz")


class Model(Protocol):
    """What predicts rows of a schema."""

    @property
    def schema(self) -> Schema:
        """Of its rows."""

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Class probabilities, shape (n_rows, n_classes); never asked of a regression."""

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Class indices, or targets, shape (n_rows,)."""


def load_model(path: Path) -> Model:
    """The model of a file.

    Raises
    ------
    DPForestError
        It holds none.
    """
    if path.name in _NETWORKS:
        # Only here: forests do without.
        from baselines.mlp.saved import load_network

        return load_network(path)
    for entry in entry_points(group=GROUP, name=path.name):
        found: Model = entry.load()(path)
        if not isinstance(getattr(found, "schema", None), Schema):
            raise DPForestError(f"{entry.value} gave back no model with a schema (entry point of {GROUP})")
        return found
    return load(path)


def rows_schema(model: Model) -> Schema:
    """The schema of rows as they come, also of a model that asks them on a person's own scale."""
    own: OwnRows | None = getattr(model, "own", None)
    return own.schema if own else model.schema


def rows_of_person(model: Model, X: np.ndarray) -> np.ndarray:
    """Rows as the model asks them: on the scale of the person whose rows they all are, if it wants that.

    Raises
    ------
    DPForestError
        One row has no scale of its own.
    """
    if getattr(model, "own", None) is None:
        return X
    if len(X) < LEAST_ROWS:
        raise DPForestError(
            f"{len(X)} row to predict, and the model puts all rows of a person on that person's own scale: one row has "
            f"none; give {ENOUGH_ROWS} or more rows of the person, of all that it does, without labels"
        )
    found: np.ndarray = model.of_person(X)  # type: ignore[attr-defined]
    return found


def require_forest(model: Model, what: str) -> Forest:
    """The model, if it is a forest.

    Raises
    ------
    DPForestError
    """
    if not isinstance(model, Forest):
        raise DPForestError(f"{what} is for forests, and this is a {type(model).__name__}")
    return model


def onnx_of(model: Model) -> Any:
    """The model as an ``onnx.ModelProto``.

    Raises
    ------
    DPForestError
        The package onnx is missing, or the model has no such form.
    """
    if isinstance(model, Forest):
        return to_onnx(model)
    make = getattr(model, "to_onnx", None)
    if make is None:
        raise DPForestError(
            f"a {type(model).__name__} has no ONNX form: its package must give it a method to_onnx that gives back an "
            "onnx.ModelProto"
        )
    return make()


def model_names() -> list[str]:
    """Names that files of models may have in a run's folder: forests and networks first."""
    return ["forest.json", _NETWORKS[0], *sorted(entry.name for entry in entry_points(group=GROUP))]
