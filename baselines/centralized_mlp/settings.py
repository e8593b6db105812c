"""Settings of a network trained on rows in one place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from baselines.mlp.settings import LocalSettings
from dpforest.errors import DPForestError


@dataclass(frozen=True)
class WholeSettings(LocalSettings):
    """A network trained at once; there are no rounds, so ``epochs`` is the whole training.

    Features are standardised by the rows that the network is trained on, which leave nobody that does not have them.
    """

    standardize: Literal["public", "private", "clear"] = "clear"
    epochs: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.standardize == "private":
            raise DPForestError("standardize=private is for rows that stay with the clients: use standardize=clear")
