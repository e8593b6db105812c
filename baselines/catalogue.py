"""The baselines under the names that the field gives them, as Flower strategies."""

from __future__ import annotations

from typing import ClassVar

from strategies.federation.private import ModelStrategy


class FedAvg(ModelStrategy):
    """Federated averaging without privacy; options: `baselines.fedavg.settings.FedAvgSettings`."""

    method: ClassVar[str] = "fedavg"


class DPFedAvg(ModelStrategy):
    """Clipped client updates and noise on their mean, by a trusted server (McMahan et al. 2018).

    Options: `baselines.dp_fedavg.settings.DpFedAvgSettings`.
    """

    method: ClassVar[str] = "dp_fedavg"


class DPSGD(ModelStrategy):
    """Record-level DP-SGD in each client, with an untrusted server (Abadi et al. 2016).

    Options: `baselines.dp_sgd.settings.DpSgdSettings`.
    """

    method: ClassVar[str] = "dp_sgd"
