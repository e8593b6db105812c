"""interpret-core's DP-EBM, and its sum of functions of single columns as a forest of one tree a column."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from baselines.central_dp_ebm.releases import entries
from baselines.central_dp_ebm.settings import DpEbmSettings
from dpforest.errors import DPForestError
from dpforest.forest import Forest, validate
from dpforest.forest.codec import fill_inner_nodes
from dpforest.schema import Schema
from strategies.method import Task

# Of a row that is there only so that the values of a column are those of the schema.
_HARDLY_ANY = 1e-9


class MissingInterpret(DPForestError):
    """A DP-EBM is asked for without interpret-core."""


def require_interpret(method: str) -> None:
    """Refuse a method that needs interpret-core where it is not installed; imports nothing.

    Raises
    ------
    MissingInterpret
        Names the command that installs it.
    """
    if importlib.util.find_spec("interpret") is None:
        raise MissingInterpret(f'strategy {method!r} trains with interpret-core: pip install "dpforest[ebm]"')


def public_rows(schema: Schema) -> tuple[np.ndarray, np.ndarray]:
    """Rows that follow from the schema alone: together they have every value of each categorical column, and classes.

    Returns
    -------
    X : ndarray of float32, shape (n_rows, n_features)
        Numbers are at their lower bounds; a categorical column has each of its values, and none of them.
    y : ndarray of shape (n_rows,)
        Classes in turn, or the middle of the target's range.
    """
    most = max((len(values) + 1 for values in schema.categories.values()), default=0)
    rows = np.arange(max(2, most))
    X = np.tile(np.where(np.isin(np.arange(schema.n_features), schema.numeric_features), schema.low, 0), (len(rows), 1))
    for features in schema.category_features:
        place = rows % (len(features) + 1)
        has = place < len(features)
        X[rows[has], features[place[has]]] = 1
    return schema.check_matrix(X)[0], rows % 2 if schema.target_range is None else np.full(len(rows), _middle(schema))


def fit(task: Task[DpEbmSettings], X: np.ndarray, y: np.ndarray, random_state: int | None) -> Forest:
    """Train on rows in one place.

    Parameters
    ----------
    task : Task
    X : ndarray of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,)
    random_state : int or None
        Of the noise, too; None draws it from the machine's entropy.

    Raises
    ------
    DPForestError
        interpret-core has added less noise than the ledger says.
    """
    from interpret.privacy import DPExplainableBoostingClassifier, DPExplainableBoostingRegressor

    schema, settings = task.schema, task.settings
    more_X, more_y = public_rows(schema)
    weights = np.concatenate([np.ones(len(y)), np.full(len(more_y), _HARDLY_ANY)])
    X, y = np.concatenate([X, more_X]), np.concatenate([y, more_y])
    options: dict[str, Any] = {
        "feature_types": ["continuous"] * len(schema.numeric_features) + ["nominal"] * len(schema.categories),
        "privacy_bounds": _bounds(schema),
        "max_bins": settings.max_bins,
        "max_rounds": settings.boosting_rounds,
        "max_leaves": settings.max_leaves,
        "learning_rate": settings.learning_rate,
        "epsilon": task.budget.epsilon,
        "delta": task.budget.delta,
        "n_jobs": 1,
        "random_state": random_state,
    }
    if schema.target_range is None:
        model = DPExplainableBoostingClassifier(**options)
    else:
        # Around 0, where the model begins: the first residuals then lie inside the range.
        low, high = (end - _middle(schema) for end in schema.target_range)
        model = DPExplainableBoostingRegressor(privacy_target_min=low, privacy_target_max=high, **options)
        y = y - _middle(schema)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Privacy violation: using a fixed random_state")
        model.fit(as_frame(schema, X), y, sample_weight=weights)
    _check_noise(task, model)
    return to_forest(model, schema)


def to_forest(model: Any, schema: Schema) -> Forest:
    """A fitted DP-EBM in the project's own form, with the same predictions: each column's function is a tree."""
    trees, sets = [], np.zeros((0, schema.n_features), dtype=bool)
    numeric = len(schema.numeric_features)
    for (column,), scores, sizes in zip(model.term_features_, model.term_scores_, model.bin_weights_, strict=True):
        bins = model.bins_[column][0]
        if column < numeric:
            places = np.arange(1, len(bins) + 2)
            questions = [(int(schema.numeric_features[column]), _below(cut)) for cut in bins]
        else:
            places, asked = _sets(bins, schema, column - numeric)
            questions = [(schema.n_features + len(sets) + s, 0.5) for s in range(len(asked))]
            sets = np.concatenate([sets, asked])
        trees.append(_balanced(questions, scores[places], sizes[places]))
    feature, threshold, left, score, size = (np.concatenate(parts) for parts in zip(*_moved(trees), strict=True))
    classes = schema.is_classification
    intercept = float(np.ravel(model.intercept_)[0])
    forest = Forest(
        schema=schema,
        output="logit" if classes else "target_sum",
        offsets=np.concatenate([[0], np.cumsum([len(tree[0]) for tree in trees])]).astype(np.int64),
        feature=feature.astype(np.int32),
        threshold=threshold,
        left=left.astype(np.int32),
        value=np.stack([np.zeros(len(score)), score], axis=1) if classes else score[:, None],
        weight=size,
        base=np.array([0.0, intercept]) if classes else np.array([intercept + _middle(schema)]),
        owners=("",) * len(trees),
        provenance={"method": "central_dp_ebm", "model": type(model).__name__},
        sets=sets,
    )
    fill_inner_nodes(forest)
    return validate(forest)


def _middle(schema: Schema) -> float:
    assert schema.target_range is not None
    low, high = schema.target_range
    return low + (high - low) / 2


def _bounds(schema: Schema) -> dict[int, tuple[float, float]]:
    """Of the numeric columns, by their place; a missing cell is a number below all others (`Feature.missing_value`)."""
    features = [schema.features[f] for f in schema.numeric_features]
    return {place: (f.missing_value if f.has_branch else f.low, f.high) for place, f in enumerate(features)}


def as_frame(schema: Schema, X: np.ndarray) -> pd.DataFrame:
    """The columns as interpret-core takes them: numbers, then places of categories as words."""
    columns = [X[:, f].astype(np.float64) for f in schema.numeric_features]
    columns += [place.astype(str) for place in schema.category_positions(X)]
    return pd.DataFrame({str(number): column for number, column in enumerate(columns)})


def _check_noise(task: Task[DpEbmSettings], model: Any) -> None:
    for entry, scale in zip(entries(task), (model.noise_scale_binning_, model.noise_scale_boosting_), strict=True):
        if not scale >= entry.scale:
            raise DPForestError(
                f"interpret-core drew noise of {scale:.6g} for {entry.what}, and the ledger says {entry.scale:.6g}: "
                "install a version that pyproject.toml allows"
            )


def _below(cut: float) -> float:
    """The largest float32 number below a cut: interpret-core has the cut itself on the right, a forest on the left."""
    single = np.float32(cut)
    return float(single if single < cut else np.nextafter(single, np.float32(-np.inf)))


def _sets(bins: dict[str, int], schema: Schema, column: int) -> tuple[np.ndarray, np.ndarray]:
    """Cells of a categorical column, the one of rows without a category first, and a set for all behind each cell.

    Returns
    -------
    places : ndarray of int64, shape (n_cells,)
        Where the cell stands among the column's scores; the last is that of all values which have none of their own.
    sets : ndarray of bool, shape (n_cells - 1, n_features)
        Categories of the cells from the second on, from the third on, and so on.
    """
    features = schema.category_features[column]
    place = np.array([bins.get(str(value), -1) for value in range(len(features) + 1)])
    places = np.array([place[-1], *sorted(set(place[:-1].tolist()) - {int(place[-1])})])
    sets = np.zeros((len(places) - 1, schema.n_features), dtype=bool)
    for number in range(len(sets)):
        sets[number, features[np.isin(place[:-1], places[number + 1 :])]] = True
    return places, sets


def _balanced(questions: Sequence[tuple[int, float]], scores: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, ...]:
    """A tree over ordered leaves, as shallow as can be; question q tells the leaves up to q from those behind it.

    Returns
    -------
    feature, threshold, left, score, size : ndarray of shape (n_nodes,)
        Breadth first; scores and sizes are those of leaves.
    """
    spans, left, asked = [(0, len(scores))], [], []
    for first, stop in spans:
        middle = (first + stop) // 2
        inner = stop - first > 1
        left.append(len(spans) if inner else -1)
        asked.append(questions[middle - 1] if inner else (-1, 0.0))
        if inner:
            spans += [(first, middle), (middle, stop)]
    leaf, starts = np.array(left) < 0, np.array([start for start, _ in spans])
    feature, threshold = map(np.array, zip(*asked, strict=True))
    return feature, threshold, np.array(left), np.where(leaf, scores[starts], 0.0), np.where(leaf, sizes[starts], 0.0)


def _moved(trees: list[tuple[np.ndarray, ...]]) -> list[tuple[np.ndarray, ...]]:
    """The trees behind each other, so that children are where the joined arrays have them."""
    starts = np.cumsum([0, *(len(tree[0]) for tree in trees)])
    return [
        (feature, threshold, np.where(left < 0, -1, left + start), *more)
        for (feature, threshold, left, *more), (start, _) in zip(trees, pairwise(starts), strict=True)
    ]
