"""What both sides of all network methods share: the model on the wire, and standardisation by noised sums."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from baselines.mlp.architecture import Architecture, BadWeights
from baselines.mlp.backend import require_tensorflow
from baselines.mlp.inputs import (
    Standard,
    from_outputs,
    model_inputs,
    n_inputs,
    row_sums,
    row_sums_sensitivity,
    to_unit_range,
)
from baselines.mlp.network import network_for
from baselines.mlp.saved import save_network
from baselines.mlp.settings import LocalSettings, NetworkSettings, RoundSettings, products
from dpforest.errors import DPForestError
from dpforest.ledger import Budget, Entry, gaussian_mu
from dpforest.mechanisms import GaussianSums
from dpforest.schema import MOST_ROWS
from strategies.forests import LEAST_ROWS
from strategies.method import (
    Arrays,
    Charges,
    ClientSide,
    ClientTask,
    ClientUpdate,
    Released,
    ServerSide,
    Task,
    Update,
    Work,
)

SUMS = "sums"
SUMS_WHAT = "sums of features and of their squares"
PHASE = "phase"
STANDARDIZE, TRAIN = "standardize", "train"
# Inputs and first weights are of size 1, and so is what a round changes.
_LARGEST_MOVE, _LARGEST_WEIGHT = 100.0, 1000.0
# Deviations that noise is away at most.
FARTHEST = 10.0
# Of a client's sums for the standardisation: of as many rows as there may be, with noise of a thousand times as many.
_LARGEST_SUM = 1e3 * MOST_ROWS


class NetworkUser(ClientSide):
    """A client that predicts by the network in the server's model."""

    predicts_alone = False

    def inputs(self, task: ClientTask[Any], X: np.ndarray, arrays: Arrays) -> np.ndarray:
        """A client's rows as the network wants them."""
        return model_inputs(X, task.schema, task.settings.standardize != "public", arrays)

    def predict(self, task: ClientTask[NetworkSettings], X: np.ndarray, arrays: Arrays) -> np.ndarray:
        architecture = task.settings.architecture(task.schema)
        inputs = self.inputs(task, X, arrays)
        outputs = network_for(architecture).predict(architecture.check_weights(arrays), inputs)
        return from_outputs(outputs, task.schema)


class NetworkClient(NetworkUser):
    """A client that trains the server's network on its own rows."""

    def train(self, task: ClientTask[NetworkSettings], X: np.ndarray, y: np.ndarray, arrays: Arrays) -> Update:
        settings = task.settings
        phase = task.config.get(PHASE)
        if phase == STANDARDIZE and settings.standardize == "private":
            return Update(Released(task.ledger, {SUMS: standard_sums(task, X)}))
        if phase != TRAIN:
            raise DPForestError(f"the server asks for phase {phase!r}; expected {TRAIN}")
        inputs = self.inputs(task, X, arrays)
        weights = settings.architecture(task.schema).check_weights(arrays)
        return self.train_network(task, inputs, y, weights)

    @abstractmethod
    def train_network(
        self, task: ClientTask, inputs: np.ndarray, y: np.ndarray, weights: dict[str, np.ndarray]
    ) -> Update:
        """Train on the client's rows, as the network wants them, from the server's weights."""


def standardize_mechanism(settings: NetworkSettings, budget: Budget, width: int) -> GaussianSums:
    """Of the sums for the standardisation.

    Raises
    ------
    DPForestError
        The budget has no delta.
    """
    if not math.isinf(budget.epsilon) and not budget.delta:
        raise DPForestError("standardize=private adds Gaussian noise and needs privacy.delta, such as 1e-5")
    mu = math.sqrt(settings.standardize_share) * gaussian_mu(budget.epsilon, budget.delta)
    return GaussianSums(row_sums_sensitivity(width), mu)


def standardize_entries(settings: NetworkSettings, budget: Budget, width: int) -> list[Entry]:
    """What the standardisation costs each client."""
    if settings.standardize != "private":
        return []
    note = f"a row adds a vector of length sqrt(2 * {width} + 1) at most"
    return [standardize_mechanism(settings, budget, width).entry(SUMS_WHAT, note=note)]


def standard_sums(task: ClientTask, X: np.ndarray) -> np.ndarray:
    """The client's noised sums for the standardisation, charged to its ledger."""
    width = n_inputs(task.schema)
    (entry,) = standardize_entries(task.settings, task.budget, width)
    mechanism = standardize_mechanism(task.settings, task.budget, width)
    sums = row_sums(to_unit_range(X, task.schema))
    return mechanism.release(sums, entry, task.ledger, task.noise("standardize"))


def mean_weights(updates: list[ClientUpdate], architecture: Architecture, shares: list[float]) -> np.ndarray:
    """Weighted mean of the clients' weights, flat, in double precision."""
    total = np.zeros(architecture.size)
    for update, share in zip(updates, shares, strict=True):
        total += share * architecture.flatten(update.arrays)
    return total / sum(shares)


