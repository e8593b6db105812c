"""All rows in one place and a scikit-learn forest on them: what federation and privacy cost is measured from here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor

from baselines.uploaded_rows import RowsServer
from dpforest.forest import Forest, Limits, feature_importances, pack, validate
from dpforest.forest.codec import fill_inner_nodes
from dpforest.schema import Schema
from dpforest.settings import Range, Says, Settings, Whole
from strategies.forests import ForestClient, model_arrays, save_forest
from strategies.method import Arrays, ClientTask, ClientUpdate, Task, Unprotected, Update

_ROWS, _WHY = "all training rows", "the client uploads its training rows"


@dataclass(frozen=True)
class CentralizedSettings(Settings):
    """A scikit-learn forest.

    Parameters
    ----------
    model
        Which one.
    trees
        Trees of the forest.
    depth
        Levels of splits at most; nearly all leaves are pure or small before.
    min_leaf
        Fewest rows of a leaf.
    max_rows
        Rows that train at most, drawn at random from all; the whole of a large data set only costs time.
    """

    model: Annotated[Literal["extra_trees", "random_forest"], Says("be extra_trees or random_forest")] = "extra_trees"
    trees: Whole = 50
    depth: Annotated[int, Range(1, Limits().depth)] = Limits().depth
    min_leaf: Whole = 2
    max_rows: Whole = 100_000


class CentralizedClient(ForestClient):
    """Hands its rows over."""

    def train(self, task: ClientTask, X: np.ndarray, y: np.ndarray, arrays: Arrays) -> Update:
        return Update(Unprotected(task.ledger, {_ROWS: _WHY}, {"X": X, "y": y}))


class CentralizedServer(RowsServer):
    """Trains on everybody's rows."""

    def __init__(self, task: Task) -> None:
        super().__init__(task, _ROWS)
        self.forest: Forest | None = None

    def aggregate(self, exchange: int, updates: list[ClientUpdate]) -> Arrays:
        X, y = self.take_rows(updates)
        rng = np.random.default_rng(np.random.SeedSequence(self.task.seed, spawn_key=(1,)))
        self.forest = self.grow(X, y, rng)
        return model_arrays(self.forest, pack(self.forest))

    def grow(self, X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> Forest:
        """The forest of everybody's rows."""
        return grow_forest(self.task.settings, self.task.schema, X, y, rng)

    def report(self) -> dict[str, Any]:
        assert self.forest is not None
        importances = feature_importances(self.forest)
        names = self.task.schema.feature_names
        return {"importances": {name: float(v) for name, v in zip(names, importances, strict=True)}}

    def save(self, folder: Path) -> None:
        assert self.forest is not None
        save_forest(self.forest, folder)


def grow_forest(
    settings: CentralizedSettings, schema: Schema, X: np.ndarray, y: np.ndarray, rng: np.random.Generator
) -> Forest:
    """A scikit-learn forest of some rows, of at most ``settings.max_rows`` of them."""
    chosen = rng.permutation(len(y))[: settings.max_rows]
    classes = schema.is_classification
    kinds = {
        "extra_trees": ExtraTreesClassifier if classes else ExtraTreesRegressor,
        "random_forest": RandomForestClassifier if classes else RandomForestRegressor,
    }
    model = kinds[settings.model](
        settings.trees,
        max_depth=settings.depth,
        min_samples_leaf=settings.min_leaf,
        random_state=int(rng.integers(2**31)),
    )
    return validate(from_sklearn(model.fit(X[chosen], y[chosen]), schema))


def from_sklearn(model: Any, schema: Schema) -> Forest:
    """A fitted scikit-learn forest in the project's own form, with the same predictions.

    scikit-learn numbers nodes depth first; here siblings are neighbours, so nodes are renumbered breadth first.
    """
    parts = [_tree_arrays(estimator.tree_, model, schema) for estimator in model.estimators_]
    sizes = [len(feature) for feature, *_ in parts]
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    left = np.concatenate(
        [np.where(part[2] < 0, -1, part[2] + start) for part, start in zip(parts, starts, strict=False)]
    )
    forest = Forest(
        schema=schema,
        output="probability" if schema.is_classification else "target",
        offsets=starts,
        feature=np.concatenate([part[0] for part in parts]).astype(np.int32),
        threshold=np.concatenate([part[1] for part in parts]),
        left=left.astype(np.int32),
        value=np.concatenate([part[3] for part in parts]),
        weight=np.concatenate([part[4] for part in parts]),
        base=np.zeros(schema.n_outputs),
        owners=("",) * len(parts),
        provenance={"method": "centralized", "model": type(model).__name__},
    )
    fill_inner_nodes(forest)
    return forest


def _tree_arrays(tree: Any, model: Any, schema: Schema) -> tuple[np.ndarray, ...]:
    order = [0]
    for node in order:
        if tree.children_left[node] >= 0:
            order += [tree.children_left[node], tree.children_right[node]]
    position = np.empty(len(order), dtype=np.int64)
    position[order] = np.arange(len(order))
    old = np.array(order)
    leaf = tree.children_left[old] < 0
    feature = np.where(leaf, -1, tree.feature[old])
    # scikit-learn compares single-precision rows with double thresholds; rounding down keeps every row's side.
    single = tree.threshold[old].astype(np.float32)
    down = np.where(single > tree.threshold[old], np.nextafter(single, np.float32(-np.inf)), single)
    left = np.where(leaf, -1, position[tree.children_left[old]])
    value = np.zeros((len(order), schema.n_outputs))
    raw = tree.value[old, 0, :]
    if schema.is_classification:
        value[:, model.classes_.astype(int)] = raw / raw.sum(axis=1, keepdims=True)
    else:
        value[:] = raw
    weight = np.where(leaf, tree.n_node_samples[old], 0).astype(np.float64)
    return feature, np.where(leaf, 0.0, down), left, value, weight
