"""Settings that the network methods share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from baselines.mlp.architecture import Architecture
from baselines.mlp.inputs import n_inputs
from dpforest.errors import DPForestError
from dpforest.schema import Schema
from dpforest.settings import InnerShare, OneOf, Positive, Says, Settings, Share, Whole

Standardize = Literal["public", "private", "own"]
PublicOrPrivate = Annotated[
    Standardize,
    OneOf(("public", "private")),
    Says(
        "be public or private (own standardisation moves with every record of a client, so that only a guarantee about "
        "its whole data can have it: strategy=dp_fedavg)"
    ),
]
PublicOrOwn = Annotated[Standardize, OneOf(("public", "own"))]
ClientsPerRound = Annotated[
    Whole | InnerShare | None, Says("be a share above 0 and below 1, a whole number from 1, or null for all")
]
Optimizer = Literal["adam", "sgd"]

# What a step takes in addition to its products, as TensorFlow's calls do, in products of equal time.
_STEP = 1_000_000


def products(weights: int, steps: int, rows: float) -> int:
    """What so many steps on so many rows in all take, for `strategies.method.Work`."""
    return math.ceil(weights * rows) + steps * _STEP


@dataclass(frozen=True)
class NetworkSettings(Settings):
    """The network and what it is fed.

    The defaults are the network of the HAR chapter: two hidden layers, ReLU, dropout 0.3. The one of FEXT-DP is
    ``hidden=[100] * 6, dropout=0, batch_norm=[2, 4]`` ("six layers, in total 600 neurons").

    Parameters
    ----------
    hidden
        Units of each hidden layer; an empty list for a linear model.
    activation
        Of the hidden layers.
    dropout
        Share of units left out in training, after each hidden layer.
    batch_norm
        Hidden layers, counted from 1, with batch normalisation before their activation; not possible with noise on
        weights or gradients.
    standardize
        ``public`` maps each feature from its schema bounds to [-1, 1], along its public scale. ``private`` then also
        subtracts a mean and divides by a standard deviation, both from noised sums that clients send in an exchange
        of their own before the first round. Where the budget is infinite the noise is none.
    standardize_share
        Share of the budget (of its squared mu) for these sums.
    """

    hidden: Sequence[Whole] = (128, 64)
    activation: Literal["relu", "tanh"] = "relu"
    dropout: Share = 0.3
    batch_norm: Sequence[Whole] = ()
    standardize: PublicOrPrivate = "public"
    standardize_share: Share = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.batch_norm)) < len(self.batch_norm) or any(i > len(self.hidden) for i in self.batch_norm):
            raise DPForestError(
                f"batch_norm {list(self.batch_norm)} must name different hidden layers, from 1 to {len(self.hidden)}"
            )
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
    epochs
        Passes over the rows that a client makes before it sends its weights.
    batch
        Rows a step; the last batch of a pass may be smaller.
    optimizer
        What turns gradients into steps.
    learning_rate
        Length of a step.
    """

    epochs: Whole = 2
    batch: Whole = 32
    optimizer: Optimizer = "adam"
    learning_rate: Positive = 0.001


@dataclass(frozen=True)
class RoundSettings(Settings):
    """Who takes part in a round, and what the server does with the mean update.

    Parameters
    ----------
    clients_per_round
        A whole number of clients, a share of them below 1, or null for all.
    server_learning_rate
        Factor on the mean update.
    server_momentum
        Momentum of the mean updates (FedAvgM, Hsu et al. 2019); 0 for FedAvg.
    """

    clients_per_round: ClientsPerRound = None
    server_learning_rate: Positive = 1.0
    server_momentum: Share = 0.0

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
