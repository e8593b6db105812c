"""Private boosting on one table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, fields
from typing import Annotated, Any, Self

from dpforest.boosting import BoostSettings, boost
from dpforest.cells import Missing
from dpforest.errors import InvalidForest
from dpforest.estimators.base import plain_number
from dpforest.estimators.classifier import PrivateClassifier
from dpforest.estimators.regressor import PrivateRegressor
from dpforest.ledger import Ledger
from dpforest.noise import Noise
from dpforest.schema import Schema
from dpforest.settings import Range, check_setting


@dataclass(kw_only=True, repr=False, eq=False)
class _Boosting:
    """What both estimators have as parameters of the method."""

    delta: float = 1e-6
    rounds: int = 50
    trees_per_round: int | str = BoostSettings.trees_per_round
    depth: int | str = BoostSettings.depth
    pure: bool = BoostSettings.pure
    clip: float | str = BoostSettings.clip
    count_share: float = BoostSettings.count_share
    marginal_share: float = BoostSettings.marginal_share
    bins: int = BoostSettings.bins
    cuts: int = BoostSettings.cuts
    step: float | str = BoostSettings.step
    shrinkage: float | str = BoostSettings.shrinkage
    exploration: float = BoostSettings.exploration
    linear_share: float | str = BoostSettings.linear_share

    def _settings(self) -> tuple[BoostSettings, int]:
        rounds = plain_number(self.rounds)
        check_setting("rounds", rounds, Annotated[int, Range(1, 10_000)])
        return BoostSettings(**{f.name: plain_number(getattr(self, f.name)) for f in fields(BoostSettings)}), rounds


@dataclass(repr=False, eq=False)
class PrivateBoostClassifier(_Boosting, PrivateClassifier):
    """Boosted trees under differential privacy for one record added or removed.

    What is public has to be said: the bounds of the columns and the class list. Where it is not, it is read off
    the data, a `PrivacyLeakWarning` says so, and the ledger's guarantee is "none".

    Parameters
    ----------
    epsilon : float
        Budget of one ``fit``; ``inf`` grows the same forest without noise.
    delta : float
        Well below 1 / rows; 0 with ``pure=True``.
    bounds : sequence of (low, high), mapping of column name to (low, high), or None
        Public bounds of every numeric column. Columns of an array are named ``x0``, ``x1``, ...
    categories : mapping of column name to sequence, or None
        Public values of the columns of a data frame that are no numbers.
    missing : {"refuse", "drop", "branch"}
        What ``fit`` does with a missing cell: an error, leave its row out, or learn from it, as a number below all
        others or as the category ``missing``.
    classes : sequence or None
        All classes that exist, whether or not the data holds them.
    class_weight : mapping of class to weight, or None
        Public weights from 1e-6 to 1e6; a class that is left out has 1. They multiply the predicted probabilities,
        which costs no privacy; see `dpforest.forest.weigh_classes`. What would balance them is in the data.
    rounds : int
        How often sums are asked; each round adds ``trees_per_round`` trees.
    trees_per_round, depth, pure, clip, count_share, marginal_share, bins, cuts, step, shrinkage
        See `dpforest.boosting.BoostSettings`.
    exploration, linear_share
        Likewise.
    schema : Schema or None
        Takes the place of ``bounds``, ``categories``, ``missing`` and ``classes``; its classes are text.
    out_of_bounds : {"clip", "refuse"}
        What ``fit`` does with cells outside their bounds.
    random_state : int, RandomState or None
        None takes noise from the operating system (for real use). A seed makes it reproducible: then whoever
        knows the seed can undo it.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class list, sorted.
    forest_, privacy_, feature_importances_, n_features_in_, feature_names_in_
        See `PrivateEstimator`.

    Notes
    -----
    The structure of a tree is random; `dpforest.boosting` has the method. With a few thousand rows and a small epsilon,
    `PrivateForestClassifier` is often better. ``sample_weight`` is not supported: the privacy unit is one row.

    Examples
    --------
    >>> import numpy as np
    >>> from dpforest import PrivateBoostClassifier
    >>> X = np.repeat([[0.1], [0.9]], 5000, axis=0)
    >>> y = np.repeat(["low", "high"], 5000)
    >>> model = PrivateBoostClassifier(bounds=[(0, 1)], classes=["low", "high"], random_state=0).fit(X, y)
    >>> model.predict([[0.1], [0.9]]).tolist()
    ['low', 'high']
    >>> print(round(model.privacy_.guarantee().epsilon, 6))
    1.0
    """

    epsilon: float = 1.0
    _: KW_ONLY
    bounds: Any = None
    categories: Any = None
    missing: Missing = "refuse"
    classes: Any = None
    class_weight: Any = None
    schema: Schema | None = None
    out_of_bounds: str = "clip"
    random_state: Any = None

    def _fit(self, X: Any, y: Any, ledger: Ledger, noise: Noise) -> Self:
        settings, rounds = self._settings()
        schema, matrix, labels, classes = self._public_table(X, y, ledger)
        return self._keep(boost(matrix, labels, schema, settings, rounds, ledger, noise), classes, ledger)


@dataclass(repr=False, eq=False)
class PrivateBoostRegressor(_Boosting, PrivateRegressor):
    """Boosted regression trees under differential privacy for one record added or removed.

    What is public has to be said: the bounds of the columns and the range of the target. Where it is not, it is read
    off the data, a `PrivacyLeakWarning` says so, and the ledger's guarantee is "none".

    Parameters
    ----------
    epsilon : float
        Budget of one ``fit``; ``inf`` grows the same forest without noise.
    delta : float
        Well below 1 / rows; 0 with ``pure=True``.
    bounds : sequence of (low, high), mapping of column name to (low, high), or None
        Public bounds of every numeric column. Columns of an array are named ``x0``, ``x1``, ...
    categories : mapping of column name to sequence, or None
        Public values of the columns of a data frame that are no numbers.
    missing : {"refuse", "drop", "branch"}
        What ``fit`` does with a missing cell: an error, leave its row out, or learn from it, as a number below all
        others or as the category ``missing``.
    target_range : (low, high) or None
        Public range of the target.
    rounds : int
        How often sums are asked; each round adds ``trees_per_round`` trees.
    trees_per_round, depth, pure, clip, count_share, marginal_share, bins, cuts, step, shrinkage
        See `dpforest.boosting.BoostSettings`.
    exploration, linear_share
        Likewise.
    schema : Schema or None
        Takes the place of ``bounds``, ``categories``, ``missing`` and ``target_range``.
    out_of_bounds : {"clip", "refuse"}
        What ``fit`` does with cells outside their bounds and targets outside their range.
    random_state : int, RandomState or None
        None takes noise from the operating system (for real use). A seed makes it reproducible: then whoever
        knows the seed can undo it.

    Attributes
    ----------
    forest_, privacy_, feature_importances_, n_features_in_, feature_names_in_
        See `PrivateEstimator`.

    Notes
    -----
    The loss is half the squared error, with gradients clipped. ``sample_weight`` is not supported: the privacy unit is
    one row.

    Examples
    --------
    >>> import numpy as np
    >>> from dpforest import PrivateBoostRegressor
    >>> X = np.repeat([[0.1], [0.9]], 5000, axis=0)
    >>> y = np.repeat([20.0, 80.0], 5000)
    >>> model = PrivateBoostRegressor(epsilon=5, bounds=[(0, 1)], target_range=(0, 100), random_state=0).fit(X, y)
    >>> model.predict([[0.1], [0.9]]).round(-1).tolist()
    [20.0, 80.0]
    """

    epsilon: float = 1.0
    _: KW_ONLY
    bounds: Any = None
    categories: Any = None
    missing: Missing = "refuse"
    target_range: Any = None
    schema: Schema | None = None
    out_of_bounds: str = "clip"
    random_state: Any = None

    def _fit(self, X: Any, y: Any, ledger: Ledger, noise: Noise) -> Self:
        settings, rounds = self._settings()
        schema, matrix, targets = self._public_table(X, y, ledger)
        self.forest_ = boost(matrix, targets, schema, settings, rounds, ledger, noise)
        self.privacy_ = ledger
        return self

    def _restore(self, saved: Mapping[str, Any]) -> None:
        if self.forest_.output != "target_sum":
            raise InvalidForest(f"a forest of {self.forest_.output!r} is no boosted regression forest")
