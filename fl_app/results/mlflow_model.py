"""Models of runs as MLflow's pyfunc: a data frame in, predictions by the names of the schema out, and no pickle."""

from __future__ import annotations

import importlib
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dpforest import __version__
from dpforest.schema import Schema
from fl_app.results.model_file import Model, load_model, model_names, rows_of_person, rows_schema

PYFUNC = "pyfunc"


class PyfuncModel:
    """What MLflow asks for predictions.

    Parameters
    ----------
    model : Model
    """

    def __init__(self, model: Model) -> None:
        self._model = model

    def predict(self, model_input: pd.DataFrame, params: Any = None) -> pd.DataFrame:
        """Predictions of a data frame with the columns of the schema, in any order.

        Where the model asks rows on a person's own scale, all of them are taken to be of one person.
        """
        schema = rows_schema(self._model)
        X, _ = schema.check_matrix(schema.matrix(model_input))
        X = rows_of_person(self._model, X)
        if not schema.is_classification:
            return pd.DataFrame({"prediction": self._model.predict(X)})
        probability = self._model.predict_proba(X)
        found = {"prediction": np.array(schema.classes, dtype=object)[np.argmax(probability, axis=1)]}
        return pd.DataFrame(found | {f"probability_{name}": probability[:, c] for c, name in enumerate(schema.classes)})


def _load_pyfunc(data_path: str) -> PyfuncModel:
    """MLflow's way in."""
    return PyfuncModel(load_model(_models_in(Path(data_path))[0]))


def save_pyfunc(folder: Path, place: Path) -> bool:
    """Write the model of a run as a pyfunc with a signature; False where the run has no single one.

    Parameters
    ----------
    folder : Path
        The run's ``model``.
    place : Path
        Folder to make.
    """
    named = _models_in(folder)
    if not named:
        return False
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(?s).*input example", UserWarning)  # rows are nobody's to log
        importlib.import_module("mlflow.pyfunc").save_model(
            str(place),
            loader_module=__name__,
            data_path=str(folder),
            signature=_signature(rows_schema(load_model(named[0]))),
            pip_requirements=[f"dpforest=={__version__}"],
        )
    return True


def _models_in(folder: Path) -> list[Path]:
    return [folder / name for name in model_names() if (folder / name).is_file()]


def _signature(schema: Schema) -> Any:
    types = importlib.import_module("mlflow.types")
    inputs = [types.ColSpec("string" if name in schema.categories else "double", name) for name in schema.columns]
    outputs = [types.ColSpec("string" if schema.is_classification else "double", "prediction")]
    outputs += [types.ColSpec("double", f"probability_{name}") for name in schema.classes]
    return importlib.import_module("mlflow.models").ModelSignature(types.Schema(inputs), types.Schema(outputs))
