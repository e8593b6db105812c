"""What all private estimators share: public facts from parameters or data, ledger, noise, files."""

from __future__ import annotations

import math
import numbers
import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from dpforest.errors import DPForestError, InvalidForest, PrivacyLeakWarning, SchemaError
from dpforest.forest import Forest, feature_importances, load, save
from dpforest.ledger import Budget, Ledger
from dpforest.mechanisms import DiscreteLaplaceCounts
from dpforest.noise import Noise, Secure, Seeded
from dpforest.schema import Feature, Schema, least_width

# Share of epsilon that a noised number of rows costs: the settings need its order of magnitude only.
_ROWS_SHARE = 0.01
# Parameters that a file does not repeat, because the forest or the ledger holds them. The seed stays secret: who
# knows it can subtract the noise.
_NOT_SAVED = {"epsilon", "bounds", "classes", "target_range", "schema", "random_state"}


class PrivateEstimator(BaseEstimator, metaclass=ABCMeta):
    """Base of the estimators.

    Subclasses set ``epsilon``, ``bounds``, ``schema``, ``out_of_bounds`` and ``random_state`` in ``__init__``, there
    too ``delta`` and ``rows`` where they have them, and ``forest_`` and ``privacy_`` in ``fit``.

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
    rows: int | None = None
    schema: Schema | None
    out_of_bounds: str
    random_state: Any
    forest_: Forest
    privacy_: Ledger

    @property
    def feature_importances_(self) -> np.ndarray:
        """Mean decrease in impurity by noised counts (free post-processing), shape (n_features_in_,)."""
        check_is_fitted(self)
        return feature_importances(self.forest_)

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
            "named_columns": hasattr(self, "feature_names_in_"),
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
            estimator.n_features_in_ = forest.schema.n_features
            if saved["named_columns"]:
                estimator.feature_names_in_ = np.array(forest.schema.feature_names, dtype=object)
            estimator._restore(saved)
        except InvalidForest:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidForest(f"{path}: damaged estimator: {error!r}") from error
        return estimator

    @abstractmethod
    def _more_to_save(self) -> dict[str, Any]:
        """Plain data of a subclass for `save`."""

    @abstractmethod
    def _restore(self, saved: Mapping[str, Any]) -> None:
        """Set the fitted attributes of a subclass from what `_more_to_save` gave."""

    def _new_ledger(self) -> Ledger:
        if self.out_of_bounds not in ("clip", "refuse"):
            raise DPForestError(f"out_of_bounds {self.out_of_bounds!r} must be 'clip' or 'refuse'")
        if self.rows is not None and (not _is_whole(self.rows) or self.rows < 1):
            raise DPForestError(f"rows {self.rows!r} must be a whole number from 1, or None for a noised count")
        if self.schema is not None and not isinstance(self.schema, Schema):
            raise DPForestError(f"schema must be a dpforest.schema.Schema or None, got {type(self.schema).__name__}")
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
        check_is_fitted(self)
        return np.asarray(validate_data(self, X, dtype=(np.float64, np.float32), reset=False))

    def _public_features(self, X: np.ndarray, ledger: Ledger) -> tuple[Feature, ...]:
        """Columns with their bounds: from ``schema``, from ``bounds``, or (unprotected) from the data."""
        named = hasattr(self, "feature_names_in_")
        names = list(self.feature_names_in_) if named else [f"x{column}" for column in range(X.shape[1])]
        if self.schema is not None:
            if self.bounds is not None:
                raise DPForestError("give either a schema or bounds: a schema holds the bounds already")
            expected = self.schema.feature_names
            if len(names) != len(expected) or (named and names != expected):
                raise SchemaError(f"the columns are {_few(names)}, the schema asks for {_few(expected)} in this order")
            return self.schema.features
        if self.bounds is not None:
            pairs = _bounds_of(self.bounds, names)
        else:
            self._leak(ledger, "bounds of the features", "bounds")
            low, high = X.min(axis=0), X.max(axis=0)
            pairs = [apart(a, b) for a, b in zip(low.tolist(), high.tolist(), strict=True)]
        return tuple(Feature(name, low, high) for name, (low, high) in zip(names, pairs, strict=True))

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
    def _leak(ledger: Ledger, what: str, parameter: str) -> None:
        """Write down, and warn, that a public fact was read off the data."""
        ledger.unprotected(what, f"read off the data, because {parameter}=None")
        warnings.warn(
            f"{parameter}=None: the {what} are read off the data and leak through the forest, so there is no privacy "
            f"guarantee; pass {parameter} (or a schema) from public knowledge",
            PrivacyLeakWarning,
            stacklevel=5,
        )


def target_name(feature_names: list[str]) -> str:
    """A name for the target that no feature has."""
    name = "target"
    while name in feature_names:
        name += "_"
    return name


def apart(low: float, high: float) -> tuple[float, float]:
    """The smallest and largest number of some data as a range that a schema can have, wider where they are all but
    equal.
    """
    size = max(abs(low), abs(high))
    margin = 0.0 if high - low >= least_width(size) else 0.5 * max(size, 1.0)
    return low - margin, high + margin


def _bounds_of(bounds: Any, names: list[str]) -> list[tuple[float, float]]:
    if isinstance(bounds, Mapping):
        if unknown := [name for name in bounds if name not in names]:
            raise SchemaError(f"bounds name {unknown[0]!r}, which is no column; the columns are {_few(names)}")
        if missing := [name for name in names if name not in bounds]:
            raise SchemaError(f"bounds lack column {missing[0]!r}: give (low, high) for every column")
        bounds = [bounds[name] for name in names]
    try:
        array = np.asarray(bounds, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise SchemaError(f"bounds must be one (low, high) a column: {error}") from error
    if array.shape != (len(names), 2):
        raise SchemaError(f"bounds have shape {array.shape}, expected one (low, high) for each of {len(names)} columns")
    return [(low, high) for low, high in array.tolist()]


def _few(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f", ... ({len(names)})" if len(names) > 5 else "")


def _is_whole(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def plain_number(value: Any) -> Any:
    """Python numbers for NumPy's, which a grid search hands over."""
    return value.item() if isinstance(value, np.generic) else value
