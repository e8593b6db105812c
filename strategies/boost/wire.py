"""What travels between the server and the clients of federated boosting; everything received is checked here."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpforest.boosting import BoostPlan, Round, Start, Structure
from dpforest.boosting.booster import LARGEST_WEIGHT
from dpforest.boosting.columns import Columns
from dpforest.boosting.settings import MAX_DEPTH
from dpforest.schema import Schema
from strategies.messages import BadMessage
from strategies.method import Arrays

SUMS = "sums"
_CUTS, _BASE, _CLIP = "start.cuts", "start.base", "start.clip"
_FEATURE, _SPLIT, _GROUPS = "feature", "split", "groups"
_FIRST, _PAST_FEATURE, _PAST_SPLIT = "past.first", "past.feature", "past.split"
_PAST_GROUPS, _PAST_WEIGHTS, _PAST_LINEAR = "past.groups", "past.weights", "past.linear"
# A client rounds its noised sums to this part of the noise's deviation or less: it costs next to nothing in
# accuracy (1/768 of the variance), and saves bytes.
_PARTS = 8
# Inside these no gradient overflows, nor loses digits that its clipped length depends on.
_SMALLEST_CLIP, _LARGEST_CLIP = 1e-9, 1e9
_LARGEST_BASE = 1e3
# How many deviations noise may explain.
_DEVIATIONS = 12


@dataclass(frozen=True)
class Asked:
    """What the server sends for a round of boosting.

    Parameters
    ----------
    start : Start or None
        None where the client has it already.
    first : int
        Number of the first finished round in ``past``, from 0.
    past : list of (Structure, weights, linear)
        Finished rounds that the client may not know; see `Round`.
    structure : Structure
        Trees to fill.
    """

    start: Start | None
    first: int
    past: list[tuple[Structure, np.ndarray, np.ndarray | None]]
    structure: Structure


def write_round(start: Start | None, first: int, past: list[Round], structure: Structure) -> dict[str, np.ndarray]:
    """Arrays of a message; `read_round` reads them back."""
    arrays = {_FIRST: np.array([first], dtype=np.int64), **_write_structure(structure)}
    if start is not None:
        arrays |= {
            _CUTS: start.cuts.astype(np.float32),
            _BASE: start.base,
            _CLIP: np.array([start.clip]),
        }
    if past:
        arrays |= {
            _PAST_FEATURE: np.stack([_narrow(done.structure.feature) for done in past]),
            _PAST_SPLIT: np.stack([done.structure.split for done in past]),
            _PAST_GROUPS: np.stack([done.structure.groups for done in past]),
            _PAST_WEIGHTS: np.stack([done.weights for done in past]).astype(np.float16),
        }
        linear = [done.linear for done in past if done.linear is not None]
        if linear:
            arrays[_PAST_LINEAR] = np.stack(linear).astype(np.float16)
    return arrays


def read_round(arrays: Arrays, schema: Schema, plan: BoostPlan, linear: bool = False) -> Asked:
    """What the server asks, with every shape, index and number checked.

    Parameters
    ----------
    schema : Schema
        Of the columns that trees ask.
    linear : bool
        Whether finished rounds have a linear part.

    Raises
    ------
    BadMessage
        An array is missing, of the wrong type or shape, or holds numbers that are not allowed.
    """
    settings = plan.settings
    columns = Columns(schema)
    first = int(_take(arrays, _FIRST, "i", (1,))[0])
    if not 0 <= first <= plan.rounds:
        raise BadMessage(f"finished rounds from {first} of {plan.rounds}")
    start = None
    if _CUTS in arrays:
        cuts = _take(arrays, _CUTS, "f", (len(columns.numeric), settings.cuts)).astype(np.float64)
        base = _take(arrays, _BASE, "f", (schema.n_outputs,))
        clip = float(_take(arrays, _CLIP, "f", (1,))[0])
        if (np.diff(cuts, axis=1) < 0).any():
            raise BadMessage("cuts must not fall")
        if not _SMALLEST_CLIP <= clip <= _LARGEST_CLIP or (np.abs(base) > _LARGEST_BASE).any():
            raise BadMessage(
                f"the clip {clip:g} must lie from {_SMALLEST_CLIP:g} to {_LARGEST_CLIP:g}, and first scores at "
                f"most {_LARGEST_BASE:g} from 0"
            )
        start = Start(cuts, base, clip)
    past = []
    if _PAST_WEIGHTS in arrays:
        trees = plan.trees_per_round
        weights = _take(arrays, _PAST_WEIGHTS, "f", (-1, trees, -1, schema.n_outputs)).astype(np.float32, copy=False)
        inner = (len(weights), trees, weights.shape[2] - 1)
        feature = _take(arrays, _PAST_FEATURE, "u", inner)
        split = _take(arrays, _PAST_SPLIT, "u", inner)
        groups = _take(arrays, _PAST_GROUPS, "u", (len(weights), *_groups_shape(columns)))
        parts: list[np.ndarray | None] = [None] * len(weights)
        if linear:
            shape = (len(weights), columns.number + 1, schema.n_outputs)
            parts = list(_take(arrays, _PAST_LINEAR, "f", shape).astype(np.float32, copy=False))
        if any((np.abs(part) > LARGEST_WEIGHT).any() for part in [weights, *parts] if part is not None):
            raise BadMessage(f"a leaf, or a column for 1 of its value, changes a score by more than {LARGEST_WEIGHT:g}")
        for f, s, g, w, part in zip(feature, split, groups, weights, parts, strict=True):
            past.append((_structure(f, s, g, columns, settings.cuts), np.ascontiguousarray(w), part))
    feature = _take(arrays, _FEATURE, "u", (plan.trees_per_round, -1))
    split = _take(arrays, _SPLIT, "u", feature.shape)
    groups = _take(arrays, _GROUPS, "u", _groups_shape(columns))
    return Asked(start, first, past, _structure(feature, split, groups, columns, settings.cuts))


def write_sums(noised: np.ndarray, deviation: float) -> dict[str, np.ndarray]:
    """Noised sums in the smallest integers, in units of `_sent_unit`."""
    unit = _sent_unit(deviation)
    # Rounds to the nearest; every step after the noise is post-processing.
    values = (noised + unit // 2) // unit
    for dtype in (np.int8, np.int16, np.int32):
        info = np.iinfo(dtype)
        if info.min <= values.min() and values.max() <= info.max:
            return {SUMS: values.astype(dtype)}
    return {SUMS: values}


def read_sums(arrays: Arrays, shape: tuple[int, ...], deviation: float) -> np.ndarray:
    """Sums of a reply, int64.

    Raises
    ------
    BadMessage
        They are no integers of that shape.
    """
    sums = _take(arrays, SUMS, "i", shape)
    unit = _sent_unit(deviation)
    if (np.abs(sums.astype(np.float64)) > 2.0**62 / unit).any():
        raise BadMessage("a sum is beyond 62 bits")
    return sums.astype(np.int64) * unit


def check_leaf_sums(sums: np.ndarray, plan: BoostPlan, deviation: float) -> None:
    """Refuse sums of gradients that the counts with them and noise cannot explain.

    Raises
    ------
    BadMessage
        A record can add ``unit`` at most, and adds ``count_unit`` to the count.
    """
    per_count = plan.unit / plan.count_unit
    # A client rounds to a part of the deviation, and records are whole.
    room = _DEVIATIONS * (deviation + plan.unit) * (1 + per_count)
    explained = per_count * np.maximum(sums[..., -1:], 0).astype(np.float64) + room
    beyond = np.abs(sums[..., :-1]) > explained
    if beyond.any():
        raise BadMessage(
            f"{int(beyond.sum())} sums of gradients are beyond what the counts of their leaves allow at this clip"
        )


def check_vectors(sums: np.ndarray, longest: int, parties: int, deviation: float) -> None:
    """Refuse a sum of clients' vectors of bounded length that noise cannot explain.

    Parameters
    ----------
    longest : int
        Squared length of one client's vector.
    parties : int
        Clients in the sum.
    deviation : float
        Of the noise of all of them.

    Raises
    ------
    BadMessage
    """
    most = parties * math.sqrt(longest) + _DEVIATIONS * (deviation + 1) * math.sqrt(parties)
    if (np.abs(sums.astype(np.float64)) > most).any():
        raise BadMessage(f"a sum has numbers beyond {most:.3g}, which neither {parties} clients nor noise explain")


def _sent_unit(deviation: float) -> int:
    return 1 << int(math.log2(max(1.0, deviation / _PARTS)))


def _write_structure(structure: Structure) -> dict[str, np.ndarray]:
    return {_FEATURE: _narrow(structure.feature), _SPLIT: structure.split, _GROUPS: structure.groups}


def _narrow(feature: np.ndarray) -> np.ndarray:
    return feature.astype(np.uint8) if feature.max(initial=0) < 256 else feature


def _groups_shape(columns: Columns) -> tuple[int, int]:
    return len(columns.members), columns.most_categories + 1 if columns.members else 0


def _structure(feature: np.ndarray, split: np.ndarray, groups: np.ndarray, columns: Columns, cuts: int) -> Structure:
    leaves = feature.shape[1] + 1
    if leaves & (leaves - 1) or not 2 <= leaves <= 1 << MAX_DEPTH:
        raise BadMessage(f"{leaves} leaves do not make a complete tree of depth 1 to {MAX_DEPTH}")
    if (feature >= columns.number).any() or (split >= cuts).any() or (groups > cuts).any():
        raise BadMessage("a tree asks a column, a cut or a group of categories that does not exist")
    return Structure(
        np.ascontiguousarray(feature.astype(np.uint16)),
        np.ascontiguousarray(split.astype(np.uint8, copy=False)),
        np.ascontiguousarray(groups.astype(np.uint8, copy=False)),
    )


def _take(arrays: Arrays, name: str, kind: str, shape: tuple[int, ...]) -> np.ndarray:
    array = arrays.get(name)
    if array is None:
        raise BadMessage(f"the message has no array {name!r}")
    fits = array.ndim == len(shape) and all(want in (-1, have) for want, have in zip(shape, array.shape, strict=True))
    if array.dtype.kind != kind or not fits:
        raise BadMessage(f"{name!r} is {array.dtype} of shape {array.shape}; expected kind {kind!r} of {shape}")
    if kind == "f" and not np.isfinite(array).all():
        raise BadMessage(f"{name!r} holds NaN or infinity")
    return array
