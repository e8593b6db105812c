"""Private boosting: trees of random structure, filled with noised sums of clipped gradients.

Each round, every record adds its clipped gradient of the loss and a count to one leaf of each new tree; the sums are
noised, and a shrunken Newton step follows. The structure is random, so only sums are asked, which add up over data
owners: with secure aggregation the noise of all of them together need not be more than that of one.

Where data is small, a linear part learns with the trees, from the same gradients; see `dpforest.boosting.linear`.
"""

from dpforest.boosting.booster import Booster, Layout, Round, Start
from dpforest.boosting.client_level import ClientPlan, ClientRows, OwnBooster, make_client_plan
from dpforest.boosting.fit import boost
from dpforest.boosting.linear import Standard
from dpforest.boosting.records import Records, release_marginals, release_moments
from dpforest.boosting.settings import BoostPlan, BoostSettings, make_plan
from dpforest.boosting.trees import Structure

__all__ = [
    "BoostPlan",
    "BoostSettings",
    "Booster",
    "ClientPlan",
    "ClientRows",
    "Layout",
    "OwnBooster",
    "Records",
    "Round",
    "Standard",
    "Start",
    "Structure",
    "boost",
    "make_client_plan",
    "make_plan",
    "release_marginals",
    "release_moments",
]
