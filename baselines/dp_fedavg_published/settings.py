"""Settings of the chapter's DP-FedAvg."""

from __future__ import annotations

from dataclasses import dataclass

from baselines.mlp.settings import LocalSettings, RoundSettings
from dpforest.checks import check_positive


@dataclass(frozen=True)
class PublishedSettings(LocalSettings, RoundSettings):
    """The chapter's DP-FedAvg, with 5 clients a round.

    Parameters
    ----------
    clip : float
        Largest length of the gradient of a batch, and the factor of the noise.
    """

    clients_per_round: int | float | None = 5
    clip: float = 1.0

    def __post_init__(self) -> None:
        LocalSettings.__post_init__(self)
        RoundSettings.__post_init__(self)
        check_positive("clip", self.clip)
