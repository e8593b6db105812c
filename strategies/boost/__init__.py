"""Boosted private trees over the sums of all clients.

Each round, the server sends trees of random structure; each client adds its records' clipped gradients and counts to
their leaves and returns noised sums; the server takes a shrunken Newton step. ``trust=local``: each client's noise
protects its own sums. ``trust=shared``: by secure aggregation the server sees the clients' total only, and
the noise of all together is that of one.
"""

from strategies.boost.client import BoostClient
from strategies.boost.client_level import boost_server
from strategies.boost.settings import FederatedBoostSettings, protections, work
from strategies.method import Method
from strategies.style import Style, shared_or

METHODS = (
    Method(
        name="boost",
        settings=FederatedBoostSettings,
        server=boost_server,
        client=BoostClient,
        protections=protections,
        default_rounds=50,
        style=shared_or(Style("#D55E00"), Style("#882255", "^")),
        work=work,
    ),
)
