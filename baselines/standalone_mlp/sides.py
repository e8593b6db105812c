"""Every client trains a network on its own rows alone and keeps it; a simulation shows it for the run folder."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np

from baselines.centralized_mlp.settings import WholeSettings
from baselines.centralized_mlp.sides import train_alone
from baselines.mlp.backend import require_tensorflow
from baselines.mlp.inputs import Standard, from_outputs, model_inputs
from baselines.mlp.network import Diverged, network_for
from baselines.mlp.saved import save_network
from dpforest.errors import DPForestError
from strategies.kept_models import KeptModelsServer
from strategies.messages import to_arrays_record
from strategies.method import Arrays, ClientSide, ClientTask, ClientUpdate, Task, Update

log = logging.getLogger(__name__)

_STATE = "standalone_mlp"


class StandaloneClient(ClientSide):
    """Trains, and keeps the network in the node's own state."""

    def train(self, task: ClientTask[WholeSettings], X: np.ndarray, y: np.ndarray, arrays: Arrays) -> Update:
        settings = task.settings
        try:
            trained, standard = train_alone(task, settings, X, y, task.rng("training"))
        except Diverged as error:
            if task.simulated:
                raise
            # A server chooses the learning rate, and would see whether rows make it too large.
            log.warning("%s; this node has no network of its own", error)
            return Update()
        task.state[_STATE] = to_arrays_record({**trained, **standard})
        return Update()

    def predict(self, task: ClientTask, X: np.ndarray, arrays: Arrays) -> np.ndarray:
        own, settings = self.own_model(task), task.settings
        inputs = model_inputs(X, task.schema, settings.standardize != "public", own)
        outputs = network_for(settings.architecture(task.schema)).predict(own, inputs)
        return from_outputs(outputs, task.schema)

    def own_model(self, task: ClientTask) -> dict[str, np.ndarray]:
        kept = task.state.array_records.get(_STATE)
        if kept is None:
            raise DPForestError(
                "this client has no training rows and so no network of its own: "
                "use evaluation=row or recording with standalone_mlp"
            )
        return {name: array.numpy() for name, array in kept.items()}


class StandaloneServer(KeptModelsServer):
    """Only starts the clients, and keeps what a simulation shows of their networks."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        require_tensorflow("standalone_mlp")
        self._models: dict[int, Arrays] = {}

    def aggregate(self, exchange: int, updates: list[ClientUpdate]) -> Arrays:
        # A model without content: the networks are with the clients, who are asked to evaluate them.
        return {"clients": np.array(len(updates))}

    def take_own_model(self, client: int, arrays: Arrays) -> None:
        settings: WholeSettings = self.task.settings
        architecture = settings.architecture(self.task.schema)
        weights = architecture.check_weights(arrays)
        standard = Standard.read(arrays, architecture.inputs).to_arrays() if settings.standardize == "own" else {}
        self._models[client] = {**weights, **standard}

    def save(self, folder: Path) -> None:
        for client, arrays in sorted(self._models.items()):
            own = folder / f"client_{client:03d}"
            own.mkdir()
            save_network(own, self.task.settings.architecture(self.task.schema), self.task.schema, arrays)
