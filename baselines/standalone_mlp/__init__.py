"""The lower end of the scale: every client for itself."""

from baselines.centralized_mlp.settings import WholeSettings
from baselines.mlp.backend import require_tensorflow
from baselines.mlp.sides import local_work
from baselines.standalone_mlp.sides import StandaloneClient, StandaloneServer
from dpforest.guarantee import RECORD_UNIT, Trust, TrustModel
from strategies.method import Method, Protection, Scope
from strategies.style import Style

METHODS = (
    Method(
        name="standalone_mlp",
        settings=WholeSettings,
        server=StandaloneServer,
        client=StandaloneClient,
        protections=(
            Protection(
                RECORD_UNIT, Trust("nobody but the client is trusted", "nothing leaves it", kind=TrustModel.LOCAL), True
            ),
        ),
        uses_rounds=False,
        uses_budget=False,
        requires=require_tensorflow,
        scope=Scope.ALONE,
        style=Style("#6B6B6B", "X", "--"),
        work=local_work,
    ),
)
