"""Client-level DP-FedAvg: updates of bounded length, noise on their mean (McMahan et al. 2018).

The noise is a trusted server's, each client's own, or shared among clients by secure aggregation.
"""

from collections.abc import Mapping
from typing import Any

from baselines.dp_fedavg.client import DpFedAvgClient
from baselines.dp_fedavg.releases import protections
from baselines.dp_fedavg.server import dp_fedavg_server
from baselines.dp_fedavg.settings import DpFedAvgSettings
from baselines.mlp.backend import require_tensorflow
from baselines.mlp.sides import local_work
from strategies.look import Look
from strategies.method import Method


def look(settings: Mapping[str, Any]) -> Look:
    """How figures show it; with secure aggregation, as a method of its own."""
    return Look("#E69F00", "^") if settings.get("trust") == "shared" else Look("#E69F00", "v")


METHODS = (
    Method(
        name="dp_fedavg",
        settings=DpFedAvgSettings,
        server=dp_fedavg_server,
        client=DpFedAvgClient,
        protections=protections,
        default_rounds=20,
        requires=require_tensorflow,
        look=look,
        work=local_work,
    ),
)
