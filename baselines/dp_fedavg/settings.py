"""Settings of client-level DP-FedAvg."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from baselines.fedavg.settings import ProximalSettings
from baselines.mlp.calibration import Accountant
from baselines.mlp.settings import Optimizer, PublicOrOwn
from dpforest.errors import DPForestError
from dpforest.settings import Auto, InnerShare, Positive, Range, Share, Whole
from strategies.secure_aggregation.sharing import SharingSettings


@dataclass(frozen=True)
class DpFedAvgSettings(ProximalSettings, SharingSettings):
    """Client-level DP-FedAvg, under each trust model.

    The defaults were chosen on validation people of HAPT, HuGaDB and the WISDM watch. Under noise the mean update has a
    length that grows with the number of weights and falls with that of clients, so that few people learn a linear model
    best, on features that each person standardises by itself.

    Parameters
    ----------
    standardize
        ``own`` puts each client's rows on its own scale, by its own rows; free at the level of a client. A new person
        does the same with its own rows, without labels. ``public`` maps features from their schema bounds to [-1, 1].
    own_scale
        With ``own``: less the mean over the deviation (``z``), or by rank (``ranks``).
    update
        ``unit`` sends the direction of a client's update only, ``clip`` an update of at most that length.
    balance
        Exponent of a class's rows by which its rows weigh less in a client's training: 0 counts rows, 1 classes.
    server_learning_rate
        Factor on the mean update; ``auto``: 1 for ``update=clip``, and for ``unit`` what puts about the same noise on
        every score, however many clients and rounds there are, at most a way of 1 in all towards a regression's target.
    sampling
        With ``privacy.trust=central``: each client takes part in a round by an independent draw, or a sample of fixed
        size does.
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
        Where the server is trusted, it draws the noise, and the samples of clients. ``seeded`` holds in simulations
        only: where real nodes take part, it is ``secure``.
    """

    hidden: Sequence[Whole] = ()
    dropout: Share = 0.0
    standardize: PublicOrOwn = "own"
    own_scale: Literal["z", "ranks"] = "z"
    update: Literal["unit", "clip"] = "unit"
    balance: Annotated[float, Range(0, 1)] = 0.5
    optimizer: Optimizer = "sgd"
    learning_rate: Positive = 0.1
    server_learning_rate: Positive | Auto = "auto"  # type: ignore[assignment]
    sampling: Literal["poisson", "fixed"] = "poisson"
    clip: Positive = 1.0
    adaptive_clip: bool = False
    target_quantile: InnerShare = 0.5
    clip_learning_rate: Positive = 0.2
    accountant: Accountant = "pld"
    server_noise: Literal["secure", "seeded"] = "secure"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.adaptive_clip and self.update == "unit":
            raise DPForestError("adaptive_clip moves a clip, which update=unit has none of: use update=clip")
