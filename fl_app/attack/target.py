"""A finished run as an attacker has it: its model, and the records that may have been in it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from dpforest import __version__
from dpforest.errors import DPForestError
from fl_app.attack.model import Model, NoModel
from fl_app.data.source import Rows
from fl_app.engine.experiment import Experiment
from fl_app.results.finished import FinishedRun, read_run
from fl_app.results.run_folder import FAILED, client_names, failure_of, is_finished
from strategies.metrics import primary_metric

# How far a score of the saved model may be from that of the run, by rounding of single precision.
_SAME = 0.005


class CannotAttack(DPForestError):
    """A run cannot be attacked: something that an attack needs is not there."""


@dataclass(frozen=True, eq=False)
class Pool:
    """Records of one client that may have been in its training rows.

    Parameters
    ----------
    X, y : ndarray
        Its training rows first, then its test rows where these were drawn at random from the same records.
    trained : int
        How many are training rows.
    """

    X: np.ndarray
    y: np.ndarray
    trained: int

    @property
    def in_training(self) -> np.ndarray:
        """Which of its records the attacked run trained on."""
        return np.arange(len(self.y)) < self.trained

    @property
    def share(self) -> float:
        """Chance with which shadow models learn from a record: as the run did, or a half where all records trained."""
        return self.trained / len(self.y) if self.trained < len(self.y) else 0.5


@dataclass(frozen=True, eq=False)
class Target:
    """A finished run that is attacked.

    Parameters
    ----------
    run : FinishedRun
    experiment : Experiment
    clients : int
        All that took part, also those with test rows only.
    pools : mapping of int to Pool
        By training client.
    """

    run: FinishedRun
    experiment: Experiment
    clients: int
    pools: Mapping[int, Pool]

    @classmethod
    def of(cls, folder: Path) -> Target:
        """Read a run folder, with the rows of its data set.

        Raises
        ------
        DPForestError
            It is no finished run, has no model, is of another version, or its rows are not there any more.
        """
        if (folder / FAILED).is_file():
            raise CannotAttack(f"{folder} holds a run that failed ({failure_of(folder)}): attack one that finished")
        if not is_finished(folder):
            raise CannotAttack(f"{folder} holds no finished run: give the folder of one, such as dpforest run writes")
        run = read_run(folder)
        if (written := run.privacy.get("dpforest")) != __version__:
            raise CannotAttack(
                f"{folder} was written by dpforest {written}, and this is {__version__}: shadow models would be others "
                "than its model; attack it with that version, or run it again"
            )
        experiment = Experiment.from_dict({key: value for key, value in run.config.items() if key != "overrides"})
        if experiment.source.on_nodes:
            raise CannotAttack(
                f"{folder}: the rows of this run lie on its nodes, and an attack is measured on rows: simulate the run"
            )
        # Clients that take no part, as some do where subjects are held out, are in no table.
        everybody = experiment.evaluation.split == "subject"
        clients = experiment.partition.count(experiment.source) if everybody else len(run.clients)
        target = cls(run, experiment, clients, _pools(experiment, clients, folder))
        target._check_rows()
        return target

    @cached_property
    def model(self) -> Model:
        """The released model.

        Raises
        ------
        CannotAttack
            There is none.
        """
        left_out = {int(client) for client in self.run.metrics.get("left_out", {})}
        contributors = [client for client in self.pools if client not in left_out]
        names = client_names(self.experiment, str(self.run.privacy["noise"]), contributors)
        try:
            return Model.read(self.run.folder / "model", self.experiment, self.clients, names)
        except NoModel:
            raise CannotAttack(
                f"{self.run.folder} holds no model, so there is nothing to attack: strategy={self.run.method} "
                "publishes none, or model/ was removed (run it again)"
            ) from None

    @property
    def spends(self) -> bool:
        """Whether the method has a use for epsilon, so that the same run without noise is another one."""
        return self.experiment.method.uses_budget and math.isfinite(self.run.epsilon)

    @cached_property
    def score(self) -> float | None:
        """What the saved model has on the test rows in the metric by which methods are compared.

        None where it has none, or where clients have models of their own.
        """
        metric = primary_metric(self.run.metrics)
        return None if self.model.is_own else self.model.score(metric.name, self._test_rows)

    def _check_rows(self) -> None:
        """Refuse rows that are not those of the run: the saved model must score on them as it did.

        Where clients could prefer a model of their own, the metrics are not of the saved one, and classes are held.
        """
        if self.experiment.evaluation.clients is not None:
            return  # the metrics are of some clients' rows
        if self.model.clients_may_choose:
            self._check_classes()
            return
        metric = primary_metric(self.run.metrics)
        said = self.run.metrics.get(metric.name)
        if said is None or self.score is None or abs(self.score - said) <= _SAME:
            return
        raise CannotAttack(
            f"{self.run.folder}: the saved model has {metric.label} {self.score:.4f} on the test rows that are here, "
            f"and {said:.4f} in metrics.json: the data or the model is not that of the run any more; run it again"
        )

    def _check_classes(self) -> None:
        if "confusion" not in self.run.metrics:
            return
        said = np.sum(self.run.metrics["confusion"], axis=1)
        y = np.concatenate([part.y for part in self._test_rows.values()]).astype(np.int64)
        if (np.bincount(y, minlength=len(said)) != said).any():
            raise CannotAttack(
                f"{self.run.folder}: the test rows that are here have other classes than metrics.json counts: the data "
                "is not that of the run any more; run it again"
            )

    @cached_property
    def _test_rows(self) -> dict[int, Rows]:
        return {client: self.experiment.client_data(client, self.clients).test for client in range(self.clients)}


def _pools(experiment: Experiment, clients: int, folder: Path) -> dict[int, Pool]:
    # Only rows that were drawn at random differ from the training rows in nothing but that they were not drawn.
    alike = experiment.evaluation.split == "row" and experiment.partition.kind not in ("overlap", "user_types")
    pools = {}
    try:
        for client, role in enumerate(experiment.roles(clients)):
            if role == "train":
                rows = experiment.client_data(client, clients)
                others = rows.test if alike else rows.test.take([])
                X = np.concatenate([rows.train.X, others.X])
                pools[client] = Pool(X, np.concatenate([rows.train.y, others.y]), len(rows.train))
    except (DPForestError, OSError) as error:
        raise CannotAttack(f"{folder}: the data of this run is not there any more: {error}") from error
    return {client: pool for client, pool in pools.items() if len(pool.y)}
