"""Settings of record-level DP-SGD."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from baselines.mlp.architecture import Architecture
from baselines.mlp.calibration import Accountant
from baselines.mlp.inputs import n_inputs
from baselines.mlp.settings import NetworkSettings, PublicOrPrivate, RoundSettings
from dpforest.errors import DPForestError
from dpforest.guarantee import TrustModel
from dpforest.ledger import Budget, gaussian_mu
from dpforest.schema import Schema
from dpforest.settings import Auto, Positive, Range, Share, Whole
from strategies.method import Task
from strategies.secure_aggregation.sharing import SharingSettings

_MANY_ROWS = 10_000
# Inside these, no clipped gradient overflows or loses digits, in single precision too.
CLIPS = (1e-6, 1e6)


@dataclass(frozen=True)
class Recipe:
    """What to train and how; see `DpSgdSettings`."""

    hidden: tuple[int, ...]
    batch: int
    steps: int
    momentum: float
    learning_rate: float | Literal["auto"]


# Of `shared_recipe`. Signals (mu times rows) below which only small clips and linear models learn, and above which rows
# may be clipped to more.
_FAINT, _CLEAR = 500.0, 20_000.0
_ROWS_A_FEATURE = 30
_STEPS_A_SIGNAL, _FEWEST_STEPS, _MOST_STEPS = 1.5, 50, 200
_LINEAR_RATE = 120.0
_STANDARDIZE = 5.0

_FOR_FEW_ROWS = Recipe(hidden=(), batch=256, steps=5, momentum=0.0, learning_rate="auto")
_FOR_MANY_ROWS = Recipe(hidden=(64,), batch=4096, steps=40, momentum=0.9, learning_rate=0.5)


@dataclass(frozen=True)
class _Settled(Recipe):
    """`Recipe` with what else may be ``auto``."""

    clip: float
    standardize_share: float


def public_rows(schema: Schema) -> int:
    """The public number of rows of a client.

    Raises
    ------
    DPForestError
        The schema has none.
    """
    if schema.rows is None:
        raise DPForestError(
            "dp_sgd needs the schema's public number of rows of a client (rows: ...): neither the probability batch / "
            "rows with which a row is drawn nor the number that sums are divided by may depend on the data"
        )
    return schema.rows


def shared_recipe(schema: Schema, budget: Budget, rounds: int, clients: int) -> _Settled:
    """What ``auto`` means where every row is in every step and the noise is that of one.

    What decides is how far all rows together stand out of the noise, ``mu`` times their public number; chosen on
    validation people of HAPT and validation rows of WISDM.
    """
    records = public_rows(schema) * clients
    mu = gaussian_mu(budget.epsilon, budget.delta)
    signal = mu * records
    # A network has more weights than few or faint rows can say something about. Nothing bounds how far its squared
    # error bends, so that no step of a regression is known to be short enough.
    faint = signal < _FAINT or records < _ROWS_A_FEATURE * schema.n_features
    linear = faint or not schema.is_classification
    steps = min(max(_STEPS_A_SIGNAL * math.sqrt(signal), _FEWEST_STEPS), _MOST_STEPS)
    return _Settled(
        hidden=() if linear else (128,),
        batch=1,
        steps=math.ceil(steps / rounds),
        momentum=0.9,
        learning_rate=_linear_rate(schema) if linear else 3.0,
        clip=0.3 if signal < _FAINT else 1.0 if signal < _CLEAR else 4.0,
        standardize_share=min(max(_STANDARDIZE / math.sqrt(signal), 0.02), 0.2),
    )


def _linear_rate(schema: Schema) -> float:
    """A linear model's loss is as curved as its inputs are long."""
    if schema.is_classification:
        return min(1.0, _LINEAR_RATE / schema.n_features)
    # A squared error is as curved as the mean squared length of standardised inputs at most, which they reach where all
    # move together. With a momentum of .9, steps are stable below 3.8 over that.
    return 1 / (n_inputs(schema) + 1)


