"""What all private estimators share: public facts from parameters or data, ledger, noise, files."""

from __future__ import annotations

import math
import numbers
import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, get_args

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing, check_array, check_consistent_length
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from dpforest.cells import Missing, NaValues, column_of
from dpforest.errors import DPForestError, InvalidForest, PrivacyLeakWarning, SchemaError
from dpforest.estimators.columns import bounds_of, data_bounds, frame_features, is_frame
from dpforest.forest import Forest, feature_importances, load, save
from dpforest.ledger import Budget, Ledger
from dpforest.mechanisms import DiscreteLaplaceCounts
from dpforest.noise import Noise, Secure, Seeded
from dpforest.schema import FROM_DATA, Schema, few

# Share of epsilon that a noised number of rows costs: the settings need its order of magnitude only.
_ROWS_SHARE = 0.01
# Parameters that a file does not repeat, because the forest or the ledger holds them. The seed stays secret: who
# knows it can subtract the noise.
_NOT_SAVED = {
    "epsilon",
    "bounds",
    "categories",
    "missing",
    "classes",
    "class_weight",
    "target_range",
    "schema",
    "random_state",
}


class PrivateEstimator(BaseEstimator, metaclass=ABCMeta):
    """Base of the estimators.

    Subclasses are data classes whose fields are their parameters: ``epsilon``, ``bounds``, ``categories``, ``missing``,
    ``schema``, ``out_of_bounds`` and ``random_state``, and ``delta`` and ``rows`` where they have them. Their ``fit``
    sets ``forest_`` and ``privacy_``.

    Attributes
    ----------
    forest_ : Forest
        The finished trees, with the schema that they were grown under.
    privacy_ : Ledger
        What ``fit`` released, at what cost, and what it adds up to.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of str
        Column names, where ``fit`` saw a data frame.
    """

    epsilon: float
    delta: float = 0.0
    bounds: Any
    categories: Any
    missing: Missing
    rows: int | None = None
    schema: Schema | None
    out_of_bounds: str
    random_state: Any
    forest_: Forest
    privacy_: Ledger

    @property
    def feature_importances_(self) -> np.ndarray:
        """Mean decrease in impurity by noised counts (free post-processing), shape (n_features_in_,).

        Of a categorical column of a data frame, the sum over its values.
        """
        check_is_fitted(self)
        schema, found = self.forest_.schema, feature_importances(self.forest_)
        names = list(getattr(self, "feature_names_in_", schema.feature_names))
        if names == schema.feature_names:
            return found
        of_column = dict(zip(schema.numeric_columns, found[schema.numeric_features].tolist(), strict=True))
        for column, features in zip(schema.categories, schema.category_features, strict=True):
            of_column[column] = float(found[features].sum())
        return np.array([of_column.get(name, 0.0) for name in names])

    def save(self, path: str | Path) -> Path:
        """Write the fitted forest, its ledger and the parameters as one JSON file; never the seed.

        Returns
        -------
        Path
            Where it was written.
        """
        check_is_fitted(self)
        names = set(self._get_param_names()) - _NOT_SAVED
        provenance = {
            "estimator": type(self).__name__,
            "parameters": {name: plain_number(getattr(self, name)) for name in sorted(names)},
            "named_columns": list(map(str, getattr(self, "feature_names_in_", []))),
            "ledger": self.privacy_.to_dict(),
            **self._more_to_save(),
        }
        return save(replace(self.forest_, provenance=provenance), path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read an estimator written by `save`, fitted.

        The public facts become its ``schema``, unless some of them were read off data: then fitting it again asks
        for them again.

        Raises
        ------
        InvalidForest
            The file is damaged, of a newer version, or of another estimator.
        """
        forest = load(path)
        saved = forest.provenance
        if saved.get("estimator") != cls.__name__:
            raise InvalidForest(f"{path} holds {saved.get('estimator')!r}, not a {cls.__name__}")
        try:
            ledger = Ledger.from_dict(saved["ledger"])
            parameters = dict(saved["parameters"])
            known = set(cls._get_param_names()) - _NOT_SAVED
            if unknown := sorted(set(parameters) - known):
                raise InvalidForest(f"{path}: unknown parameter {unknown[0]!r}; allowed: {', '.join(sorted(known))}")
            public = all(entry.protected for entry in ledger.entries)
            estimator = cls(epsilon=ledger.budget.epsilon, schema=forest.schema if public else None, **parameters)
            estimator.forest_ = forest
            estimator.privacy_ = ledger
            names = list(map(str, saved["named_columns"]))
            estimator.n_features_in_ = len(names) or forest.schema.n_features
            if names:
                estimator.feature_names_in_ = np.array(names, dtype=object)
            estimator._restore(saved)
        except InvalidForest:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidForest(f"{path}: damaged estimator: {error!r}") from error
        return estimator

    def fit(self, X: Any, y: Any, **more: Any) -> Self:
        """Grow the forest.

        Parameters
        ----------
        X : data frame, or array-like of shape (n_rows, n_features)
            Columns are found by their names, in any order; an array holds finite numbers, and NaN where ``missing`` or
            the schema allows it.
        y : array-like of shape (n_rows,)
            Classes, or targets.

        Raises
        ------
        DPForestError
            A parameter, the schema or the data is not as it must be; also for ``sample_weight``, with the reason.
        """
        refuse_more(more)
        return self._fit(X, y, self._new_ledger(), self._new_noise())

    @abstractmethod
    def _fit(self, X: Any, y: Any, ledger: Ledger, noise: Noise) -> Self:
        """Set the fitted attributes; what is read off the data is warned of at the caller of `fit`."""

    def _more_to_save(self) -> dict[str, Any]:
        """Plain data of a subclass for `save`."""
        return {}

    @abstractmethod
    def _restore(self, saved: Mapping[str, Any]) -> None:
        """Set the fitted attributes of a subclass from what `_more_to_save` gave."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._finite(self.schema) is not True
        return tags

    def _new_ledger(self) -> Ledger:
        if self.out_of_bounds not in ("clip", "refuse"):
            raise DPForestError(f"out_of_bounds {self.out_of_bounds!r} must be 'clip' or 'refuse'")
        if self.rows is not None and (not _is_whole(self.rows) or self.rows < 1):
            raise DPForestError(f"rows {self.rows!r} must be a whole number from 1, or None for a noised count")
        if self.schema is not None and not isinstance(self.schema, Schema):
            raise DPForestError(f"schema must be a dpforest.schema.Schema or None, got {type(self.schema).__name__}")
        if self.missing not in get_args(Missing):
            raise DPForestError(f"missing {self.missing!r} must be one of {', '.join(get_args(Missing))}")
        trust = "nobody but the data owner is trusted"
        if self.random_state is not None:
            trust += "; its noise came from a seed, so the model is for simulation only and must not be published"
        return Ledger(Budget(plain_number(self.epsilon), plain_number(self.delta)), trust=trust)

    def _new_noise(self) -> Noise:
        seed = self.random_state
        if seed is None:
            return Secure()
        if isinstance(seed, np.random.RandomState):
            return Seeded(int(seed.randint(np.iinfo(np.int32).max)))
        if not _is_whole(seed) or seed < 0:
            raise DPForestError(f"random_state {seed!r} must be None, a whole number from 0, or a RandomState")
        return Seeded(int(seed))

    def _rows_to_predict(self, X: Any) -> np.ndarray:
        """Rows of ``forest_.schema``'s features, inside its bounds."""
        check_is_fitted(self)
        schema = self.forest_.schema
        if is_frame(X) and _encoded(X, schema):
            X = X[schema.feature_names]
        elif is_frame(X):
            return schema.matrix(X, self.schema is not None)
        names = list(getattr(self, "feature_names_in_", schema.feature_names))
        if names != schema.feature_names:  # learned from a data frame whose columns are not the features
            X = validate_data(self, X, dtype=None, reset=False, ensure_all_finite=False)
            return schema.matrix({name: X[:, place] for place, name in enumerate(names)}, self.schema is not None)
        X = validate_data(self, X, dtype=(np.float64, np.float32), reset=False, ensure_all_finite=self._finite(schema))
        return schema.check_matrix(X)[0]

    def _table(self, X: Any, y: Any, **y_check: Any) -> tuple[Any, np.ndarray]:
        """What ``fit`` was given: a data frame that is left as it is, or a matrix, and targets."""
        if self.schema is not None and self.schema.missing_target == "drop":
            known = ~NaValues(self.schema.na_values).among_text(column_of(y).text())
            X, y = _safe_indexing(X, known), np.asarray(y)[known]
        if is_frame(X) and self.schema is not None and _encoded(X, self.schema):
            X = X[self.schema.feature_names]
        elif is_frame(X):
            validate_data(self, X, skip_check_array=True)
            y = check_array(y, ensure_2d=False, dtype=None, input_name="y")
            check_consistent_length(X, y)
            return X, np.asarray(column_or_1d(y, warn=True))
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_all_finite=self._finite(self.schema), **y_check)
        return X, np.asarray(column_or_1d(y, warn=True))

    def _finite(self, schema: Schema | None) -> bool | str:
        rules = [self.missing] if schema is None else [feature.missing for feature in schema.features]
        return True if set(rules) <= {"refuse"} else "allow-nan"

    def _rows(self, X: Any, schema: Schema) -> tuple[np.ndarray, np.ndarray]:
        """Rows inside the bounds of a schema, and which of those that ``fit`` was given they are."""
        if is_frame(X):
            read = schema.read(X)
            kept = ~read.dropped
            if found := read.problem(kept):
                row, reading = found
                cell = column_of(X[reading.name]).text()[row]
                raise SchemaError(f"row {row}: {reading.problem(row, cell, by_schema=self.schema is not None)}")
            X = read.matrix(kept)
        else:
            kept = ~(np.isnan(X) & [feature.missing == "drop" for feature in schema.features]).any(axis=1)
            X = X[kept]
        if not len(X):
            raise SchemaError("no row is left, as each has a missing cell: fill some column, or set missing to branch")
        return schema.check_matrix(X, "refuse" if self.out_of_bounds == "refuse" else "clip")[0], kept

    def _public_features(self, X: Any, ledger: Ledger) -> tuple[list[dict[str, Any]], list[str]]:
        """Columns as in a schema file, from ``bounds`` and ``categories``; and the names of those read off the data."""
        if self.schema is not None:
            self._check_columns(X, self.schema)
            if self.schema.leak:
                ledger.unprotected(self.schema.leak, FROM_DATA)
                warnings.warn(f"no privacy guarantee: {self.schema.leak}", PrivacyLeakWarning, stacklevel=5)
            return [], []
        if is_frame(X):
            read: list[str] = []

            def leak(what: str, parameter: str, columns: list[str]) -> None:
                read.extend(columns)
                self._leak(ledger, what, parameter, 8)

            return frame_features(X, self.bounds, self.categories, leak), read
        if self.categories is not None:
            raise SchemaError("categories name columns, and an array has none: give a data frame, or a schema")
        named = hasattr(self, "feature_names_in_")
        names = list(self.feature_names_in_) if named else [f"x{column}" for column in range(X.shape[1])]
        if self.bounds is not None:
            pairs = bounds_of(self.bounds, names)
        else:
            self._leak(ledger, "bounds of the features", "bounds")
            pairs = [data_bounds(name, column) for name, column in zip(names, X.T, strict=True)]
        items = [{"name": name, "low": low, "high": high} for name, (low, high) in zip(names, pairs, strict=True)]
        return items, names if self.bounds is None else []

    def _check_columns(self, X: Any, schema: Schema) -> None:
        given = [name for name in ("bounds", "categories") if getattr(self, name) is not None]
        given += ["missing"] if self.missing != "refuse" else []
        if given:
            raise DPForestError(f"give either a schema or {given[0]}: a schema holds the {given[0]} already")
        named = hasattr(self, "feature_names_in_")
        names = list(self.feature_names_in_) if named else [f"x{column}" for column in range(X.shape[1])]
        expected = schema.feature_names
        if not is_frame(X) and (len(names) != len(expected) or (named and names != expected)):
            raise SchemaError(f"the columns are {few(names)}, the schema asks for {few(schema.columns)}")

    def _schema_of(self, features: list[dict[str, Any]], read: list[str], target_read: bool, **facts: Any) -> Schema:
        """The schema of columns and facts about the target, which names what was read off the data."""
        target = target_name([item["name"] for item in features])
        plain = {"features": features, "missing": self.missing, "target": target, **facts}
        return Schema.from_dict(plain | {"from_data": [*read, *([target] if target_read else [])]})

    def _public_rows(self, n_rows: int, ledger: Ledger, noise: Noise) -> tuple[int, float]:
        """Order of magnitude of the rows, and the epsilon that is left after asking for it."""
        epsilon = ledger.budget.epsilon
        rows = self.rows
        if rows is None and self.schema is not None:
            rows = self.schema.rows
        if rows is not None:
            return int(rows), epsilon
        mechanism = DiscreteLaplaceCounts(_ROWS_SHARE * epsilon)
        noised = mechanism.release(np.array([n_rows]), mechanism.entry("number of rows"), ledger, noise)
        return max(1, int(noised[0])), epsilon if math.isinf(epsilon) else epsilon - mechanism.epsilon

    @staticmethod
    def _leak(ledger: Ledger, what: str, parameter: str, level: int = 6) -> None:
        """Write down, and warn, that a public fact was read off the data."""
        ledger.unprotected(what, f"read off the data, because {parameter}=None")
        warnings.warn(
            f"{parameter}=None: the {what} are read off the data and leak through the forest, so there is no privacy "
            f"guarantee; pass {parameter} (or a schema) from public knowledge",
            PrivacyLeakWarning,
            stacklevel=level,
        )


def _encoded(X: Any, schema: Schema) -> bool:
    """Whether a data frame has a 0/1 column for each category in the place of categorical columns."""
    return bool(schema.categories) and set(schema.feature_names) <= set(X.columns)


def target_name(feature_names: list[str]) -> str:
    """A name for the target that no feature has."""
    name = "target"
    while name in feature_names:
        name += "_"
    return name


def refuse_more(given: Mapping[str, Any]) -> None:
    """Refuse what ``fit`` does not take: weights of rows, with the reason, and anything else as Python does.

    Raises
    ------
    DPForestError
        Weights of rows.
    TypeError
        Something else.
    """
    if given.get("sample_weight") is not None:
        raise DPForestError(
            "sample_weight is not supported: a row of weight w would show w times as much of itself, and the guarantee "
            "is the same for every row. Leave it out; to make a rare class count for more, give a classifier public "
            "weights of the classes (class_weight={...}), which cost no privacy"
        )
    if more := [name for name in given if name != "sample_weight"]:
        raise TypeError(f"fit() got an unexpected keyword argument {more[0]!r}")


def _is_whole(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def plain_number(value: Any) -> Any:
    """Python numbers for NumPy's, which a grid search hands over."""
    return value.item() if isinstance(value, np.generic) else value
