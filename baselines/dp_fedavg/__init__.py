"""Client-level DP-FedAvg: updates of bounded length, noise on their mean (McMahan et al. 2018).

The noise is a trusted server's, each client's own, or shared among clients by secure aggregation.
"""

from baselines.dp_fedavg.client import DpFedAvgClient
from baselines.dp_fedavg.releases import protections
from baselines.dp_fedavg.server import dp_fedavg_server
from baselines.dp_fedavg.settings import DpFedAvgSettings
from baselines.mlp.backend import require_tensorflow
from baselines.mlp.sides import local_work
from strategies.method import Method
from strategies.style import Style, shared_or

METHODS = (
    Method(
        name="dp_fedavg",
        settings=DpFedAvgSettings,
        server=dp_fedavg_server,
        client=DpFedAvgClient,
        protections=protections,
        default_rounds=20,
        requires=require_tensorflow,
        style=shared_or(Style("#E69F00", "D"), Style("#E69F00", "^")),
        work=local_work,
    ),
)
