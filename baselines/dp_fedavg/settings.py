"""Settings of client-level DP-FedAvg."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from baselines.fedavg.settings import ProximalSettings
from baselines.mlp.calibration import Accountant
from baselines.mlp.settings import Optimizer
from dpforest.errors import DPForestError
from dpforest.settings import InnerShare, Positive, Share, Whole


@dataclass(frozen=True)
class DpFedAvgSettings(ProximalSettings):
    """Client-level DP-FedAvg.

    The defaults were chosen on validation subjects of HAPT at epsilon 8. The noise on the mean has a length that grows
    with the number of weights and falls with that of clients. On one seed with 17 clients the HAR chapter's network
    scored 0.32 and one without hidden layers 0.42; the other settings were hardly tuned.

    Parameters
    ----------
    sampling
        Each client takes part in a round by an independent draw, or a sample of fixed size does.
    clip
        Largest length of a client's update; with ``adaptive_clip`` that of the first round.
    adaptive_clip
        Move the clip towards a quantile of the updates' lengths, by noised counts (Andrew et al. 2021).
    target_quantile
        That quantile.
    clip_learning_rate
        How fast the clip moves.
    accountant
        Of Poisson samples; for samples of fixed size there is the Renyi accountant only.
    server_noise
        The server draws the noise, and the samples of clients. ``seeded`` holds in simulations only: where real nodes
        take part, it is ``secure``.
    """

    hidden: Sequence[Whole] = ()
    dropout: Share = 0.0
    optimizer: Optimizer = "sgd"
    learning_rate: Positive = 0.1
    sampling: Literal["poisson", "fixed"] = "poisson"
    clip: Positive = 1.0
    adaptive_clip: bool = False
    target_quantile: InnerShare = 0.5
    clip_learning_rate: Positive = 0.2
    accountant: Accountant = "pld"
    server_noise: Literal["secure", "seeded"] = "secure"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.standardize != "public":
            raise DPForestError(
                f"standardize={self.standardize} does not protect clients, as dp_fedavg must: use standardize=public"
            )
