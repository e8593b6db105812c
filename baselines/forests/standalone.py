"""Every client alone: it grows the trees of `strategies.one_shot`, keeps them, and predicts with them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord

from dpforest.errors import DPForestError
from dpforest.forest import pack, unpack
from dpforest.growers import balance_votes, finish_classifier
from dpforest.growers.budget import leaf_epsilon
from dpforest.ledger import Entry
from strategies.kept_models import KeptModelsServer
from strategies.messages import read_arrays, to_arrays_record
from strategies.method import Arrays, ClientSide, ClientTask, Signal, Update
from strategies.one_shot.client import grow_trees
from strategies.one_shot.server import OneShotServer

_MODEL = "arrays"


class StandaloneClient(ClientSide):
    """Grows trees and keeps them in the client's own state."""

    def train(self, task: ClientTask, X: np.ndarray, y: np.ndarray, arrays: Arrays) -> Update:
        grown = grow_trees(task, X, y)
        counts = leaf_epsilon(grown.settings, grown.epsilon, task.schema.n_features)
        finished = finish_classifier(grown.forest, grown.settings, counts)
        forest = balance_votes(finished, grown.forest, task.settings.balance)
        task.state[_MODEL] = to_arrays_record(pack(forest))
        return Update()

    def predict(self, task: ClientTask, X: np.ndarray, arrays: Arrays) -> np.ndarray:
        if not isinstance(task.state.get(_MODEL), ArrayRecord):
            raise DPForestError("this client has no model of its own; stand-alone forests need its own training rows")
        return unpack(read_arrays(task.state), task.schema, "probability").predict_proba(X)


class StandaloneServer(KeptModelsServer):
    """Only counts who has finished."""

    def planned(self) -> list[Entry]:
        return OneShotServer(self.task).planned()

    def signal(self) -> Signal:
        return replace(OneShotServer(self.task).signal(), numbers=0)

    def save(self, folder: Path) -> None:
        (folder / "README.txt").write_text("Stand-alone models never leave their clients.\n", encoding="utf-8")
