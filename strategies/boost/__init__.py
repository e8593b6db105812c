"""Boosted private trees over the sums of all clients.

Each round, the server sends trees of random structure; each client adds its records' clipped gradients and counts to
their leaves and returns noised sums; the server takes a shrunken Newton step. ``noise=local``: each client's noise
protects its own sums. ``noise=distributed``: by secure aggregation the server sees the clients' total only, and
the noise of all together is that of one.
"""

from dpforest.guarantee import RECORD_UNIT
from strategies.boost.client import BoostClient
from strategies.boost.server import BoostServer
from strategies.boost.settings import FederatedBoostSettings, style, trust, work
from strategies.method import Method

METHODS = (
    Method(
        name="boost",
        settings=FederatedBoostSettings,
        server=BoostServer,
        client=BoostClient,
        unit=RECORD_UNIT,
        trust=trust,
        default_rounds=50,
        self_protecting=lambda settings: not settings.is_distributed,
        style=style,
        work=work,
    ),
)
