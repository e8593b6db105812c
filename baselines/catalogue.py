"""The baselines under the names that the field gives them, as Flower strategies."""

from __future__ import annotations

from typing import ClassVar

from strategies.federation.private import ModelStrategy


class FedAvg(ModelStrategy):
    """Federated averaging without privacy; options: `baselines.fedavg.settings.FedAvgSettings`.

    Examples
    --------
    >>> from dpforest.schema import Feature, Schema
    >>> schema = Schema((Feature("age", 0, 120, "years"),), "state", classes=("ill", "well"))
    >>> strategy = FedAvg(schema)
    >>> result = strategy.start(grid)  # in a ServerApp  # doctest: +SKIP
    """

    method: ClassVar[str] = "fedavg"


class DPFedAvg(ModelStrategy):
    """Clipped client updates and noise on their mean, by a trusted server (McMahan et al. 2018).

    Options: `baselines.dp_fedavg.settings.DpFedAvgSettings`.

    Examples
    --------
    >>> from dpforest.schema import Feature, Schema
    >>> schema = Schema((Feature("age", 0, 120, "years"),), "state", classes=("ill", "well"))
    >>> strategy = DPFedAvg(schema, epsilon=3.0, delta=1e-5)
    >>> result = strategy.start(grid)  # in a ServerApp  # doctest: +SKIP
    """

    method: ClassVar[str] = "dp_fedavg"


class DPSGD(ModelStrategy):
    """Record-level DP-SGD in each client, with an untrusted server (Abadi et al. 2016).

    Options: `baselines.dp_sgd.settings.DpSgdSettings`.

    Examples
    --------
    >>> from dpforest.schema import Feature, Schema
    >>> schema = Schema((Feature("age", 0, 120, "years"),), "state", classes=("ill", "well"))
    >>> strategy = DPSGD(schema, epsilon=1.0, delta=1e-6)
    >>> result = strategy.start(grid)  # in a ServerApp  # doctest: +SKIP
    """

    method: ClassVar[str] = "dp_sgd"
