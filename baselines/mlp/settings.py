"""Settings that the network methods share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from baselines.mlp.architecture import Architecture
from baselines.mlp.inputs import n_inputs
from dpforest.checks import check_choice, check_positive, check_share, check_whole
from dpforest.errors import DPForestError
from dpforest.schema import Schema

# What a step takes beside its products, as TensorFlow's calls do, in products of equal time.
_STEP = 1_000_000


def products(weights: int, steps: int, rows: float) -> int:
    """What so many steps on so many rows in all take, for `strategies.method.Work`."""
    return math.ceil(weights * rows) + steps * _STEP


@dataclass(frozen=True)
class NetworkSettings:
    """The network and what it is fed.

    The defaults are the network of the HAR chapter: two hidden layers, ReLU, dropout 0.3. The one of FEXT-DP is
    ``hidden=[100] * 6, dropout=0, batch_norm=[2, 4]`` ("six layers, in total 600 neurons").

    Parameters
    ----------
    hidden : sequence of int
        Units of each hidden layer; empty for a linear model.
    activation : {"relu", "tanh"}
        Of the hidden layers.
    dropout : float
        Share of units left out in training, after each hidden layer.
    batch_norm : sequence of int
        Hidden layers, counted from 1, with batch normalisation before their activation.
    standardize : {"public", "private"}
        ``public`` maps each feature from its schema bounds to [-1, 1], along its public scale. ``private`` then also
        subtracts a mean and divides by a standard deviation, both from noised sums that clients send in an exchange
        of their own before the first round. Where the budget is infinite the noise is none.
    standardize_share : float
        Share of the budget (of its squared mu) for these sums.
    """

    # What standardize may be.
    standards: ClassVar[tuple[str, ...]] = ("public", "private")

    hidden: Sequence[int] = (128, 64)
    activation: Literal["relu", "tanh"] = "relu"
    dropout: float = 0.3
    batch_norm: Sequence[int] = ()
    standardize: Literal["public", "private", "own"] = "public"
    standardize_share: float = 0.1

    def __post_init__(self) -> None:
        for name in ("hidden", "batch_norm"):
            value = getattr(self, name)
            if isinstance(value, str) or not isinstance(value, Sequence):
                raise DPForestError(f"{name} {value!r} must be a list of whole numbers")
            for number in value:
                check_whole(name, number)
            object.__setattr__(self, name, tuple(value))
        if len(set(self.batch_norm)) < len(self.batch_norm) or any(i > len(self.hidden) for i in self.batch_norm):
            raise DPForestError(
                f"batch_norm {list(self.batch_norm)} must name different hidden layers, from 1 to {len(self.hidden)}"
            )
        check_choice("activation", self.activation, ("relu", "tanh"))
        check_share("dropout", self.dropout)
        check_choice("standardize", self.standardize, self.standards)
        check_share("standardize_share", self.standardize_share)
        if self.standardize == "private" and not self.standardize_share:
            raise DPForestError("standardize_share 0 leaves nothing for standardize=private; use standardize=public")

    def architecture(self, schema: Schema) -> Architecture:
        """The network for rows of that schema."""
        return Architecture(
            inputs=n_inputs(schema),
            outputs=schema.n_outputs,
            classifies=schema.is_classification,
            hidden=tuple(self.hidden),
            activation=self.activation,
            dropout=float(self.dropout),
            batch_norm=tuple(self.batch_norm),
        )


@dataclass(frozen=True)
class LocalSettings(NetworkSettings):
    """How a network is trained on rows without noise.

    Parameters
    ----------
    epochs : int
        Passes over the rows.
    batch : int
        Rows a step; the last batch of a pass may be smaller.
    optimizer : {"adam", "sgd"}
    learning_rate : float
    """

    epochs: int = 2
    batch: int = 32
    optimizer: Literal["adam", "sgd"] = "adam"
    learning_rate: float = 0.001

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("epochs", self.epochs)
        check_whole("batch", self.batch)
        check_choice("optimizer", self.optimizer, ("adam", "sgd"))
        check_positive("learning_rate", self.learning_rate)


@dataclass(frozen=True)
class RoundSettings:
    """Who takes part in a round, and what the server does with the mean update.

    Parameters
    ----------
    clients_per_round : int, float or None
        A whole number of clients, a share of them below 1, or None for all.
    server_learning_rate : float
        Factor on the mean update.
    server_momentum : float
        Momentum of the mean updates (FedAvgM, Hsu et al. 2019); 0 for FedAvg.
    """

    clients_per_round: int | float | None = None
    server_learning_rate: float = 1.0
    server_momentum: float = 0.0

    def __post_init__(self) -> None:
        number = self.clients_per_round
        if isinstance(number, float):
            if not 0 < number < 1:
                raise DPForestError(
                    f"clients_per_round {number} must be a share above 0 and below 1, a whole number, or null for all"
                )
        elif number is not None:
            check_whole("clients_per_round", number)
        check_positive("server_learning_rate", self.server_learning_rate)
        check_share("server_momentum", self.server_momentum)

    def sample_size(self, clients: int) -> int:
        """Clients a round, of that many.

        Raises
        ------
        DPForestError
            More are asked for than there are.
        """
        number = self.clients_per_round
        if number is None:
            return clients
        if isinstance(number, float):
            return max(1, round(number * clients))
        if number > clients:
            raise DPForestError(f"clients_per_round {number} is more than the {clients} clients that train")
        return number
