"""Settings of FedAvg."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from baselines.mlp.settings import LocalSettings, RoundSettings
from dpforest.checks import check_choice, check_from_zero


@dataclass(frozen=True)
class ProximalSettings(LocalSettings, RoundSettings):
    """Local training without noise, from the server's weights and back to it.

    Parameters
    ----------
    proximal : float
        Pull of the server's weights in local training (mu of FedProx, Li et al. 2020); 0 for FedAvg.
    """

    proximal: float = 0.0

    def __post_init__(self) -> None:
        LocalSettings.__post_init__(self)
        RoundSettings.__post_init__(self)
        check_from_zero("proximal", self.proximal)


@dataclass(frozen=True)
class FedAvgSettings(ProximalSettings):
    """FedAvg. Guarantees nothing, so that its budget is infinite and the sums that standardise carry no noise.

    The number of epochs was chosen on validation subjects of HAPT with standardize=public, where 10 rounds of 5 epochs
    reached what 20 rounds of the HAR chapter's 2 epochs did.

    Parameters
    ----------
    weights : {"records", "equal"}
        ``records`` weighs a client by its number of rows, which it sends in clear.
    """

    standardize: Literal["public", "private", "own"] = "private"
    epochs: int = 5
    weights: Literal["records", "equal"] = "records"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("weights", self.weights, ("records", "equal"))
