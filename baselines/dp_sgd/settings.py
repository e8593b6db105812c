"""Settings of record-level DP-SGD."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from baselines.mlp.calibration import ACCOUNTANTS, Accountant
from baselines.mlp.settings import NetworkSettings, RoundSettings
from dpforest.checks import check_choice, check_positive, check_share, check_whole
from dpforest.errors import DPForestError
from dpforest.ledger import Budget
from dpforest.schema import Schema


@dataclass(frozen=True)
class DpSgdSettings(NetworkSettings, RoundSettings):
    """Record-level DP-SGD.

    The defaults were chosen on validation subjects of HAPT at epsilon 0.5, 1 and 8: few steps on large batches, well
    standardised features, which are worth two fifths of the budget, and no hidden layer. The noise has a length that
    grows with the number of weights: at epsilon 1 and 8 the chapter's network (``hidden=[128, 64]``) scored less, with
    fewer settings tried for it.

    Parameters
    ----------
    hidden : sequence of int
        See `NetworkSettings`.
    dropout : float
        Off by default: the noise is regularisation enough.
    standardize, standardize_share
        See `NetworkSettings`.
    batch : int
        Expected rows of a batch. Each row is drawn into a step's batch with probability ``batch / schema.rows``, at
        most 1, which is public because the schema's number is; the true number of rows is never used.
    steps : int
        Steps a round.
    clip : float
        Largest length of the gradient of one row.
    optimizer : {"sgd", "adam"}
        What to do with a noised gradient; adds no cost.
    learning_rate : float or "auto"
        ``auto`` lets less noise walk further: ``0.3 * epsilon``, at most 1 (a hundredth of both for adam).
    momentum : float
        Of sgd.
    accountant : {"pld", "rdp"}
    """

    hidden: Sequence[int] = ()
    dropout: float = 0.0
    standardize: Literal["public", "private", "own"] = "private"
    standardize_share: float = 0.4
    batch: int = 256
    steps: int = 5
    clip: float = 1.0
    optimizer: Literal["sgd", "adam"] = "sgd"
    learning_rate: float | Literal["auto"] = "auto"
    momentum: float = 0.0
    accountant: Accountant = "pld"

    def __post_init__(self) -> None:
        if self.batch_norm:
            raise DPForestError(
                f"batch_norm {self.batch_norm} mixes the rows of a batch, so that no row can be clipped: "
                "use batch_norm=[] with dp_sgd"
            )
        NetworkSettings.__post_init__(self)
        RoundSettings.__post_init__(self)
        check_whole("batch", self.batch)
        check_whole("steps", self.steps)
        check_positive("clip", self.clip)
        check_choice("optimizer", self.optimizer, ("sgd", "adam"))
        if self.learning_rate != "auto":
            check_positive("learning_rate", self.learning_rate)
        check_share("momentum", self.momentum)
        check_choice("accountant", self.accountant, ACCOUNTANTS)

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
        return min(1.0, self.batch / schema.rows)

    def rate(self, budget: Budget) -> float:
        """The learning rate, which may follow from the budget, a public number."""
        if self.learning_rate != "auto":
            return float(self.learning_rate)
        return min(1.0, 0.3 * budget.epsilon) / (100 if self.optimizer == "adam" else 1)

    def rounds_a_client(self, rounds: int, clients: int) -> int:
        """In how many rounds of a run one client takes part, at most."""
        return math.ceil(rounds * self.sample_size(clients) / clients)
