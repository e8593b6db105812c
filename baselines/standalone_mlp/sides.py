"""Every client trains a network on its own rows alone and keeps it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord

from baselines.centralized_mlp.settings import WholeSettings
from baselines.centralized_mlp.sides import train_alone
from baselines.mlp.backend import require_tensorflow
from baselines.mlp.inputs import from_outputs, model_inputs
from baselines.mlp.network import network_for
from dpforest.errors import DPForestError
from dpforest.ledger import Entry
from strategies.method import Arrays, ClientSide, ClientTask, ClientUpdate, ServerSide, Task, Update

_STATE = "standalone_mlp"


class StandaloneClient(ClientSide):
    """Trains, and keeps the network in the node's own state."""

    def train(self, task: ClientTask, X: np.ndarray, y: np.ndarray, arrays: Arrays) -> Update:
        settings: WholeSettings = task.settings
        trained, standard = train_alone(task, settings, X, y, task.rng("training"))
        task.state[_STATE] = ArrayRecord({name: Array(array) for name, array in {**trained, **standard}.items()})
        return Update({})

    def predict(self, task: ClientTask, X: np.ndarray, arrays: Arrays) -> np.ndarray:
        kept = task.state.array_records.get(_STATE)
        if kept is None:
            raise DPForestError(
                "this client has no training rows and so no network of its own: "
                "use evaluation=row or recording with standalone_mlp"
            )
        settings: WholeSettings = task.settings
        own = {name: array.numpy() for name, array in kept.items()}
        inputs = model_inputs(X, task.schema, settings.standardize != "public", own)
        outputs = network_for(settings.architecture(task.schema)).predict(own, inputs)
        return from_outputs(outputs, task.schema)


class StandaloneServer(ServerSide):
    """Has nothing to do but to start the clients."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        require_tensorflow("standalone_mlp")

    @property
    def exchanges(self) -> int:
        return 1

    def planned(self) -> list[Entry]:
        return []

    def aggregate(self, round_: int, updates: list[ClientUpdate]) -> Arrays:
        # A model without content: the networks are with the clients, who are asked to judge them.
        return {"clients": np.array(len(updates))}

    def save(self, folder: Path) -> None:
        """Write nothing: the networks stay with the clients."""
