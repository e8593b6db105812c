"""Settings of a network trained on rows in one place."""

from __future__ import annotations

from dataclasses import dataclass

from baselines.mlp.settings import LocalSettings, PublicOrOwn
from dpforest.settings import Whole


@dataclass(frozen=True)
class WholeSettings(LocalSettings):
    """A network trained at once; there are no rounds, so ``epochs`` is the whole training.

    Parameters
    ----------
    standardize
        ``own`` uses mean and standard deviation of the rows that the network is trained on, whose owner has them all;
        ``public`` the schema's bounds alone.
    standardize_share
        Not used: nothing is noised here.
    epochs
        Passes over all rows.
    """

    standardize: PublicOrOwn = "own"
    epochs: Whole = 20
