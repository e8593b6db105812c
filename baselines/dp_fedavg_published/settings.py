"""Settings of the chapter's DP-FedAvg."""

from __future__ import annotations

from dataclasses import dataclass

from baselines.mlp.settings import ClientsPerRound, LocalSettings, RoundSettings
from dpforest.settings import Positive


@dataclass(frozen=True)
class PublishedSettings(LocalSettings, RoundSettings):
    """The chapter's DP-FedAvg, with 5 of 30 clients a round, adam (its algorithm 2 writes sgd) and public bounds.

    Parameters
    ----------
    clip
        Largest length of the gradient of a batch, and the factor of the noise.
    """

    clients_per_round: ClientsPerRound = 5
    clip: Positive = 1.0
