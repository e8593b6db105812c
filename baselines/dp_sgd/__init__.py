"""Record-level DP-SGD with an untrusted server: in each client (Abadi et al. 2016), or with noise that all share."""

from collections.abc import Mapping
from typing import Any

from baselines.dp_sgd.client import DpSgdClient
from baselines.dp_sgd.releases import protections, work
from baselines.dp_sgd.server import dp_sgd_server
from baselines.dp_sgd.settings import DpSgdSettings
from baselines.mlp.backend import require_tensorflow
from strategies.method import Method
from strategies.style import Style


def style(settings: Mapping[str, Any]) -> Style:
    """How figures show it; with secure aggregation, as a method of its own."""
    return Style("#CC79A7", "^") if settings.get("trust") == "shared" else Style("#CC79A7", "v")


METHODS = (
    Method(
        name="dp_sgd",
        settings=DpSgdSettings,
        server=dp_sgd_server,
        client=DpSgdClient,
        protections=protections,
        default_rounds=10,
        requires=require_tensorflow,
        style=style,
        work=work,
    ),
)
