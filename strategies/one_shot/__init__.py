"""One-shot private forest: every client grows its own private trees and sends them once.

Published setting: Favero et al. 2024. Default setting: the same single exchange with tight accounting, one private
choice a node among public candidates, and soft votes.
"""

from dpforest.guarantee import NO_SERVER, RECORD_UNIT
from strategies.method import Method, Protection
from strategies.one_shot.client import OneShotClient, work
from strategies.one_shot.server import OneShotServer
from strategies.one_shot.settings import OneShotSettings
from strategies.style import Style, published_or

METHODS = (
    Method(
        name="one_shot",
        settings=OneShotSettings,
        server=OneShotServer,
        client=OneShotClient,
        protections=(Protection(RECORD_UNIT, NO_SERVER, True),),
        uses_rounds=False,
        style=published_or(Style("#0072B2"), Style("#0072B2", "s", "--")),
        work=work,
    ),
)
