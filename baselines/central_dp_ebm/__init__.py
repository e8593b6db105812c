"""An explainable boosting machine with differential privacy (Nori et al. 2021) on all rows in one place.

The model and its noise are interpret-core's. What its proof covers is in `baselines.central_dp_ebm.releases`.
"""

from baselines.central_dp_ebm.model import require_interpret
from baselines.central_dp_ebm.releases import TRUST
from baselines.central_dp_ebm.settings import DpEbmSettings
from baselines.central_dp_ebm.sides import DpEbmClient, DpEbmServer
from dpforest.guarantee import RECORD_UNIT
from strategies.method import Method, Protection, Scope, Work
from strategies.style import Style

METHODS = (
    Method(
        name="central_dp_ebm",
        settings=DpEbmSettings,
        server=DpEbmServer,
        client=DpEbmClient,
        uses_rounds=False,
        protections=(Protection(RECORD_UNIT, TRUST),),
        requires=require_interpret,
        scope=Scope.POOLED,
        style=Style("#E69F00", "X"),
        work=lambda task: Work(),
    ),
)
