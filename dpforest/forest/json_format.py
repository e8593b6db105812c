"""Forests as JSON files for people and other programs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from dpforest.errors import DPForestError, InvalidForest
from dpforest.forest.codec import fill_inner_nodes
from dpforest.forest.forest import Forest
from dpforest.forest.importance import feature_importances
from dpforest.forest.validate import Limits, validate
from dpforest.schema import Schema

FORMAT = "dpforest"
VERSION = 1


def to_dict(forest: Forest) -> dict[str, Any]:
    """Plain data of a finished forest: schema, trees, importances, provenance."""
    importances = feature_importances(forest)
    trees = []
    for t in range(forest.n_trees):
        tree = forest.tree(t)
        trees.append(
            {
                "owner": tree.owners[0],
                "feature": tree.feature.tolist(),
                "threshold": [_short(x) for x in tree.threshold.tolist()],
                "left": tree.left.tolist(),
                "value": [[_short(x) for x in row] for row in tree.value[tree.is_leaf].tolist()],
                "weight": [_short(x) for x in tree.weight[tree.is_leaf].tolist()],
            }
        )
    return {
        "format": FORMAT,
        "version": VERSION,
        "output": forest.output,
        "schema": forest.schema.to_dict(),
        "base": forest.base.tolist(),
        "importances": dict(zip(forest.schema.feature_names, map(_short, importances.tolist()), strict=True)),
        "provenance": dict(forest.provenance),
        "trees": trees,
    }


def from_dict(plain: Any, limits: Limits | None = None) -> Forest:
    """Rebuild and validate a forest.

    Raises
    ------
    InvalidForest
        The data is no forest, is damaged, or is of a newer version.
    """
    if not isinstance(plain, dict) or plain.get("format") != FORMAT:
        raise InvalidForest(f"not a forest file: expected format {FORMAT!r}")
    if plain.get("version") != VERSION:
        raise InvalidForest(f"forest file version {plain.get('version')!r}; this release reads version {VERSION}")
    if plain.get("output") not in ("probability", "logit", "target", "target_sum"):
        raise InvalidForest(f"output {plain.get('output')!r} is no kind of finished forest")
    try:
        schema = Schema.from_dict(plain["schema"])
        trees = plain["trees"]
        sizes = [len(tree["feature"]) for tree in trees]
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        feature = np.array([f for tree in trees for f in tree["feature"]], dtype=np.int32)
        left = np.array(
            [-1 if v < 0 else v + s for tree, s in zip(trees, starts, strict=False) for v in tree["left"]],
            dtype=np.int32,
        )
        leaf = left < 0
        # Thresholds are single-precision numbers; so nine digits bring a row that lies on one to the same side.
        with np.errstate(over="ignore"):
            threshold = np.array([x for tree in trees for x in tree["threshold"]], dtype=np.float32)
        for tree in trees:
            leaves = sum(v < 0 for v in tree["left"])
            if not len(tree["value"]) == len(tree["weight"]) == leaves:
                raise InvalidForest(
                    f"damaged forest file: a tree of {leaves} leaves has {len(tree['value'])} values and "
                    f"{len(tree['weight'])} weights"
                )
        value = np.zeros((len(feature), schema.n_outputs))
        value[leaf] = np.array([row for tree in trees for row in tree["value"]], dtype=np.float64)
        weight = np.zeros(len(feature))
        weight[leaf] = np.array([w for tree in trees for w in tree["weight"]], dtype=np.float64)
        forest = Forest(
            schema=schema,
            output=plain["output"],
            offsets=starts,
            feature=feature,
            threshold=threshold.astype(np.float64),
            left=left,
            value=value,
            weight=weight,
            base=np.array(plain["base"], dtype=np.float64),
            owners=tuple(str(tree["owner"]) for tree in trees),
            provenance=dict(plain["provenance"]),
        )
    except DPForestError:
        raise
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InvalidForest(f"damaged forest file: {error}") from error
    validate(forest, limits)
    fill_inner_nodes(forest)
    return forest


def save(forest: Forest, path: str | Path) -> Path:
    """Write a forest as JSON, whole or not at all."""
    path = Path(path)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(to_dict(forest), separators=(",", ":"), allow_nan=False), encoding="utf-8")
    os.replace(partial, path)
    return path


def load(path: str | Path, limits: Limits | None = None) -> Forest:
    """Read a forest written by `save`.

    Raises
    ------
    InvalidForest
        The file is no JSON (for instance cut short) or no sound forest.
    """
    try:
        plain = json.loads(Path(path).read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidForest(f"{path} is not valid JSON (was it cut short?): {error}") from error
    return from_dict(plain, limits)


def _short(x: float) -> float:
    # Nine digits give a single-precision number back exactly; the wire codec sends no more.
    return float(f"{x:.9g}")
