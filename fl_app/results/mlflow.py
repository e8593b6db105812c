"""Logging finished runs to a tracker as well: MLflow, if ``tracking=mlflow`` says so."""

from __future__ import annotations

import hashlib
import importlib
import math
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpforest.errors import DPForestError
from dpforest.texts import parse_yaml
from fl_app.engine.experiment import ConfigurationError
from fl_app.results.attack import LEVELS, Found, strongest
from fl_app.results.finished import FinishedRun, flat, read_run
from fl_app.results.mlflow_model import PYFUNC, save_pyfunc
from fl_app.results.run_folder import CONFIG, FAILED, failure_of

_STORE, _EXPERIMENT = "mlruns", "dpforest"
_METRICS, _FIGURES = "metrics.json", "figures"
_PARENT, _SWEEP = "mlflow.parentRunId", "dpforest.sweep"
# A server that does not answer costs seconds, where MLflow would try for minutes.
_PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "5"}
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
    sweep : Path, optional
        Folder of the sweep, which is the parent of its runs.
    """

    uri: str
    experiment: str
    sweep: Path | None = None

    def log(self, folder: Path) -> None:
        """Log a finished run: parameters, metrics, guarantee, ledger and all files, and its model as a pyfunc.

        Raises
        ------
        TrackingError
            The tracker cannot be reached or refuses.
        """
        run = read_run(folder)
        with self._open(f"{folder.name} is whole, but not") as (mlflow, client, experiment):
            began, ended = _written(folder / CONFIG), _written(folder / _METRICS)
            logged = self._create(client, experiment, folder, began)
            for name in ("guarantee", "unit", "trust", "record", "noise"):
                client.set_tag(logged, name, str(run.privacy.get(name, "")))
            _log_parameters(mlflow, client, logged, run.config)
            metrics = [mlflow.entities.Metric(name, value, ended, step) for name, value, step in _metrics(run)]
            for start in range(0, len(metrics), _BATCH):
                client.log_batch(logged, metrics=metrics[start : start + _BATCH])
            client.log_artifacts(logged, str(folder))
            with tempfile.TemporaryDirectory() as place:
                if save_pyfunc(folder / "model", Path(place) / PYFUNC):
                    client.log_artifacts(logged, str(Path(place) / PYFUNC), PYFUNC)
            client.set_terminated(logged, "FINISHED", ended)

    def log_failed(self, folder: Path) -> None:
        """Log a run that failed, with why.

        Raises
        ------
        TrackingError
            The tracker cannot be reached or refuses.
        """
        with self._open(f"{folder.name} failed, and is not") as (mlflow, client, experiment):
            ended = _written(folder / FAILED)
            config = folder / CONFIG
            logged = self._create(client, experiment, folder, _written(config) if config.is_file() else ended)
            client.set_tag(logged, "failure", failure_of(folder))
            if config.is_file():
                _log_parameters(mlflow, client, logged, parse_yaml(config.read_text(encoding="utf-8")))
            client.log_artifacts(logged, str(folder))
            client.set_terminated(logged, "FAILED", ended)

    def log_sweep(self, is_whole: bool) -> None:
        """Log what a sweep leaves in addition to its runs: tables, the report and its figures; and that it has ended.

        Raises
        ------
        TrackingError
            The tracker cannot be reached or refuses.
        """
        assert self.sweep is not None
        with self._open(f"{self.sweep.name} is whole, but its report is not") as (_, client, experiment):
            parent = self._parent(client, experiment, self.sweep)
            for file in sorted(path for path in self.sweep.iterdir() if path.is_file()):
                client.log_artifact(parent, str(file))
            if (figures := self.sweep / _FIGURES).is_dir():
                client.log_artifacts(parent, str(figures), _FIGURES)
            client.set_terminated(parent, "FINISHED" if is_whole else "FAILED")

    @contextmanager
    def _open(self, what: str) -> Iterator[tuple[Any, Any, str]]:
        """MLflow, its client and the number of the experiment."""
        mlflow = _mlflow()
        try:
            client = mlflow.MlflowClient(tracking_uri=self.uri)
            known = client.get_experiment_by_name(self.experiment)
            yield mlflow, client, known.experiment_id if known else client.create_experiment(self.experiment)
        except (mlflow.exceptions.MlflowException, OSError) as error:
            reason = " ".join(str(error).split())
            raise TrackingError(f"{what} in MLflow at {self.uri}: {reason}") from error

    def _create(self, client: Any, experiment: str, folder: Path, began: int) -> str:
        tags = {_PARENT: self._parent(client, experiment, self.sweep)} if self.sweep else {}
        run = client.create_run(experiment, start_time=began, tags=tags, run_name=folder.name)
        return str(run.info.run_id)

    @staticmethod
    def _parent(client: Any, experiment: str, sweep: Path) -> str:
        """The run of a sweep, also of one that goes on."""
        # Searches take no quotes inside texts, and a folder's name may have some.
        place = hashlib.sha256(str(sweep.absolute()).encode()).hexdigest()
        found = client.search_runs([experiment], f"tags.`{_SWEEP}` = '{place}'", max_results=1)
        if found:
            return str(found[0].info.run_id)
        return str(client.create_run(experiment, tags={_SWEEP: place}, run_name=sweep.name).info.run_id)


def build_tracker(settings: Mapping[str, Any], sweep: Path | None, base: Path) -> MlflowTracker | None:
    """The tracker that the configuration asks for, or None; checked before anything runs.

    ``MLFLOW_TRACKING_URI`` and ``MLFLOW_EXPERIMENT_NAME`` count where the configuration says nothing.

    Parameters
    ----------
    settings : mapping
        The group ``tracking`` of the configuration.
    sweep : Path or None
        Folder of the sweep that the runs are of.
    base : Path
        Folder in which MLflow's folder lies if nothing names a place.

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
    named = settings.get("uri") or os.environ.get("MLFLOW_TRACKING_URI")
    uri = str(named or (base / _STORE).absolute().as_uri())
    return MlflowTracker(uri, os.environ.get("MLFLOW_EXPERIMENT_NAME") or _EXPERIMENT, sweep)


