"""Settings of record-level DP-SGD."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from baselines.mlp.architecture import Architecture
from baselines.mlp.calibration import ACCOUNTANTS, Accountant
from baselines.mlp.settings import NetworkSettings, RoundSettings
from dpforest.checks import check_choice, check_number, check_positive, check_share, check_whole
from dpforest.errors import DPForestError
from dpforest.ledger import Budget
from dpforest.schema import Schema

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


_FOR_FEW_ROWS = Recipe(hidden=(), batch=256, steps=5, momentum=0.0, learning_rate="auto")
_FOR_MANY_ROWS = Recipe(hidden=(64,), batch=4096, steps=40, momentum=0.9, learning_rate=0.5)


@dataclass(frozen=True)
class DpSgdSettings(NetworkSettings, RoundSettings):
    """Record-level DP-SGD.

    ``auto`` follows from the schema's public number of rows a client. Below 10,000 it means few steps of a linear model
    on large batches: the noise has a length that grows with the number of weights. It was chosen on validation subjects
    of HAPT at epsilon 0.5, 1 and 8, with standardised features, which are worth two fifths of the budget. From 10,000
    rows on, noise is small beside a batch, and what counts is to walk far enough: 400 steps of a network with one
    hidden layer, chosen on validation rows of HuGaDB at epsilon 0.1, 1 and 10.

    Parameters
    ----------
    hidden : sequence of int or "auto"
        See `NetworkSettings`; ``auto`` is none, or ``[64]`` for many rows.
    dropout : float
        Off by default: the noise is regularisation enough.
    standardize, standardize_share
        See `NetworkSettings`.
    batch : int or "auto"
        Expected rows of a batch; ``auto`` is 256, or 4096 for many rows. Each row is drawn into a step's batch with
        probability ``batch / schema.rows``, at most 1, which is public because the schema's number is; the true number
        of rows is never used.
    steps : int or "auto"
        Steps a round; ``auto`` is 5, or 40 for many rows.
    clip : float
        Largest length of the gradient of one row.
    optimizer : {"sgd", "adam"}
        What to do with a noised gradient; adds no cost.
    learning_rate : float or "auto"
        ``auto`` lets less noise walk further: ``0.3 * epsilon``, at most 1 (a hundredth of both for adam). For many
        rows it is 0.5 for sgd.
    momentum : float or "auto"
        Of sgd; ``auto`` is 0, or 0.9 for many rows.
    accountant : {"pld", "rdp"}
    """

    hidden: Sequence[int] | Literal["auto"] = "auto"  # type: ignore[assignment]  # settled before anybody reads it
    dropout: float = 0.0
    standardize: Literal["public", "private", "own"] = "private"
    standardize_share: float = 0.4
    batch: int | Literal["auto"] = "auto"
    steps: int | Literal["auto"] = "auto"
    clip: float = 1.0
    optimizer: Literal["sgd", "adam"] = "sgd"
    learning_rate: float | Literal["auto"] = "auto"
    momentum: float | Literal["auto"] = "auto"
    accountant: Accountant = "pld"

    def __post_init__(self) -> None:
        if self.hidden == "auto":
            object.__setattr__(self, "batch_norm", dataclasses.replace(self, hidden=()).batch_norm)
            return
        if self.batch_norm:
            raise DPForestError(
                f"batch_norm {self.batch_norm} mixes the rows of a batch, so that no row can be clipped: "
                "use batch_norm=[] with dp_sgd"
            )
        NetworkSettings.__post_init__(self)
        RoundSettings.__post_init__(self)
        for name in ("batch", "steps"):
            if getattr(self, name) != "auto":
                check_whole(name, getattr(self, name))
        check_number("clip", self.clip, *CLIPS)
        check_choice("optimizer", self.optimizer, ("sgd", "adam"))
        if self.learning_rate != "auto":
            check_positive("learning_rate", self.learning_rate)
        if self.momentum != "auto":
            check_share("momentum", self.momentum)
        check_choice("accountant", self.accountant, ACCOUNTANTS)

    def recipe(self, schema: Schema) -> Recipe:
        """What is set, and what ``auto`` means for the schema's public number of rows."""
        auto = _FOR_MANY_ROWS if (schema.rows or 0) >= _MANY_ROWS else _FOR_FEW_ROWS
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(auto)}
        if self.optimizer == "adam" and values["learning_rate"] == "auto":
            auto = dataclasses.replace(auto, learning_rate="auto")
        return dataclasses.replace(auto, **{name: value for name, value in values.items() if value != "auto"})

    def architecture(self, schema: Schema) -> Architecture:
        """The network for rows of that schema."""
        return NetworkSettings.architecture(dataclasses.replace(self, hidden=self.recipe(schema).hidden), schema)

    def probability(self, schema: Schema) -> float:
        """Public probability with which a row is drawn into a batch.

        Raises
        ------
        DPForestError
            The schema has no public number of rows.
        """
        if schema.rows is None:
            raise DPForestError(
                "dp_sgd needs the schema's public number of rows of a client (rows: ...), since the probability "
                "batch / rows with which a row is drawn must not depend on the data"
            )
        return min(1.0, self.recipe(schema).batch / schema.rows)

    def rate(self, schema: Schema, budget: Budget) -> float:
        """The learning rate, which may follow from the budget, a public number."""
        rate = self.recipe(schema).learning_rate
        if rate != "auto":
            return float(rate)
        return min(1.0, 0.3 * budget.epsilon) / (100 if self.optimizer == "adam" else 1)

    def rounds_a_client(self, rounds: int, clients: int) -> int:
        """In how many rounds of a run one client takes part, at most."""
        return math.ceil(rounds * self.sample_size(clients) / clients)
