"""The lower end of the scale: every client for itself."""

from baselines.centralized_mlp.settings import WholeSettings
from baselines.mlp.backend import require_tensorflow
from baselines.mlp.sides import local_work
from baselines.standalone_mlp.sides import StandaloneClient, StandaloneServer
from dpforest.ledger import RECORD_UNIT
from strategies.method import Method

METHODS = (
    Method(
        name="standalone_mlp",
        settings=WholeSettings,
        server=StandaloneServer,
        client=StandaloneClient,
        unit=RECORD_UNIT,
        trust="nobody but the client is trusted: nothing leaves it",
        self_protecting=True,
        uses_budget=False,
        requires=require_tensorflow,
        work=local_work,
    ),
)