def _log_parameters(mlflow: Any, client: Any, logged: str, config: Mapping[str, Any]) -> None:
    params = [mlflow.entities.Param(_name(key), str(value)[:_LONGEST]) for key, value in flat(config)]
    for start in range(0, len(params), _PARAMETERS):
        client.log_batch(logged, params=params[start : start + _PARAMETERS])


def _written(file: Path) -> int:
    """When a file was written, in milliseconds: a run writes its configuration first, and its metrics last."""
    return int(file.stat().st_mtime * 1000)


def _mlflow() -> Any:
    # MLflow 3 wants to hear that a plain folder is meant, and not a database.
    for name, value in (_PATIENCE | {"MLFLOW_ALLOW_FILE_STORE": "true"}).items():
        os.environ.setdefault(name, value)
    try:
        return importlib.import_module("mlflow")
    except ImportError:
        raise ConfigurationError('tracking=mlflow needs MLflow: pip install "dpforest[mlflow]"') from None


def _metrics(run: FinishedRun) -> Iterator[tuple[str, float, int]]:
    """Name, value and step: of the finished run at step 0, of each round under ``round/``."""
    for name, value in flat(run.metrics):
        if isinstance(value, int | float) and math.isfinite(value):
            yield _name(name), float(value), 0
    for name, found in _attacked(run.attack):
        yield _name(name), found, 0
    numbers = run.rounds.select_dtypes("number")
    for _, row in numbers.iterrows():
        for key, value in row.items():
            if key != "round" and math.isfinite(value):
                yield _name(f"round/{key}"), float(value), int(row["round"])


def _attacked(found: Found | None) -> Iterator[tuple[str, float]]:
    """What the strongest attack reached by each level of knowledge, and what epsilon allows."""
    if found is None:
        return
    for level in LEVELS:
        if line := strongest(found, level):
            yield f"attack/{level}/area", float(line["area"][0])
            yield f"attack/{level}/balanced_accuracy", float(line["balanced_accuracy"][0])
    if found["allowed"] is not None:
        yield "attack/allowed/area", float(found["allowed"]["area"])


def _name(key: str) -> str:
    """A name that MLflow takes."""
    return re.sub(r"[^\w\-./ ]", "_", key)
