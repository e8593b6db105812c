"""The lower end of the scale: every client for itself."""

from baselines.centralized_mlp.settings import WholeSettings
from baselines.mlp.backend import require_tensorflow
from baselines.mlp.sides import local_work
from baselines.standalone_mlp.sides import StandaloneClient, StandaloneServer
from dpforest.guarantee import RECORD_UNIT, Trust
from strategies.method import Method
from strategies.style import Style

METHODS = (
    Method(
        name="standalone_mlp",
        settings=WholeSettings,
        server=StandaloneServer,
        client=StandaloneClient,
        unit=RECORD_UNIT,
        trust=Trust("nobody but the client is trusted", "nothing leaves it"),
        self_protecting=True,
        uses_budget=False,
        requires=require_tensorflow,
        style=Style("#6B6B6B", "X", "--"),
        work=local_work,
    ),
)
