"""A private regression forest on one table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin

from dpforest.cells import Missing
from dpforest.errors import DPForestError, InvalidForest, SchemaError
from dpforest.estimators.base import PrivateEstimator, plain_number
from dpforest.growers.regression import RegressionSettings, grow_regressor, resolve_regression
from dpforest.ledger import Ledger
from dpforest.noise import Noise
from dpforest.schema import Schema, apart


class PrivateRegressor(RegressorMixin, PrivateEstimator):
    """Base of the regressors; ``target_range`` is a parameter too."""

    target_range: Any

    def predict(self, X: Any) -> np.ndarray:
        """The predicted target of each row, shape (n_rows,)."""
        rows = self._rows_to_predict(X)
        return self.forest_.predict(rows)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # With the default epsilon, a few dozen rows drown in the noise: that is what privacy means.
        tags.regressor_tags.poor_score = True
        return tags

    def _public_range(self, y: np.ndarray, ledger: Ledger) -> tuple[float, float]:
        """Range of the target: from ``schema``, ``target_range``, or (unprotected) the data."""
        if self.schema is not None:
            if self.target_range is not None:
                raise DPForestError("give either a schema or target_range: a schema holds the range already")
            if self.schema.target_range is None:
                raise SchemaError(f"target {self.schema.target!r} of the schema is a class: use a classifier")
            return self.schema.target_range
        if self.target_range is not None:
            try:
                low, high = (float(plain_number(value)) for value in self.target_range)
            except (TypeError, ValueError):
                raise SchemaError(f"target_range {self.target_range!r} must be two numbers, low and high") from None
            return low, high
        self._leak(ledger, "range of the target", "target_range")
        return apart(float(y.min()), float(y.max()))

    def _public_table(self, X: Any, y: Any, ledger: Ledger) -> tuple[Schema, np.ndarray, np.ndarray]:
        """Schema, rows inside its bounds, and targets of what ``fit`` was given."""
        X, y = self._table(X, y, y_numeric=True)
        y = np.asarray(y, dtype=np.float64)
        features, read = self._public_features(X, ledger)
        target_range = self._public_range(y, ledger)
        schema = self.schema or self._schema_of(
            features, read, self.target_range is None, target_range=list(target_range)
        )
        matrix, kept = self._rows(X, schema)
        y = y[kept]
        if self.out_of_bounds == "refuse" and ((y < target_range[0]) | (y > target_range[1])).any():
            outside = y[(y < target_range[0]) | (y > target_range[1])][0]
            raise SchemaError(
                f"target {schema.target!r} is {outside:g}, outside [{target_range[0]:g}, {target_range[1]:g}]: widen "
                "the range or set out_of_bounds=clip"
            )
        return schema, matrix, y


@dataclass(repr=False, eq=False)
class PrivateForestRegressor(PrivateRegressor):
    """Regression forest under differential privacy for one record added or removed.

    What is public has to be said: the bounds of the columns and the range of the target. Where it is not, it is read
    off the data, a `PrivacyLeakWarning` says so, and the ledger's guarantee is "none".

    Parameters
    ----------
    epsilon : float
        Budget of one ``fit``; ``inf`` grows the same forest without noise.
    bounds : sequence of (low, high), mapping of column name to (low, high), or None
        Public bounds of every numeric column. Columns of an array are named ``x0``, ``x1``, ...
    categories : mapping of column name to sequence, or None
        Public values of the columns of a data frame that are no numbers.
    missing : {"refuse", "drop", "branch"}
        What ``fit`` does with a missing cell: an error, leave its row out, or learn from it, as a number below all
        others or as the category ``missing``.
    target_range : (low, high) or None
        Public range of the target.
    rows : int or None
        Public order of magnitude of the number of rows, by which settings on ``auto`` are chosen. None spends
        1 % of epsilon on a noised count, if any setting is on ``auto``.
    depth, trees, tree_rows, selection, bins, shared_below, depth_growth, leaf_share, target_clip
        See `dpforest.growers.regression.RegressionSettings`.
    schema : Schema or None
        Takes the place of ``bounds``, ``categories``, ``missing``, ``target_range`` and, if it has them, ``rows``.
    out_of_bounds : {"clip", "refuse"}
        What ``fit`` does with cells outside their bounds and targets outside their range. How many were clipped is
        a fact about the data and is not kept.
    random_state : int, RandomState or None
        None takes noise from the operating system (for real use). A seed makes it reproducible: then whoever
        knows the seed can undo it.

    Attributes
    ----------
    forest_, privacy_, feature_importances_, n_features_in_, feature_names_in_
        See `PrivateEstimator`.

    Notes
    -----
    `dpforest.growers.regression` has the method and its proofs. ``sample_weight`` is not supported: the privacy unit is
    one row.

    Examples
    --------
    >>> import numpy as np
    >>> from dpforest import PrivateForestRegressor
    >>> X = np.repeat([[0.1], [0.9]], 2000, axis=0)
    >>> y = np.repeat([20.0, 80.0], 2000)
    >>> model = PrivateForestRegressor(
    ...     epsilon=10, bounds=[(0, 1)], target_range=(0, 100), rows=4000, random_state=0
    ... ).fit(X, y)
    >>> model.predict([[0.1], [0.9]]).round(-1).tolist()
    [20.0, 80.0]
    >>> print(model.privacy_.guarantee().epsilon)
    10.0
    """

    epsilon: float = 1.0
    _: KW_ONLY
    bounds: Any = None
    categories: Any = None
    missing: Missing = "refuse"
    target_range: Any = None
    rows: int | None = None
    depth: int | str = RegressionSettings.depth
    trees: int = RegressionSettings.trees
    tree_rows: str = RegressionSettings.tree_rows
    selection: str = RegressionSettings.selection
    bins: int = RegressionSettings.bins
    shared_below: int | str | None = RegressionSettings.shared_below
    depth_growth: float = RegressionSettings.depth_growth
    leaf_share: float | str = RegressionSettings.leaf_share
    target_clip: Any = RegressionSettings.target_clip
    schema: Schema | None = None
    out_of_bounds: str = "clip"
    random_state: Any = None

    def _fit(self, X: Any, y: Any, ledger: Ledger, noise: Noise) -> Self:
        values = {f.name: plain_number(getattr(self, f.name)) for f in fields(RegressionSettings)}
        settings = RegressionSettings(**values)
        schema, matrix, y = self._public_table(X, y, ledger)
        left = ledger.budget.epsilon
        rows = 1  # of no consequence where no setting is chosen by it
        if "auto" in (settings.depth, settings.shared_below, settings.leaf_share):
            rows, left = self._public_rows(len(matrix), ledger, noise)
        resolved = resolve_regression(settings, left, rows, schema)
        self.forest_ = grow_regressor(matrix, y, schema, resolved, left, ledger, noise)
        self.privacy_ = ledger
        return self

    def _restore(self, saved: Mapping[str, Any]) -> None:
        if self.forest_.output != "target":
            raise InvalidForest(f"a forest of {self.forest_.output!r} is no regression forest")
        clip = self.target_clip
        self.target_clip = None if clip is None else tuple(clip)
