"""DP-FedAvg with a trusted server: clipped client updates, noise on their mean (McMahan et al. 2018)."""

from baselines.dp_fedavg.client import DpFedAvgClient
from baselines.dp_fedavg.releases import TRUST
from baselines.dp_fedavg.server import DpFedAvgServer
from baselines.dp_fedavg.settings import DpFedAvgSettings
from baselines.mlp.backend import require_tensorflow
from baselines.mlp.sides import local_work
from dpforest.guarantee import CLIENT_UNIT
from strategies.method import Method
from strategies.style import Style

METHODS = (
    Method(
        name="dp_fedavg",
        settings=DpFedAvgSettings,
        server=DpFedAvgServer,
        client=DpFedAvgClient,
        unit=CLIENT_UNIT,
        trust=TRUST,
        default_rounds=10,
        requires=require_tensorflow,
        style=Style("#E69F00", "v"),
        work=local_work,
    ),
)
