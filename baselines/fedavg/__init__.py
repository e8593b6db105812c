"""FedAvg of a network (McMahan et al. 2017), with server momentum and a proximal term as settings."""

from baselines.fedavg.client import FedAvgClient
from baselines.fedavg.server import FedAvgServer
from baselines.fedavg.settings import FedAvgSettings
from baselines.mlp.backend import require_tensorflow
from baselines.mlp.sides import local_work
from dpforest.guarantee import RECORD_UNIT, Trust, TrustModel
from strategies.method import Method, Protection
from strategies.style import Style

METHODS = (
    Method(
        name="fedavg",
        settings=FedAvgSettings,
        server=FedAvgServer,
        client=FedAvgClient,
        protections=(
            Protection(RECORD_UNIT, Trust("server trusted with every client's weights", kind=TrustModel.CENTRAL)),
        ),
        default_rounds=10,
        uses_budget=False,
        requires=require_tensorflow,
        style=Style("#56B4E9", "v"),
        work=local_work,
    ),
)
