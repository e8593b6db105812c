"""A run's model as its folder publishes it, whatever kind it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from dpforest.attacks.released import trees_of
from dpforest.errors import DPForestError
from dpforest.forest import Forest, load
from dpforest.noise import Seeded
from dpforest.schema import Schema
from fl_app.data.source import Rows
from fl_app.engine.experiment import Experiment
from fl_app.results.run_folder import FOREST
from strategies.method import ClientTask
from strategies.metrics import add_sums, classification_sums, regression_sums, summarize

NETWORK = "network.npz"
_OWN = "client_*.json"


class NoModel(DPForestError):
    """A folder holds no model."""


@dataclass(frozen=True, eq=False)
class Model:
    """One forest or network of all, or a forest of each client's own.

    Parameters
    ----------
    experiment : Experiment
    clients : int
    forest : Forest or None
        Of all clients.
    own : mapping of int to Forest
        Of each client, where each has its own.
    network : mapping of str to ndarray, or None
        Weights by name.
    owners : mapping of int to str
        Under which name a forest of all has the trees of a client.
    """

    experiment: Experiment
    clients: int
    forest: Forest | None
    own: Mapping[int, Forest]
    network: Mapping[str, np.ndarray] | None
    owners: Mapping[int, str]

    @classmethod
    def read(cls, folder: Path, experiment: Experiment, clients: int, names: Mapping[int, str]) -> Model:
        """Read a model folder.

        Parameters
        ----------
        names : mapping of int to str
            Under which name its trees may be those of a client.

        Raises
        ------
        NoModel
            There is none.
        DPForestError
            It is damaged.
        """
        forest = load(folder / FOREST) if (folder / FOREST).is_file() else None
        own = {int(path.stem.rpartition("_")[2]): load(path) for path in sorted(folder.glob(_OWN))}
        network = None
        if (folder / NETWORK).is_file():
            with np.load(folder / NETWORK, allow_pickle=False) as arrays:
                network = dict(arrays)
        if forest is None and not own and network is None:
            raise NoModel(f"{folder} holds no model")
        return cls(experiment, clients, forest, own, network, _owners(forest, names))

    @property
    def is_own(self) -> bool:
        """Whether each client has a model of its own."""
        return bool(self.own)

    @cached_property
    def schema(self) -> Schema:
        """Of the rows."""
        return self.experiment.schema(self.clients)

    def forest_of(self, client: int) -> tuple[Forest, np.ndarray] | None:
        """The forest that has learned from a client's rows, and which of its trees have; None for a network."""
        forest = self.own.get(client, self.forest)
        if forest is None:
            return None
        if self.owners and not self.is_own:
            return forest, trees_of(forest, self.owners.get(client, ""))
        return forest, np.arange(forest.n_trees)

    def has_owners(self) -> bool:
        """Whether each tree is known to be of one client."""
        return bool(self.owners)

    @property
    def wants_own_scale(self) -> bool:
        """Whether its trees ask rows on the scale of the client that they are of."""
        return self.forest is not None and self.forest.own is not None

    def asked(self, X: np.ndarray) -> np.ndarray:
        """All rows of one client as the model asks them."""
        return X if self.forest is None else self.forest.of_person(X)

    def predict(self, X: np.ndarray, client: int) -> np.ndarray:
        """Class probabilities, or targets, of rows as `asked`, by the model that a client's rows are in."""
        forest = self.own.get(client, self.forest)
        if forest is not None:
            return forest.predict_proba(X) if self.schema.is_classification else forest.predict(X)
        assert self.network is not None
        return np.asarray(self.experiment.method.client().predict(self._task, X, self.network))

    @property
    def clients_may_choose(self) -> bool:
        """Whether clients of the run predicted by it, or by models of their own that are not saved."""
        return self.experiment.method.client().may_choose_own_model(self._task)

    def score(self, metric: str, rows: Mapping[int, Rows]) -> float | None:
        """A metric of a model on the rows of each client; None where it is not defined."""
        of_rows = classification_sums if self.schema.is_classification else regression_sums
        sums = [of_rows(part.y, self.predict(self.asked(part.X), client)) for client, part in rows.items() if len(part)]
        return summarize(add_sums(sums)).get(metric)

    @cached_property
    def _task(self) -> ClientTask:
        task = self.experiment.task(self.clients)
        ledger = self.experiment.protection.ledger(self.experiment.budget, task.schema)
        noise = Seeded(np.random.SeedSequence(0))
        return ClientTask.of(
            task, ledger=ledger, noise=lambda what: noise, rng=lambda what: np.random.default_rng(0), simulated=True
        )


def _owners(forest: Forest | None, names: Mapping[int, str]) -> dict[int, str]:
    """By client, the name of its trees; none where the trees are of all, or cannot be distinguished."""
    found: Sequence[str] = [owner for owner in dict.fromkeys(forest.owners) if owner] if forest else []
    if not found:
        return {}
    if set(found) <= set(names.values()):
        return {client: name for client, name in names.items() if name in found}
    # Names that were drawn anew, in the order of clients.
    return dict(zip(sorted(names), found, strict=True)) if len(found) == len(names) else {}
