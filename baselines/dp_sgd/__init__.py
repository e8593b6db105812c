"""Record-level DP-SGD with an untrusted server: in each client (Abadi et al. 2016), or with noise that all share."""

from baselines.dp_sgd.client import DpSgdClient
from baselines.dp_sgd.releases import protections, work
from baselines.dp_sgd.server import dp_sgd_server
from baselines.dp_sgd.settings import DpSgdSettings
from baselines.mlp.backend import require_tensorflow
from strategies.method import Method
from strategies.style import Style, shared_or

METHODS = (
    Method(
        name="dp_sgd",
        settings=DpSgdSettings,
        server=dp_sgd_server,
        client=DpSgdClient,
        protections=protections,
        default_rounds=10,
        requires=require_tensorflow,
        style=shared_or(Style("#CC79A7", "v"), Style("#CC79A7", "^")),
        work=work,
    ),
)
