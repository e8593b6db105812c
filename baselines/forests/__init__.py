"""Forest reference points: every client alone, with privacy and without, and all rows in one place."""

from baselines.forests.alone import AloneClient, AloneServer, AloneSettings
from baselines.forests.alone import work as alone_work
from baselines.forests.centralized import CentralizedClient, CentralizedServer, CentralizedSettings
from baselines.forests.standalone import StandaloneClient, StandaloneServer
from dpforest.guarantee import RECORD_UNIT, Trust, TrustModel
from strategies.method import Method, Protection, Scope, Work
from strategies.one_shot.client import work
from strategies.one_shot.settings import OneShotSettings
from strategies.style import Style

METHODS = (
    Method(
        name="standalone",
        settings=OneShotSettings,
        server=StandaloneServer,
        client=StandaloneClient,
        protections=(
            Protection(RECORD_UNIT, Trust("nothing but test metrics leaves a client", kind=TrustModel.LOCAL), True),
        ),
        uses_rounds=False,
        scope=Scope.ALONE,
        style=Style("#6B6B6B", "P"),
        work=work,
    ),
    Method(
        name="alone",
        settings=AloneSettings,
        server=AloneServer,
        client=AloneClient,
        protections=(
            Protection(RECORD_UNIT, Trust("nothing but test metrics leaves a client", kind=TrustModel.LOCAL)),
        ),
        uses_rounds=False,
        uses_budget=False,
        scope=Scope.ALONE,
        style=Style("#857A00", "P", "--"),
        work=alone_work,
    ),
    Method(
        name="centralized",
        settings=CentralizedSettings,
        server=CentralizedServer,
        client=CentralizedClient,
        protections=(Protection(RECORD_UNIT, Trust("server sees all rows", kind=TrustModel.CENTRAL)),),
        uses_rounds=False,
        uses_budget=False,
        scope=Scope.POOLED,
        style=Style("#000000", "P"),
        work=lambda task: Work(),
    ),
)
