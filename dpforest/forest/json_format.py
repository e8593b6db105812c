"""Forests as JSON files for people and other programs.

The form is described by ``forest.schema.json`` next to this module (JSON Schema 2020-12), which ships with the package:
`json_schema` reads it. What it cannot say (that children come after their parent, that a feature exists) is checked on
reading, so that no program but this one needs it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpforest.errors import DPForestError, InvalidForest, SchemaError
from dpforest.files import written_whole
from dpforest.forest.codec import fill_inner_nodes
from dpforest.forest.forest import Forest
from dpforest.forest.importance import feature_importances
from dpforest.forest.validate import Limits, validate
from dpforest.own_rows import OwnRows
from dpforest.schema import Schema
from dpforest.texts import BadText, check_plain, parse_json

FORMAT = "dpforest"
# Version 2 has sets of categories, and version 3 asks rows on a person's own scale; all others are written as version
# 1, which other programs know.
VERSION, WITH_SETS, OWN_SCALE = 1, 2, 3
_MORE_KEYS: dict[int, tuple[str, ...]] = {VERSION: (), WITH_SETS: ("sets",), OWN_SCALE: ("own",)}
_FINISHED = ("probability", "score", "logit", "target", "target_sum")
_KEYS = ("format", "version", "output", "schema", "base", "importances", "provenance", "trees")
_TREE_KEYS = ("owner", "feature", "threshold", "left", "value", "weight")
_LARGEST_INDEX = np.iinfo(np.int32).max


def json_schema() -> dict[str, Any]:
    """The JSON Schema of the files that `save` writes.

    Returns
    -------
    dict
        As parsed from JSON.

    Examples
    --------
    >>> json_schema()["properties"]["format"]
    {'const': 'dpforest'}
    """
    text = Path(__file__).with_name("forest.schema.json").read_text(encoding="utf-8")
    plain: dict[str, Any] = json.loads(text)
    return plain


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
    provenance = dict(forest.provenance)
    if forest.stated_importances is not None:
        provenance["importances"] = "stated"
    sets = [dict(zip(("column", "categories"), _listed(forest, s), strict=True)) for s in range(len(forest.sets))]
    return {
        "format": FORMAT,
        "version": OWN_SCALE if forest.own else WITH_SETS if sets else VERSION,
        "output": forest.output,
        "schema": forest.schema.to_dict(),
        "base": forest.base.tolist(),
        "importances": dict(zip(forest.schema.feature_names, map(_short, importances.tolist()), strict=True)),
        "provenance": provenance,
        **({"sets": sets} if sets else {}),
        **({"own": forest.own.schema.to_dict()} if forest.own else {}),
        "trees": trees,
    }


def _listed(forest: Forest, number: int) -> tuple[str, list[str]]:
    column, values = forest.categories_of(number)
    return column, list(values)


def from_dict(plain: Any, limits: Limits | None = None) -> Forest:
    """Rebuild and validate a forest.

    Raises
    ------
    InvalidForest
        The data is no forest, is damaged, or is of a newer version.
    """
    if not isinstance(plain, dict) or plain.get("format") != FORMAT:
        raise InvalidForest(f"not a forest file: expected format {FORMAT!r}")
    version = plain.get("version")
    if type(version) is not int or version not in _MORE_KEYS:
        newer = isinstance(version, int) and version > max(_MORE_KEYS)
        advice = "update dpforest" if newer else "save the forest again"
        raise InvalidForest(
            f"forest file version {version!r}; this release reads versions 1 to {max(_MORE_KEYS)}: {advice}"
        )
    try:
        forest = validate(_read(plain), limits)
    except DPForestError as error:
        kind = SchemaError if isinstance(error, SchemaError) else InvalidForest
        raise kind(f"{error}; take the file from its run again") from error
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InvalidForest(f"damaged forest file: {error}; take the file from its run again") from error
    fill_inner_nodes(forest)
    return forest


def _read(plain: Mapping[str, Any]) -> Forest:
    if plain.get("output") not in _FINISHED:
        raise InvalidForest(f"output {plain.get('output')!r} is no kind of finished forest")
    _check_keys(plain, (*_KEYS, *_MORE_KEYS[plain["version"]]), "the file")
    schema = Schema.from_dict(plain["schema"])
    own = OwnRows(Schema.from_dict(plain["own"])) if "own" in plain else None
    if own is not None and own.standardized != schema:
        raise InvalidForest("damaged forest file: its schema is not that of its own rows on a person's scale")
    if (plain["output"] in ("target", "target_sum")) == schema.is_classification:
        raise InvalidForest(f"damaged forest file: output {plain['output']!r} does not fit the schema's target")
    # Half a surrogate pair can be escaped in JSON, and its name could not be written to any other file.
    json.dumps([plain["schema"], plain.get("own")], ensure_ascii=False).encode("utf-8")
    trees = plain["trees"]
    if not isinstance(trees, list) or not trees or not isinstance(plain["provenance"], dict):
        raise InvalidForest("damaged forest file: trees must be a list of one or more, and provenance a mapping")
    for number, tree in enumerate(trees):
        _check_tree(tree, f"tree {number}", schema)
    sizes = [len(tree["feature"]) for tree in trees]
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    feature = _indices(trees, "feature")
    left = _indices(trees, "left")
    left = np.where(left < 0, left, left + np.repeat(starts[:-1], sizes)).astype(np.int32)
    leaf = left < 0
    # Thresholds are single-precision numbers; so nine digits bring a row that lies on one to the same side.
    with np.errstate(over="ignore"):
        threshold = _numbers([x for tree in trees for x in tree["threshold"]], "threshold").astype(np.float32)
    value = np.zeros((len(feature), schema.n_outputs))
    cells = _numbers([cell for tree in trees for row in tree["value"] for cell in row], "value")
    value[leaf] = cells.reshape(-1, schema.n_outputs)
    weight = np.zeros(len(feature))
    weight[leaf] = _numbers([w for tree in trees for w in tree["weight"]], "weight")
    check_plain(plain["provenance"])
    provenance = dict(plain["provenance"])
    if not np.isfinite(_numbers([provenance.get("base_prediction", 0.0)], "base_prediction")).all():
        raise InvalidForest("damaged forest file: base_prediction must be a finite number")
    json.dumps(provenance, allow_nan=False)  # or else the forest could not be saved again
    importances = _importances(plain["importances"], schema)
    stated = provenance.pop("importances", None) == "stated"
    return Forest(
        schema=schema,
        output=plain["output"],
        offsets=starts,
        feature=feature.astype(np.int32),
        threshold=threshold.astype(np.float64),
        left=left,
        value=value,
        weight=weight,
        base=_numbers(plain["base"], "base"),
        owners=tuple(tree["owner"] for tree in trees),
        provenance=provenance,
        sets=_sets(plain.get("sets", []), schema),
        stated_importances=importances if stated else None,
        own=own,
    )


def _check_keys(plain: Any, allowed: Sequence[str], where: str) -> None:
    if not isinstance(plain, dict) or set(plain) != set(allowed):
        found = sorted(map(str, plain)) if isinstance(plain, dict) else type(plain).__name__
        raise InvalidForest(f"damaged forest file: {where} has {found}, expected {', '.join(allowed)}")


def _check_tree(tree: Any, where: str, schema: Schema) -> None:
    """Lists that fit each other; without it a list too long in one tree could be made up for by another tree."""
    _check_keys(tree, _TREE_KEYS, where)
    lists = [name for name in _TREE_KEYS if name != "owner"]
    if not isinstance(tree["owner"], str) or not all(isinstance(tree[name], list) for name in lists):
        raise InvalidForest(f"damaged forest file: {where} must have a name as owner, and lists of {', '.join(lists)}")
    nodes = len(tree["feature"])
    if not nodes:
        raise InvalidForest(f"damaged forest file: {where} has no nodes")
    for name in ("threshold", "left"):
        if len(tree[name]) != nodes:
            raise InvalidForest(f"damaged forest file: {where} has {len(tree[name])} of {name} for {nodes} nodes")
    leaves = sum(isinstance(v, int) and v < 0 for v in tree["left"])
    if not len(tree["value"]) == len(tree["weight"]) == leaves:
        raise InvalidForest(
            f"damaged forest file: {where} of {leaves} leaves has {len(tree['value'])} values and "
            f"{len(tree['weight'])} weights"
        )
    if any(not isinstance(row, list) or len(row) != schema.n_outputs for row in tree["value"]):
        raise InvalidForest(f"damaged forest file: {where} has leaf values that are not {schema.n_outputs} numbers")


def _indices(trees: Sequence[Mapping[str, Any]], name: str) -> np.ndarray:
    cells = [cell for tree in trees for cell in tree[name]]
    if not set(map(type, cells)) <= {int} or any(abs(cell) > _LARGEST_INDEX for cell in (min(cells), max(cells))):
        raise InvalidForest(f"damaged forest file: {name} must be whole numbers of a tree's size")
    return np.array(cells, dtype=np.int64)


def _numbers(cells: Any, name: str) -> np.ndarray:
    """Cells as float64; ``float`` alone would also read truth values and text."""
    if not isinstance(cells, list) or not set(map(type, cells)) <= {int, float}:
        raise InvalidForest(f"damaged forest file: {name} must be numbers")
    return np.array(cells, dtype=np.float64)


def _sets(plain: Any, schema: Schema) -> np.ndarray:
    if not isinstance(plain, list):
        raise InvalidForest("damaged forest file: sets must be a list")
    place = {name: index for index, name in enumerate(schema.feature_names)}
    sets = np.zeros((len(plain), schema.n_features), dtype=bool)
    for row, item in zip(sets, plain, strict=True):
        _check_keys(item, ("column", "categories"), "a set of categories")
        column, values = item["column"], item["categories"]
        known = schema.categories.get(column, ()) if isinstance(column, str) else ()
        if not isinstance(values, list) or not values or not all(value in known for value in values):
            raise InvalidForest(f"damaged forest file: a set names {values!r}, which are no categories of {column!r}")
        row[[place[f"{column}={value}"] for value in values]] = True
    return sets


def _importances(plain: Any, schema: Schema) -> np.ndarray:
    if not isinstance(plain, dict) or list(plain) != schema.feature_names:
        raise InvalidForest(
            f"damaged forest file: importances must be of its {schema.n_features} features, in their order"
        )
    values = _numbers(list(plain.values()), "importances")
    if not np.isfinite(values).all():
        raise InvalidForest("damaged forest file: importances must be finite numbers")
    return values


def save(forest: Forest, path: str | Path) -> Path:
    """Write a forest as JSON, whole or not at all.

    Parameters
    ----------
    forest : Forest
        A finished one.
    path : str or Path
        The file; replaced if there is one.

    Returns
    -------
    Path
        The file.
    """
    return write_json(to_dict(forest), path)


def write_json(plain: Mapping[str, Any], path: str | Path) -> Path:
    """Write plain data as one line of JSON, whole or not at all."""
    path = Path(path)
    text = json.dumps(plain, separators=(",", ":"), allow_nan=False)
    with written_whole(path) as place:
        place.write_text(text, encoding="utf-8")
    return path


def load(path: str | Path, limits: Limits | None = None) -> Forest:
    """Read a forest written by `save`.

    Parameters
    ----------
    path : str or Path
        Of a ``forest.json``.
    limits : Limits, optional
        How large it may be; the usual ones if left out.

    Returns
    -------
    Forest
        Checked, and ready to predict.

    Raises
    ------
    InvalidForest
        The file is a folder, no JSON (for instance cut short) or no sound forest.
    SchemaError
        Its schema is not one.

    Examples
    --------
    >>> import numpy as np
    >>> from dpforest import PrivateForestClassifier
    >>> X, y = np.repeat([[0.1], [0.9]], 500, axis=0), np.repeat(["low", "high"], 500)
    >>> model = PrivateForestClassifier(trees=1, depth=1, bounds=[(0, 1)], classes=["high", "low"], random_state=0)
    >>> forest = model.fit(X, y).forest_
    >>> import tempfile, pathlib
    >>> from dpforest.forest import load, save
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = save(forest, pathlib.Path(folder) / "forest.json")
    ...     same = load(path)
    >>> bool(np.allclose(same.predict_proba(X), forest.predict_proba(X)))
    True
    """
    try:
        plain = parse_json(Path(path).read_text(encoding="utf-8"))
    except IsADirectoryError:
        raise InvalidForest(f"{path} is a folder: give a forest's file, in a run folder model/forest.json") from None
    except ValueError as error:  # also bytes that are no text
        words = error if isinstance(error, BadText) else f"not valid JSON (was it cut short?): {error}"
        raise InvalidForest(f"{path} is {words}") from error
    try:
        return from_dict(plain, limits)
    except (InvalidForest, SchemaError) as error:
        raise type(error)(f"{path}: {error}") from error


def _short(x: float) -> float:
    # Nine digits give a single-precision number back exactly; the wire codec sends no more.
    return float(f"{x:.9g}")
