"""Settings of a network trained on rows in one place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from baselines.mlp.settings import LocalSettings


@dataclass(frozen=True)
class WholeSettings(LocalSettings):
    """A network trained at once; there are no rounds, so ``epochs`` is the whole training.

    Parameters
    ----------
    standardize : {"public", "own"}
        ``own`` uses mean and standard deviation of the rows that the network is trained on, whose owner has them all.
    """

    standards: ClassVar[tuple[str, ...]] = ("public", "own")

    standardize: Literal["public", "private", "own"] = "own"
    epochs: int = 20
