"""DP-FedAvg as the HAR chapter describes it (algorithm 2): to reproduce, not to use."""

from baselines.dp_fedavg_published.client import PublishedClient
from baselines.dp_fedavg_published.server import PublishedServer
from baselines.dp_fedavg_published.settings import PublishedSettings
from baselines.mlp.backend import require_tensorflow
from baselines.mlp.sides import local_work
from dpforest.guarantee import RECORD_UNIT, Trust, TrustModel
from strategies.method import Method, Protection
from strategies.style import Style

METHODS = (
    Method(
        name="dp_fedavg_published",
        settings=PublishedSettings,
        server=PublishedServer,
        client=PublishedClient,
        protections=(Protection(RECORD_UNIT, Trust("server not trusted", kind=TrustModel.LOCAL)),),
        default_rounds=10,
        requires=require_tensorflow,
        style=Style("#E69F00", "s", "--"),
        work=local_work,
    ),
)