class NetworkServer(ServerSide):
    """Holds the network's weights, and standardises first if asked to.

    Parameters
    ----------
    task : Task
        With settings that are both `NetworkSettings` and `RoundSettings`.
    method : str
        Name of the method, for messages.
    """

    def __init__(self, task: Task[Any], method: str) -> None:
        super().__init__(task)
        require_tensorflow(method)
        self.method = method
        self.network: NetworkSettings = task.settings
        self.rounds: RoundSettings = task.settings
        self.architecture = self.network.architecture(task.schema)
        self.sample_size = self.rounds.sample_size(task.clients)
        self._standard: Standard | None = None
        self._before = int(self.network.standardize == "private")
        rng = np.random.default_rng(np.random.SeedSequence(task.seed, spawn_key=(0,)))
        self._flat = self.architecture.flatten(self.architecture.initial_weights(rng)).astype(np.float64)
        self._momentum = np.zeros(self.architecture.size)

    @property
    def exchanges(self) -> int:
        return self.task.rounds + self._before

    def is_round_end(self, exchange: int) -> bool:
        return exchange > self._before

    def initial_arrays(self) -> Arrays:
        return self.model()

    def start_from(self, arrays: Arrays) -> None:
        self._flat = self.architecture.flatten(self.architecture.check_weights(arrays)).astype(np.float64)

    def planned(self) -> list[Entry]:
        return standardize_entries(self.network, self.task.budget, self.architecture.inputs)

    def charges(self, exchange: int, client: int, update: ClientUpdate | None = None) -> Charges:
        first = standardize_entries(self.network, self.task.budget, self.architecture.inputs)
        if exchange <= self._before:
            return Charges(each=first)
        # Paid in advance for all rounds, by whoever trains in one.
        return Charges(once=[entry for entry in self.planned() if entry not in first])

    def participants(self, exchange: int, clients: list[int]) -> list[int]:
        return clients if exchange <= self._before else self.sample(exchange - self._before, clients)

    def sample(self, round_: int, clients: list[int]) -> list[int]:
        """Clients of a training round: a sample of fixed size, drawn anew each round."""
        rng = np.random.default_rng(np.random.SeedSequence(self.task.seed, spawn_key=(1, round_)))
        size = min(self.sample_size, len(clients))
        return sorted(int(client) for client in rng.choice(clients, size, replace=False))

    def config(self, exchange: int, client: int) -> Mapping[str, Any]:
        return {PHASE: STANDARDIZE if exchange <= self._before else TRAIN}

    def check(self, update: ClientUpdate) -> None:
        if SUMS in update.arrays:
            sums = update.arrays[SUMS]
            if sums.shape != (2 * self.architecture.inputs + 1,) or not (np.abs(sums) <= _LARGEST_SUM).all():
                raise DPForestError(
                    f"expected {2 * self.architecture.inputs + 1} sums up to {_LARGEST_SUM:g} in size, "
                    f"got {sums.shape}, the largest {np.abs(sums).max(initial=0):g}"
                )
        else:
            self._check_weights(update.arrays)

    def aggregate(self, exchange: int, updates: list[ClientUpdate]) -> Arrays | None:
        if exchange <= self._before:
            sent = [update.arrays[SUMS] for update in updates if SUMS in update.arrays]
            if not sent:
                raise DPForestError("no client sent sums to standardise the features by: use standardize=public")
            self._standard = Standard.of_sums(np.sum(sent, axis=0), self.architecture.inputs)
        else:
            trained = [update for update in updates if SUMS not in update.arrays]
            self._momentum = self.rounds.server_momentum * self._momentum + self.mean_step(
                exchange - self._before, trained
            )
            self._flat = self._flat + self.step_length * self._momentum
        return self.model()

    def _check_weights(self, arrays: Arrays) -> None:
        """Refuse weights that no training comes near, from which no honest client's training would stay finite."""
        weights = self.architecture.flatten(self.architecture.check_weights(arrays)).astype(np.float64)
        noise = self.largest_noise()
        moved, most = float(np.abs(weights - self.flat).max()), _LARGEST_MOVE + noise
        if moved > most:
            raise BadWeights(f"a weight is {moved:.3g} from that of the current model, at most {most:.3g} is trained")
        # Or else one client could lead the model there in many rounds.
        size, most = float(np.abs(weights).max()), _LARGEST_WEIGHT + self.task.rounds * noise
        if size > most:
            raise BadWeights(f"a weight is {size:.3g} in size, expected at most {most:.3g}")

    def largest_noise(self) -> float:
        """How far a client's own noise may move a weight in a round; none by default, infinite to bound no weights."""
        return 0.0

    @property
    def step_length(self) -> float:
        """Factor on the mean update."""
        return float(self.rounds.server_learning_rate)

    @abstractmethod
    def mean_step(self, round_: int, updates: list[ClientUpdate]) -> np.ndarray:
        """The clients' mean change of the weights in a round, shape (architecture.size,)."""

    @property
    def flat(self) -> np.ndarray:
        """The current weights, shape (architecture.size,), in double precision."""
        return self._flat

    def model(self) -> dict[str, np.ndarray]:
        """The current model as it goes to the clients."""
        return {**self.architecture.unflatten(self._flat), **self.standard_arrays()}

    def standard_arrays(self) -> dict[str, np.ndarray]:
        """The standardisation as it goes to the clients, if there is one."""
        return self._standard.to_arrays() if self._standard else {}

    def report(self) -> dict[str, Any]:
        return {"weights": self.architecture.size, "bytes_of_weights": 4 * self.architecture.size}

    def save(self, folder: Path) -> None:
        save_network(folder, self.architecture, self.task.schema, self.model(), self.saved_inputs())

    def saved_inputs(self) -> dict[str, Any]:
        """How rows become what the network is fed, for its file."""
        return {"schema": self.task.schema.to_dict(), "standardize": self.network.standardize}


def local_work(task: Task[LocalSettings]) -> Work:
    """Training on a client's own rows, some epochs long."""
    settings = task.settings
    rows = max(task.schema.rows or 0, LEAST_ROWS)
    steps = settings.epochs * math.ceil(rows / settings.batch)
    return Work(products=products(settings.architecture(task.schema).size, steps, settings.epochs * rows))
