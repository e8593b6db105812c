"""What methods whose model is a forest share."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np

from dpforest.errors import InvalidForest
from dpforest.forest import Forest, Limits, save, unpack
from dpforest.forest.forest import Output
from dpforest.growers import ResolvedSettings
from dpforest.growers.budget import plan
from dpforest.own_rows import OwnRows
from dpforest.schema import Schema
from strategies.method import Arrays, ClientSide, ClientTask, Signal, Work

# Largest forest that a client accepts from a server: about 2 GB as flat arrays.
MODEL_LIMITS = Limits(trees=200_000, nodes=20_000_000)
# Rows that work is measured by at least: the number that a server states may be far too small.
LEAST_ROWS = 10_000
# Arrays that nobody can change, with what they were read by and as.
_last_read: tuple[Arrays, Schema, Forest] | None = None
_OWN = "own"  # there where trees ask rows on their person's own scale
_OUTPUTS: tuple[Output, ...] = ("probability", "logit", "target", "target_sum", "score")


def grown_work(resolved: ResolvedSettings, schema: Schema) -> Work:
    """Private trees that a client grows at once."""
    nodes = Limits.complete(resolved.trees, resolved.depth).nodes
    return Work(nodes=nodes, scores=resolved.scores(schema.n_features))


def grown_signal(
    resolved: ResolvedSettings, epsilon: float, rows: int, schema: Schema, clients: int = 1, rounds: int = 1
) -> Signal:
    """How far the leaves of one client's private trees stand out of the noise of their class counts.

    Parameters
    ----------
    epsilon : float
        Of a round.
    rows : int
        Of a client in a round.
    clients, rounds : int
        How many of each send trees.
    """
    disjoint = resolved.tree_rows == "disjoint"
    leaf = rows / (resolved.trees if disjoint else 1) / 2**resolved.depth
    noise = math.sqrt(plan(resolved, epsilon, schema.n_features, 1)[0].counts.variance)
    trees = resolved.trees * rounds
    numbers = trees * 2**resolved.depth * (schema.n_outputs + 2)  # leaves; and a split for each, two numbers
    return Signal(trees * clients, resolved.depth, leaf, noise, leaf > noise, numbers)


def own_nodes(trees: int, depth: int, rows: int) -> int:
    """Nodes of so many trees whose splits follow a client's own rows: two a row and tree at most."""
    return min(Limits.complete(trees, depth).nodes, 2 * trees * max(rows, LEAST_ROWS))


def model_arrays(forest: Forest, packed: Arrays) -> dict[str, np.ndarray]:
    """Arrays of a finished forest as they go to the clients: packed trees, what they hold, and who sent them."""
    owners = np.array([int(owner) if owner else -1 for owner in forest.owners], dtype=np.int32)
    own = {} if forest.own is None else {_OWN: np.array([1])}
    return {**packed, **own, "owners": owners, "output": np.array([_OUTPUTS.index(forest.output)])}


def read_model(arrays: Arrays, schema: Schema) -> Forest:
    """The forest in `model_arrays`, validated; the last one of this process is remembered while its arrays are."""
    global _last_read
    known = _last_read
    if known is None or known[1] != schema or not _are_same(known[0], arrays):
        known = dict(arrays), schema, _read_model(arrays, schema)
        _last_read = known if not any(array.flags.writeable for array in arrays.values()) else None
    return known[2]


def _are_same(known: Arrays, arrays: Arrays) -> bool:
    return known.keys() == arrays.keys() and all(array is arrays[name] for name, array in known.items())


def _read_model(arrays: Arrays, schema: Schema) -> Forest:
    output = int(arrays["output"][0]) if "output" in arrays and arrays["output"].shape == (1,) else -1
    if not 0 <= output < len(_OUTPUTS) or "owners" not in arrays:
        raise InvalidForest("the model does not say what its trees hold")
    owners = tuple("" if owner < 0 else str(owner) for owner in np.ravel(arrays["owners"]).tolist())
    if _OWN not in arrays:
        return unpack(arrays, schema, _OUTPUTS[output], owners, MODEL_LIMITS)
    own = OwnRows(schema)
    return replace(unpack(arrays, own.standardized, _OUTPUTS[output], owners, MODEL_LIMITS), own=own)


class ForestClient(ClientSide):
    """A client whose current model is a forest."""

    def predict(self, task: ClientTask, X: np.ndarray, arrays: Arrays) -> np.ndarray:
        forest = read_model(arrays, task.schema)
        X = forest.of_person(X)
        return forest.predict_proba(X) if task.schema.is_classification else forest.predict(X)

    def predict_by_owner(self, task: ClientTask, X: np.ndarray, arrays: Arrays) -> dict[int, np.ndarray] | None:
        forest = read_model(arrays, task.schema)
        if forest.output not in ("probability", "score"):
            return None
        leaves = forest.apply(forest.of_person(X))
        owners = np.array([int(owner or -1) for owner in forest.owners])
        return {
            int(owner): np.argmax(forest.value[leaves[:, owners == owner]].sum(axis=1), axis=1)
            for owner in np.unique(owners[owners >= 0])
        }


def save_forest(forest: Forest, folder: Path, name: str = "forest") -> None:
    """Write a forest into a run's model folder."""
    save(forest, folder / f"{name}.json")
