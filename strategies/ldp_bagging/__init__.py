"""LDP bagged trees: in every round each client sends one small tree, and the model is the mean of all trees.

The LDP document on wearables. ``accounting="published"`` is what it describes: splits of the raw rows and Laplace noise
on leaf values, importances and base prediction, which is no guarantee. The default spends one total epsilon.
"""

from dpforest.guarantee import NO_SERVER, RECORD_UNIT
from strategies.ldp_bagging.client import LdpBaggingClient
from strategies.ldp_bagging.rounds import work
from strategies.ldp_bagging.server import LdpBaggingServer
from strategies.ldp_bagging.settings import LdpBaggingSettings
from strategies.method import Method, Protection
from strategies.style import Style, published_or

METHODS = (
    Method(
        name="ldp_bagging",
        settings=LdpBaggingSettings,
        server=LdpBaggingServer,
        client=LdpBaggingClient,
        protections=lambda settings: (Protection(RECORD_UNIT, NO_SERVER, settings.accounting == "tight"),),
        default_rounds=3,
        style=published_or(Style("#857A00", "^"), Style("#857A00", "s", "--")),
        work=work,
    ),
)
