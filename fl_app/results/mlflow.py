"""Logging finished runs to a tracker as well: MLflow, if ``tracking=mlflow`` says so."""

from __future__ import annotations

import importlib
import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpforest.errors import DPForestError
from fl_app.engine.experiment import ConfigurationError
from fl_app.results.finished import FinishedRun, flat, read_run

if TYPE_CHECKING:
    pass

_STORE = "mlruns"
_BATCH = 500  # MLflow takes at most 1000 metrics and 100 parameters at a time
_PARAMETERS = 100
_LONGEST = 500  # characters of a parameter's value


class TrackingError(DPForestError):
    """A run could not be logged to the tracker; its run folder is whole."""


@dataclass(frozen=True)
class MlflowTracker:
    """Logs run folders to MLflow.

    Parameters
    ----------
    uri : str
        Of a server, a database or a folder.
    experiment : str
        Name of the MLflow experiment; made if it is not there.
    """

    uri: str
    experiment: str

    def log(self, folder: Path) -> None:
        """Log a finished run: parameters, metrics at the end and of each round, guarantee, ledger, and all files.

        Raises
        ------
        TrackingError
            The tracker cannot be reached or refuses.
        """
        mlflow = _mlflow()
        run = read_run(folder)
        entities = mlflow.entities
        try:
            client = mlflow.MlflowClient(tracking_uri=self.uri)
            known = client.get_experiment_by_name(self.experiment)
            number = known.experiment_id if known else client.create_experiment(self.experiment)
            logged = client.create_run(number, run_name=folder.name).info.run_id
            for name in ("guarantee", "unit", "trust", "record", "noise"):
                client.set_tag(logged, name, str(run.privacy.get(name, "")))
            params = [entities.Param(_name(key), str(value)[:_LONGEST]) for key, value in flat(run.config)]
            for start in range(0, len(params), _PARAMETERS):
                client.log_batch(logged, params=params[start : start + _PARAMETERS])
            metrics = [entities.Metric(name, value, 0, step) for name, value, step in _metrics(run)]
            for start in range(0, len(metrics), _BATCH):
                client.log_batch(logged, metrics=metrics[start : start + _BATCH])
            client.log_artifacts(logged, str(folder))
            client.set_terminated(logged)
        except (mlflow.exceptions.MlflowException, OSError) as error:
            reason = " ".join(str(error).split())
            raise TrackingError(f"{folder.name} is whole, but not in MLflow at {self.uri}: {reason}") from error


def build_tracker(settings: Mapping[str, Any], experiment: str, base: Path) -> MlflowTracker | None:
    """The tracker that the configuration asks for, or None; checked before anything runs.

    Parameters
    ----------
    settings : mapping
        The group ``tracking`` of the configuration.
    experiment : str
        Name that the runs share.
    base : Path
        Folder in which MLflow's folder lies if no ``uri`` is given.

    Raises
    ------
    ConfigurationError
        The kind is unknown, or MLflow is not installed.
    """
    kind = settings.get("kind")
    if kind is None:
        return None
    if kind != "mlflow":
        raise ConfigurationError(f"tracking.kind {kind!r} must be mlflow, or null for none")
    _mlflow()
    return MlflowTracker(str(settings.get("uri") or (base / _STORE).absolute().as_uri()), experiment)


def _mlflow() -> Any:
    # MLflow 3 wants to hear that a plain folder is meant, and not a database.
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    try:
        return importlib.import_module("mlflow")
    except ImportError:
        raise ConfigurationError('tracking=mlflow needs MLflow: pip install "dpforest[mlflow]"') from None


def _metrics(run: FinishedRun) -> Iterator[tuple[str, float, int]]:
    """Name, value and step: of the finished run at step 0, of each round under ``round/``."""
    for name, value in flat(run.metrics):
        if isinstance(value, int | float) and math.isfinite(value):
            yield _name(name), float(value), 0
    numbers = run.rounds.select_dtypes("number")
    for _, row in numbers.iterrows():
        for key, value in row.items():
            if key != "round" and math.isfinite(value):
                yield _name(f"round/{key}"), float(value), int(row["round"])


def _name(key: str) -> str:
    """A name that MLflow takes."""
    return re.sub(r"[^\w\-./ ]", "_", key)
