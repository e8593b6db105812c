"""Every client alone, without privacy: a scikit-learn forest on its own rows, which never leaves it.

What a client has without any federation. Nothing is sent, so there is nothing to protect from others.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord

from baselines.forests.centralized import CentralizedSettings, grow_forest
from dpforest.errors import DPForestError
from dpforest.forest import pack, unpack
from dpforest.settings import Whole
from strategies.forests import MODEL_LIMITS, own_nodes
from strategies.kept_models import KeptModelsServer
from strategies.messages import read_arrays, to_arrays_record
from strategies.method import Arrays, ClientSide, ClientTask, Task, Update, Work

_MODEL = "arrays"


@dataclass(frozen=True)
class AloneSettings(CentralizedSettings):
    """A scikit-learn forest of each client's own.

    Parameters
    ----------
    max_rows
        Rows of a client that train at most, drawn at random from its own; more cost time and change little.
    """

    max_rows: Whole = 20_000


def work(task: Task[AloneSettings]) -> Work:
    """All its trees, which follow its rows down to small leaves."""
    return Work(nodes=own_nodes(task.settings.trees, task.settings.depth, task.settings.max_rows))


class AloneClient(ClientSide):
    """Grows a forest on its own rows and keeps it in the client's own state; in simulations only.

    No real node is asked: its owner needs no federation for such a forest, and metrics of it would tell about rows.
    """

    def train(self, task: ClientTask[AloneSettings], X: np.ndarray, y: np.ndarray, arrays: Arrays) -> Update:
        if not task.simulated:
            raise DPForestError("strategy alone is for simulations: on its own rows a node needs no server")
        if len(y):
            forest = grow_forest(task.settings, task.schema, X, y, task.rng("forest"))
            task.state[_MODEL] = to_arrays_record(pack(forest))
        return Update()

    def predict(self, task: ClientTask, X: np.ndarray, arrays: Arrays) -> np.ndarray:
        if not isinstance(task.state.get(_MODEL), ArrayRecord):
            raise DPForestError("this client has no forest of its own: who is alone needs training rows of its own")
        kept = read_arrays(task.state)
        if task.schema.is_classification:
            return unpack(kept, task.schema, "probability", limits=MODEL_LIMITS).predict_proba(X)
        return unpack(kept, task.schema, "target", limits=MODEL_LIMITS).predict(X)


class AloneServer(KeptModelsServer):
    """Only counts who has finished."""

    def save(self, folder: Path) -> None:
        (folder / "README.txt").write_text("Each client's own forest never leaves it.\n", encoding="utf-8")
