"""The upper end of the scale: all rows in one place."""

from baselines.centralized_mlp.settings import WholeSettings
from baselines.centralized_mlp.sides import CentralizedClient, CentralizedServer
from baselines.mlp.backend import require_tensorflow
from dpforest.guarantee import RECORD_UNIT, Trust, TrustModel
from strategies.method import Method, Protection, Scope, Work
from strategies.style import Style

METHODS = (
    Method(
        name="centralized_mlp",
        settings=WholeSettings,
        server=CentralizedServer,
        client=CentralizedClient,
        protections=(Protection(RECORD_UNIT, Trust("server trusted with every row", kind=TrustModel.CENTRAL)),),
        uses_rounds=False,
        uses_budget=False,
        requires=require_tensorflow,
        scope=Scope.POOLED,
        style=Style("#000000", "X", "--"),
        work=lambda task: Work(),
    ),
)
