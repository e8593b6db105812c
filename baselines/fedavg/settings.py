"""Settings of FedAvg."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from baselines.mlp.settings import LocalSettings, PublicOrPrivate, RoundSettings
from dpforest.settings import Range, Whole


@dataclass(frozen=True)
class ProximalSettings(LocalSettings, RoundSettings):
    """Local training without noise, from the server's weights and back to it.

    Parameters
    ----------
    proximal
        Pull of the server's weights in local training (mu of FedProx, Li et al. 2020); 0 for FedAvg.
    """

    proximal: Annotated[float, Range(0)] = 0.0


@dataclass(frozen=True)
class FedAvgSettings(ProximalSettings):
    """FedAvg. Guarantees nothing, so that its budget is infinite and the sums that standardise carry no noise.

    The number of epochs was chosen on validation subjects of HAPT with standardize=public, where 10 rounds of 5 epochs
    reached what 20 rounds of the HAR chapter's 2 epochs did.

    Parameters
    ----------
    weights
        ``records`` weighs a client by its number of rows, which it sends in clear.
    """

    standardize: PublicOrPrivate = "private"
    epochs: Whole = 5
    weights: Literal["records", "equal"] = "records"
