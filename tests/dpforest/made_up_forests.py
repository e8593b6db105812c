"""Random sound forests and a plain walk down them."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from dpforest.forest import Forest
from dpforest.forest.codec import fill_inner_nodes
from dpforest.schema import Feature, Schema

SCHEMA = Schema(
    (Feature("a", -1, 1, unit="g"), Feature("b", 0, 5), Feature("c", -3, 3, scale="signed_sqrt", centre=0.5)),
    target="activity",
    classes=("rest", "walk", "run"),
    rows=1000,
)
REGRESSION = Schema(SCHEMA.features, target="energy", target_range=(5.0, 25.0), target_unit="Wh")
_CATEGORIES = [
    {"name": "a", "low": -1, "high": 1, "missing": "branch"},
    {"name": "side", "categories": ["left", "right", "up", "down"], "missing": "branch"},
    {"name": "b", "low": 0, "high": 5},
    {"name": "hand", "categories": ["one", "other"]},
]
WITH_CATEGORIES = Schema.from_dict(
    {"features": _CATEGORIES, "target": "activity", "classes": list(SCHEMA.classes), "rows": 1000}
)
REGRESSION_WITH_CATEGORIES = Schema.from_dict({"features": _CATEGORIES, "target": "energy", "target_range": [5, 25]})


def schema_of(output: str, categories: bool = False) -> Schema:
    """The schema that a forest of this output is over."""
    if output in ("target", "target_sum"):
        return REGRESSION_WITH_CATEGORIES if categories else REGRESSION
    return WITH_CATEGORIES if categories else SCHEMA


def made_up_forest(
    seed: int, n_trees: int = 3, max_splits: int = 12, output: str = "probability", categories: bool = False
) -> Forest:
    """Trees that split random leaves; every number is a single-precision one, as on the wire.

    With ``categories``, columns are missing at times, and nodes ask sets of categories as well.
    """
    rng = np.random.default_rng(seed)
    schema = schema_of(output, categories)
    sets = _made_up_sets(schema, rng)
    feature, threshold, left, offsets = [], [], [], [0]
    for _ in range(n_trees):
        start = len(feature)
        leaves = [start]
        feature.append(-1), threshold.append(0.0), left.append(-1)
        for _ in range(rng.integers(max_splits + 1)):
            node = leaves.pop(rng.integers(len(leaves)))
            feature[node] = int(rng.integers(schema.n_features + len(sets)))
            asked = float(np.float32(rng.uniform(-1, 5)))
            threshold[node] = asked if feature[node] < schema.n_features else 0.5
            left[node] = len(feature)
            leaves += [len(feature), len(feature) + 1]
            feature += [-1, -1]
            threshold += [0.0, 0.0]
            left += [-1, -1]
        offsets.append(len(feature))
    leaf = np.array(left) < 0
    shape = (len(feature), schema.n_outputs)
    if output == "counts":
        value = rng.integers(-5, 200, size=shape).astype(np.float64)
        weight = np.maximum(value, 0).sum(axis=1)
    else:
        if output == "probability":
            value = rng.dirichlet(np.ones(shape[1]), size=shape[0])
        elif output == "target":
            value = rng.uniform(5, 25, size=shape)
        else:
            value = rng.normal(size=shape)
        value = value.astype(np.float32).astype(np.float64)
        weight = rng.integers(0, 100, size=len(feature)).astype(np.float64)
    forest = Forest(
        schema=schema,
        output=output,
        offsets=np.array(offsets, dtype=np.int64),
        feature=np.array(feature, dtype=np.int32),
        threshold=np.array(threshold),
        left=np.array(left, dtype=np.int32),
        value=np.where(leaf[:, None], value, 0.0),
        weight=np.where(leaf, weight, 0.0),
        base=np.full(schema.n_outputs, 10.0) if output == "target_sum" else np.zeros(schema.n_outputs),
        owners=tuple(f"client {t}" for t in range(n_trees)),
        sets=sets,
    )
    fill_inner_nodes(forest)
    return forest


def _made_up_sets(schema: Schema, rng: np.random.Generator) -> np.ndarray:
    """Several values of one column each, which is what nodes ask at once."""
    sets = np.zeros((3 if schema.categories else 0, schema.n_features), dtype=bool)
    for members in sets:
        values = schema.category_features[rng.integers(len(schema.category_features))]
        members[rng.choice(values, size=rng.integers(1, len(values) + 1), replace=False)] = True
    return sets


def forests(output: str) -> st.SearchStrategy[Forest]:
    """Hypothesis strategy of sound forests."""
    return st.builds(
        made_up_forest, st.integers(0, 2**32), st.integers(1, 5), st.integers(0, 20), output=st.just(output)
    )


def leaf_by_hand(forest: Forest, tree: int, row: np.ndarray) -> int:
    """Walk one row down one tree, node by node."""
    node = int(forest.offsets[tree])
    while forest.left[node] >= 0:
        node = int(forest.left[node]) + int(row[forest.feature[node]] > forest.threshold[node])
    return node
