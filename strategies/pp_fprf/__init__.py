"""Random forests of one's own, of all, and of users who are alike (Liu et al. 2022).

``lrf``: every user grows trees alone, and nothing leaves it. ``pp_fgrf``: all users grow one forest, level by level.
``pp_fprf``: every user grows trees with those whose data is most similar, and keeps what helps it.
``accounting="published"`` is what the paper describes and has no guarantee; the default spends one total epsilon over
all sessions that a user takes part in.
"""

from dpforest.guarantee import NO_SERVER, RECORD_UNIT
from strategies.method import Method, Protection, Scope
from strategies.pp_fprf.client import AloneClient, GlobalClient, PersonalClient
from strategies.pp_fprf.plan import alone_work, work
from strategies.pp_fprf.server import AloneServer, GlobalServer, PersonalServer
from strategies.pp_fprf.settings import GlobalSettings, PersonalSettings, TreeSettings
from strategies.style import Style, published_or

__all__ = ["METHODS", "GlobalSettings", "PersonalSettings", "TreeSettings"]

METHODS = (
    Method(
        name="lrf",
        settings=TreeSettings,
        server=AloneServer,
        client=AloneClient,
        protections=(Protection(RECORD_UNIT, NO_SERVER, True),),
        uses_rounds=False,
        scope=Scope.ALONE,
        style=Style("#661100", "D", ":"),
        work=alone_work,
    ),
    Method(
        name="pp_fgrf",
        settings=GlobalSettings,
        server=GlobalServer,
        client=GlobalClient,
        protections=lambda settings: (Protection(RECORD_UNIT, NO_SERVER, not settings.published),),
        uses_rounds=False,
        style=published_or(Style("#332288", "D", "-."), Style("#332288", "P", "--")),
        work=work,
    ),
    Method(
        name="pp_fprf",
        settings=PersonalSettings,
        server=PersonalServer,
        client=PersonalClient,
        protections=lambda settings: (Protection(RECORD_UNIT, NO_SERVER, not settings.published),),
        uses_rounds=False,
        work=work,
        comparison_methods=lambda settings: settings.comparison_settings(),
        style=published_or(Style("#AA4499", "D"), Style("#AA4499", "P", "--")),
    ),
)
