"""FEXT-DP: rounds of explainable private trees, of which a server keeps those that reach a threshold K.

Oliveira et al., Towards Explainable Federated Learning. ``accounting="published"`` is what the paper describes, with
its sign mended, and has no guarantee; the default spends one total epsilon over all rounds.
"""

from dpforest.guarantee import NO_SERVER, RECORD_UNIT
from strategies.fext.client import FextClient
from strategies.fext.rounds import work
from strategies.fext.server import FextServer
from strategies.fext.settings import FextSettings
from strategies.method import Method, Protection
from strategies.style import Style, published_or

METHODS = (
    Method(
        name="fext",
        settings=FextSettings,
        server=FextServer,
        client=FextClient,
        protections=lambda settings: (Protection(RECORD_UNIT, NO_SERVER, settings.accounting == "tight"),),
        style=published_or(Style("#009E73"), Style("#009E73", "s", "--")),
        work=work,
    ),
)
