"""Forests as nested nodes, the form of the LDP document that phones and notebooks read without a library."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np

from dpforest.errors import InvalidForest
from dpforest.forest.forest import Forest
from dpforest.forest.importance import feature_importances


def to_nested(forest: Forest) -> dict[str, Any]:
    """The aggregated model of the LDP document ("Create Global Model Metadata") as plain data.

    A node is ``{"type": "node", "featureIndex", "threshold", "leftChild", "rightChild"}``; a row goes left where its
    feature, in the unit of ``features``, is at most the threshold. A leaf is ``{"type": "leaf", "prediction"}``: the
    probability of the second of two classes, or a target value; ``"probabilities"`` of all classes where there are
    more. The prediction of the model is the mean over its trees.

    Parameters
    ----------
    forest : Forest
        A finished one.

    Returns
    -------
    dict
        Ready for JSON.

    Raises
    ------
    InvalidForest
        The trees are parts of a sum, which this form cannot say.

    Examples
    --------
    >>> import numpy as np
    >>> from dpforest import PrivateForestClassifier
    >>> X, y = np.repeat([[0.1], [0.9]], 500, axis=0), np.repeat(["low", "high"], 500)
    >>> model = PrivateForestClassifier(trees=1, depth=1, bounds=[(0, 1)], classes=["high", "low"], random_state=0)
    >>> forest = model.fit(X, y).forest_
    >>> to_nested(forest)["trees"][0]["tree_structure"]["type"]
    'node'
    """
    if forest.output not in ("probability", "score", "target"):
        raise InvalidForest(f"trees of {forest.output!r} are added up, and nested nodes are averaged: export to ONNX")
    if len(forest.sets):
        raise InvalidForest("nested nodes have no word for sets of categories: export to ONNX")
    names = forest.schema.feature_names
    counts = {owner: forest.owners.count(owner) for owner in dict.fromkeys(forest.owners)}
    seen = dict.fromkeys(counts, 0)
    trees = []
    for t, owner in enumerate(forest.owners):
        structure = _node(forest, int(forest.offsets[t]))
        trees.append({"tree_structure": structure, "client_id": owner, "original_tree_id": seen[owner]})
        seen[owner] += 1
    importances = feature_importances(forest).tolist()
    provenance = dict(forest.provenance)
    return {
        "trees": trees,
        "feature_importance": dict(zip(names, importances, strict=True)),
        "features": [
            {"name": f.name, "unit": f.unit, "low": f.low, "high": f.high, "index": i}
            for i, f in enumerate(forest.schema.features)
        ],
        "classes": list(forest.schema.classes),
        "config": {
            "objective": _objective(forest),
            "maxDepth": int(forest.depths.max()),
            "basePrediction": float(provenance.get("base_prediction", 0.0)),
        },
        "num_boosted_rounds": forest.n_trees,
        "num_features": len(names),
        "client_contributions": [
            {"client_id": owner, "num_trees": count, "num_features": len(names)} for owner, count in counts.items()
        ],
        "aggregation_metadata": {
            "method": "bagging",
            "timestamp": datetime.now(UTC).isoformat(timespec="seconds"),
            "num_clients": len(counts),
        },
    }


def _objective(forest: Forest) -> str:
    if not forest.schema.is_classification:
        return "reg:squarederror"
    return "binary:logistic" if forest.schema.n_outputs == 2 else "multi:softprob"


def _node(forest: Forest, root: int) -> dict[str, Any]:
    """The tree below a node; from the leaves up, so that a deep tree needs no deep recursion."""
    built: dict[int, dict[str, Any]] = {}
    order = [root]
    for v in order:
        if forest.left[v] >= 0:
            order += [int(forest.left[v]), int(forest.left[v]) + 1]
    for v in reversed(order):
        left = int(forest.left[v])
        if left < 0:
            built[v] = {"type": "leaf", **_prediction(forest.value[v])}
        else:
            built[v] = {
                "type": "node",
                "featureIndex": int(forest.feature[v]),
                "threshold": _short(forest.threshold[v]),
                "leftChild": built.pop(left),
                "rightChild": built.pop(left + 1),
            }
    return built[root]


def _prediction(value: np.ndarray) -> dict[str, Any]:
    if len(value) > 2:
        return {"probabilities": [_short(x) for x in value]}
    return {"prediction": _short(value[-1])}


def _short(x: float) -> float:
    return float(f"{x:.9g}")
