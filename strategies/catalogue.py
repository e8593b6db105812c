"""The forest methods under the names that the field gives them, as Flower strategies."""

from __future__ import annotations

from typing import ClassVar

from strategies.federation.private import ForestStrategy, ModelStrategy


class OneShotForest(ForestStrategy):
    """Every client grows private trees and sends them once (Favero et al. 2024).

    Options: `strategies.one_shot.settings.OneShotSettings`.

    Examples
    --------
    >>> from dpforest.schema import Feature, Schema
    >>> schema = Schema((Feature("age", 0, 120, "years"),), "state", classes=("ill", "well"))
    >>> strategy = OneShotForest(schema, epsilon=1.0, trees=10)
    >>> result = strategy.start(grid)  # in a ServerApp  # doctest: +SKIP
    >>> result.guarantee, result.forest.n_trees  # doctest: +SKIP
    """

    method: ClassVar[str] = "one_shot"


class FextDP(ForestStrategy):
    """Federated extra trees with differential privacy (FEXT-DP); options: `strategies.fext.settings.FextSettings`.

    Examples
    --------
    >>> from dpforest.schema import Feature, Schema
    >>> schema = Schema((Feature("age", 0, 120, "years"),), "state", classes=("ill", "well"))
    >>> strategy = FextDP(schema, epsilon=1.0, depth=4)
    >>> result = strategy.start(grid)  # in a ServerApp  # doctest: +SKIP
    """

    method: ClassVar[str] = "fext"


class PrivateBoosting(ForestStrategy):
    """Boosted trees from noised sums; options: `strategies.boost.settings.FederatedBoostSettings`.

    Examples
    --------
    >>> from dpforest.schema import Feature, Schema
    >>> schema = Schema((Feature("age", 0, 120, "years"),), "state", classes=("ill", "well"))
    >>> strategy = PrivateBoosting(schema, epsilon=1.0, delta=1e-6, trust="shared")
    >>> result = strategy.start(grid)  # in a ServerApp  # doctest: +SKIP
    """

    method: ClassVar[str] = "boost"


class LDPBagging(ForestStrategy):
    """Bagged trees of rows under local noise; options: `strategies.ldp_bagging.settings.LdpBaggingSettings`.

    Examples
    --------
    >>> from dpforest.schema import Feature, Schema
    >>> schema = Schema((Feature("age", 0, 120, "years"),), "state", classes=("ill", "well"))
    >>> strategy = LDPBagging(schema, epsilon=1.0)
    >>> result = strategy.start(grid)  # in a ServerApp  # doctest: +SKIP
    """

    method: ClassVar[str] = "ldp_bagging"


class PPFPRF(ModelStrategy):
    """Personal forests of users who are alike (Liu et al. 2022).

    Each client ends with a forest of its own, which a real node keeps to itself. Options:
    `strategies.pp_fprf.settings.PersonalSettings`.

    Examples
    --------
    >>> from dpforest.schema import Feature, Schema
    >>> schema = Schema((Feature("age", 0, 120, "years"),), "state", classes=("ill", "well"))
    >>> strategy = PPFPRF(schema, epsilon=20.0, k=3)
    >>> result = strategy.start(grid)  # in a ServerApp  # doctest: +SKIP
    """

    method: ClassVar[str] = "pp_fprf"


class PPFGRF(ForestStrategy):
    """One forest that all users grow level by level (Liu et al. 2022).

    Options: `strategies.pp_fprf.settings.GlobalSettings`.

    Examples
    --------
    >>> from dpforest.schema import Feature, Schema
    >>> schema = Schema((Feature("age", 0, 120, "years"),), "state", classes=("ill", "well"))
    >>> strategy = PPFGRF(schema, epsilon=20.0)
    >>> result = strategy.start(grid)  # in a ServerApp  # doctest: +SKIP
    """

    method: ClassVar[str] = "pp_fgrf"