@dataclass(frozen=True)
class DpSgdSettings(NetworkSettings, RoundSettings, SharingSettings):
    """Record-level DP-SGD, under noise of each client or of all together.

    ``auto`` follows from the schema's public number of rows a client. Below 10,000 it means few steps of a linear model
    on large batches: the noise has a length that grows with the number of weights. It was chosen on validation subjects
    of HAPT at epsilon 0.5, 1 and 8, with standardised features, which are worth two fifths of the budget. From 10,000
    rows on, noise is small next to a batch, and what counts is to walk far enough: 400 steps of a network with one
    hidden layer, chosen on validation rows of HuGaDB at epsilon 0.1, 1 and 10.

    With ``privacy.trust=shared`` every row of every client is in every step, each of which is a secure sum, and
    ``auto`` follows from the public number of all rows, of features, and the budget (`shared_recipe`).

    Parameters
    ----------
    hidden
        Units of each hidden layer; ``auto`` is none, or ``[64]`` for many rows.
    dropout
        Share of units left out in training; off by default, as the noise is regularisation enough.
    batch
        Expected rows of a batch; ``auto`` is 256, or 4096 for many rows. Each row is drawn into a step's batch with
        probability ``batch / schema.rows``, at most 1, which is public because the schema's number is; the true number
        of rows is never used.
    steps
        Steps a round; ``auto`` is 5, or 40 for many rows.
    clip
        Largest length of the gradient of one row; ``auto`` is 1.
    standardize_share
        Share of the budget (of its squared mu) for the sums of ``standardize=private``; ``auto`` is 0.4.
    optimizer
        What to do with a noised gradient; adds no cost.
    learning_rate
        ``auto`` lets less noise walk further: ``0.3 * epsilon``, at most 1 (a hundredth of both for adam). For many
        rows it is 0.5 for sgd. Of a regression, sgd begins with that and halves it after steps that went too far, as
        far as the noise lets a client see.
    momentum
        Of sgd; ``auto`` is 0, or 0.9 for many rows.
    accountant
        How the steps' costs are added up: by their privacy loss distribution, or by Renyi divergences.
    """

    hidden: Sequence[Whole] | Auto = "auto"  # type: ignore[assignment]  # settled before anybody reads it
    dropout: Share = 0.0
    standardize: PublicOrPrivate = "private"
    standardize_share: Share | Auto = "auto"  # type: ignore[assignment]
    batch: Whole | Auto = "auto"
    steps: Whole | Auto = "auto"
    clip: Annotated[float, Range(*CLIPS)] | Auto = "auto"
    optimizer: Literal["sgd", "adam"] = "sgd"
    learning_rate: Positive | Auto = "auto"
    momentum: Share | Auto = "auto"
    accountant: Accountant = "pld"

    def __post_init__(self) -> None:
        if isinstance(self.batch_norm, list | tuple) and self.batch_norm:
            raise DPForestError(
                f"batch_norm {self.batch_norm} mixes the rows of a batch, so that no row can be clipped: "
                "use batch_norm=[] with dp_sgd"
            )
        super().__post_init__()

    def recipe(self, schema: Schema) -> Recipe:
        """What is set, and what ``auto`` means for the schema's public number of rows."""
        auto = _FOR_MANY_ROWS if (schema.rows or 0) >= _MANY_ROWS else _FOR_FEW_ROWS
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(auto)}
        if self.optimizer == "adam" and values["learning_rate"] == "auto":
            auto = dataclasses.replace(auto, learning_rate="auto")
        return dataclasses.replace(auto, **{name: value for name, value in values.items() if value != "auto"})

    def architecture(self, schema: Schema) -> Architecture:
        """The network for rows of that schema."""
        settled = self if self.hidden != "auto" else dataclasses.replace(self, hidden=self.recipe(schema).hidden)
        return NetworkSettings.architecture(settled, schema)

    def settled(self, task: Task[DpSgdSettings]) -> DpSgdSettings:
        """These settings with numbers in place of every ``auto``, by public facts alone.

        Raises
        ------
        DPForestError
            A setting means nothing under the trust model, or the schema has no public number of rows.
        """
        if task.trust is not TrustModel.SHARED:
            # An automatic rate stays one: of a regression it may fall in the course of a run.
            recipe = vars(self.recipe(task.schema)) | {"learning_rate": self.learning_rate}
            auto = _Settled(**recipe, clip=1.0, standardize_share=0.4)
        else:
            self._refuse_what_samples_need()
            auto = shared_recipe(task.schema, task.budget, task.rounds, task.clients)
        values = {name: getattr(self, name) for name in vars(auto)}
        return dataclasses.replace(
            self, **{name: getattr(auto, name) for name, value in values.items() if value == "auto"}
        )

    def _refuse_what_samples_need(self) -> None:
        usual = {"batch": "auto", "optimizer": "sgd", "clients_per_round": None,
                 "server_learning_rate": 1.0, "server_momentum": 0.0}  # fmt: skip
        for name, value in usual.items():
            if getattr(self, name) != value:
                raise DPForestError(
                    f"{name} {getattr(self, name)} means nothing with privacy.trust=shared, where every row of every "
                    "client is in every step: leave it out, or use privacy.trust=local"
                )

    def probability(self, schema: Schema) -> float:
        """Public probability with which a row is drawn into a batch.

        Raises
        ------
        DPForestError
            The schema has no public number of rows.
        """
        return min(1.0, self.recipe(schema).batch / public_rows(schema))

    def rate(self, schema: Schema, budget: Budget) -> float:
        """The learning rate, which may follow from the budget, a public number."""
        rate = self.recipe(schema).learning_rate
        if rate != "auto":
            return float(rate)
        return min(1.0, 0.3 * budget.epsilon) / (100 if self.optimizer == "adam" else 1)

    def rounds_a_client(self, rounds: int, clients: int) -> int:
        """In how many rounds of a run one client takes part, at most."""
        return math.ceil(rounds * self.sample_size(clients) / clients)
