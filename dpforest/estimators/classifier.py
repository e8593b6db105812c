"""A private random forest on one table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, fields, replace
from typing import Annotated, Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from dpforest.cells import Missing
from dpforest.errors import DPForestError, InvalidForest, SchemaError
from dpforest.estimators.base import PrivateEstimator, plain_number
from dpforest.forest import Forest, weigh_classes
from dpforest.growers import GrowerSettings, finish_classifier, grow_classifier, resolve
from dpforest.growers.budget import leaf_epsilon
from dpforest.ledger import Ledger
from dpforest.noise import Noise
from dpforest.schema import Schema
from dpforest.settings import Range, check_setting


class PrivateClassifier(ClassifierMixin, PrivateEstimator):
    """Base of the classifiers, with parameters ``classes`` and ``class_weight``; ``fit`` sets ``classes_``."""

    classes: Any
    class_weight: Any
    classes_: np.ndarray

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row, shape (n_rows,)."""
        probabilities = self.predict_proba(X)
        return self.classes_[np.argmax(probabilities, axis=1)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities in the order of ``classes_``, shape (n_rows, n_classes)."""
        rows = self._rows_to_predict(X)
        return self.forest_.predict_proba(rows)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # With the default epsilon, a few dozen rows drown in the noise: that is what privacy means.
        tags.classifier_tags.poor_score = True
        return tags

    def _public_classes(self, y: np.ndarray, ledger: Ledger) -> np.ndarray:
        """Sorted class list, as scikit-learn expects: from ``schema``, ``classes``, or (unprotected) the data."""
        if self.schema is not None:
            if self.classes is not None:
                raise DPForestError("give either a schema or classes: a schema holds the classes already")
            if not self.schema.is_classification:
                raise SchemaError(f"target {self.schema.target!r} of the schema is no class: use a regressor")
            return np.unique(self.schema.classes)
        if self.classes is not None:
            return np.unique(np.asarray(self.classes))
        classes = np.unique(y)
        if len(classes) == 1:
            raise SchemaError(
                f"y holds one class only ({classes[0]!r}), a classification needs two: pass classes with all that exist"
            )
        self._leak(ledger, "classes", "classes")
        return classes

    def _weights(self, classes: np.ndarray) -> np.ndarray:
        """Weights of the classes, shape (n_classes,)."""
        given = {} if self.class_weight is None else self.class_weight
        if not isinstance(given, Mapping):
            raise DPForestError(
                f"class_weight {given!r} must be a mapping of class to weight: numbers of records would be read off "
                "the data, so say from public knowledge how much a class counts, as in {'rare': 10}"
            )
        names = [str(name) for name in classes.tolist()]
        weights = np.ones(len(names))
        for name, weight in given.items():
            if str(plain_number(name)) not in names:
                raise DPForestError(f"class_weight names {name!r}, which is not among the classes {classes.tolist()}")
            check_setting(f"class_weight of {name!r}", plain_number(weight), Annotated[float, Range(1e-6, 1e6)])
            weights[names.index(str(plain_number(name)))] = weight
        return weights

    def _keep(self, forest: Forest, classes: np.ndarray, ledger: Ledger) -> Self:
        """Set the fitted attributes."""
        weights = self._weights(classes)
        self.forest_ = weigh_classes(forest, weights) if (weights != weights[0]).any() else forest
        self.classes_ = classes
        self.privacy_ = ledger
        return self

    def _more_to_save(self) -> dict[str, Any]:
        return {
            "classes": self.classes_.tolist(),
            "classes_dtype": self.classes_.dtype.str,
            "class_weight": None if self.class_weight is None else self._weights(self.classes_).tolist(),
        }

    def _restore(self, saved: Mapping[str, Any]) -> None:
        dtype = np.dtype(saved["classes_dtype"])
        classes = np.array(saved["classes"], dtype=dtype)
        names = tuple(str(name) for name in classes.tolist())
        if dtype.kind not in "biufUO" or names != self.forest_.schema.classes:
            raise InvalidForest(f"classes {list(names)} do not fit those of the forest")
        self.classes_ = classes
        weights = saved.get("class_weight")
        self.class_weight = None if weights is None else dict(zip(classes.tolist(), weights, strict=True))
        try:
            self._weights(classes)
        except DPForestError as error:
            raise InvalidForest(str(error)) from error

    def _public_table(self, X: Any, y: Any, ledger: Ledger) -> tuple[Schema, np.ndarray, np.ndarray, np.ndarray]:
        """Schema, rows inside its bounds, class indices, and the class list of what ``fit`` was given."""
        X, y = self._table(X, y)
        check_classification_targets(y)
        features, read = self._public_features(X, ledger)
        classes = self._public_classes(y, ledger)
        self._weights(classes)  # refused before anything is released
        names = tuple(str(name) for name in classes.tolist())
        if self.schema is not None:
            schema = replace(self.schema, classes=names)
        else:
            schema = self._schema_of(features, read, self.classes is None, classes=list(names))
        matrix, kept = self._rows(X, schema)
        return schema, matrix, _indices(y[kept], classes), classes


@dataclass(repr=False, eq=False)
class PrivateForestClassifier(PrivateClassifier):
    """Decision forest under differential privacy for one record added or removed.

    What is public has to be said: the bounds of the columns and the class list. Where it is not, it is read off
    the data, a `PrivacyLeakWarning` says so, and the ledger's guarantee is "none".

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
    classes : sequence or None
        All classes that exist, whether or not the data holds them.
    class_weight : mapping of class to weight, or None
        Public weights from 1e-6 to 1e6; a class that is left out has 1. They multiply the predicted probabilities,
        which costs no privacy; see `dpforest.forest.weigh_classes`. What would balance them is in the data.
    rows : int or None
        Public order of magnitude of the number of rows, by which settings on ``auto`` are chosen. None spends
        1 % of epsilon on a noised count, if any setting is on ``auto``.
    depth, trees, tree_rows, selection, candidates, bins, thresholds, accounting, gini, shared_below, \
depth_growth, leaf_share, smoothing, voting
        See `dpforest.growers.GrowerSettings`.
    schema : Schema or None
        Takes the place of ``bounds``, ``categories``, ``missing``, ``classes`` and, if it has them, ``rows``; its
        classes are text.
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
    The method is the one-shot forest of Favero et al. (2024) with permute-and-flip splits (McKenna, Sheldon 2020)
    by default; ``selection="noisy_counts", accounting="published"`` is the published one.
    ``sample_weight`` is not supported: the privacy unit is one row.

    Examples
    --------
    >>> import numpy as np
    >>> from dpforest import PrivateForestClassifier
    >>> X = np.repeat([[0.1], [0.9]], 500, axis=0)
    >>> y = np.repeat(["low", "high"], 500)
    >>> model = PrivateForestClassifier(bounds=[(0, 1)], classes=["low", "high"], rows=1000, random_state=0).fit(X, y)
    >>> model.predict([[0.2], [0.8]]).tolist()
    ['low', 'high']
    >>> print(model.privacy_.guarantee().epsilon)
    1.0
    """

    epsilon: float = 1.0
    _: KW_ONLY
    bounds: Any = None
    categories: Any = None
    missing: Missing = "refuse"
    classes: Any = None
    class_weight: Any = None
    rows: int | None = None
    depth: int | str = GrowerSettings.depth
    trees: int | str = GrowerSettings.trees
    tree_rows: str = GrowerSettings.tree_rows
    selection: str = GrowerSettings.selection
    candidates: str = GrowerSettings.candidates
    bins: int = GrowerSettings.bins
    thresholds: int = GrowerSettings.thresholds
    accounting: str = GrowerSettings.accounting
    gini: str = GrowerSettings.gini
    shared_below: int | str | None = GrowerSettings.shared_below
    depth_growth: float | str = GrowerSettings.depth_growth
    leaf_share: float = GrowerSettings.leaf_share
    smoothing: str = GrowerSettings.smoothing
    voting: str = GrowerSettings.voting
    schema: Schema | None = None
    out_of_bounds: str = "clip"
    random_state: Any = None

    def _fit(self, X: Any, y: Any, ledger: Ledger, noise: Noise) -> Self:
        settings = GrowerSettings(**{f.name: plain_number(getattr(self, f.name)) for f in fields(GrowerSettings)})
        schema, matrix, labels, classes = self._public_table(X, y, ledger)
        left = ledger.budget.epsilon
        rows = 1  # of no consequence where no setting is chosen by it
        if any(getattr(settings, f.name) == "auto" for f in fields(settings)):
            rows, left = self._public_rows(len(matrix), ledger, noise)
        resolved = resolve(settings, left, rows)
        counts = grow_classifier(matrix, labels, schema, resolved, left, ledger, noise)
        forest = finish_classifier(counts, resolved, leaf_epsilon(resolved, left, schema.n_features))
        return self._keep(forest, classes, ledger)


def _indices(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Indices of labels into the sorted class list; int64, shape (n_rows,)."""
    lookup = {label: index for index, label in enumerate(classes.tolist())}
    if classes.dtype.kind == "U":
        # A schema's classes are text, whatever the type of the labels.
        y = y.astype(str)
    labels = y.tolist()
    if unknown := [label for label in labels if label not in lookup]:
        raise SchemaError(
            f"y holds {unknown[0]!r}, which is not among the classes {classes.tolist()}: add it or drop these rows"
        )
    return np.array([lookup[label] for label in labels], dtype=np.int64)
