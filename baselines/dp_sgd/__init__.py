"""Record-level DP-SGD in each client, with an untrusted server (Abadi et al. 2016)."""

from baselines.dp_sgd.client import DpSgdClient
from baselines.dp_sgd.releases import work
from baselines.dp_sgd.server import DpSgdServer
from baselines.dp_sgd.settings import DpSgdSettings
from baselines.mlp.backend import require_tensorflow
from dpforest.guarantee import NO_SERVER, RECORD_UNIT
from strategies.method import Method, Protection
from strategies.style import Style

METHODS = (
    Method(
        name="dp_sgd",
        settings=DpSgdSettings,
        server=DpSgdServer,
        client=DpSgdClient,
        protections=(Protection(RECORD_UNIT, NO_SERVER, True),),
        default_rounds=10,
        requires=require_tensorflow,
        style=Style("#CC79A7", "v"),
        work=work,
    ),
)
