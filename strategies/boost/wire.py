"""What travels between the server and the clients of federated boosting; everything received is checked here."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from dpforest.boosting import BoostPlan, Layout, Round, Standard, Start, Structure
from dpforest.boosting.booster import LARGEST_WEIGHT
from dpforest.boosting.columns import Columns
from dpforest.boosting.settings import MAX_DEPTH, LinearPlan
from dpforest.ledger import Entry
from dpforest.mechanisms import DiscreteGaussianSums, DiscreteLaplaceCounts
from dpforest.schema import MOST_ROWS, Schema
from strategies.messages import BadMessage
from strategies.method import Arrays

SUMS = "sums"
HISTOGRAMS, MOMENTS, TREES = "histograms", "moments", "trees"  # what a message asks for
_CUTS, _BASE, _CLIP = "start.cuts", "start.base", "start.clip"
_CENTRE, _SCALE = "start.centre", "start.scale"
_FEATURE, _SPLIT, _GROUPS = "feature", "split", "groups"
_FIRST, _PAST_FEATURE, _PAST_SPLIT = "past.first", "past.feature", "past.split"
_PAST_GROUPS, _PAST_WEIGHTS, _PAST_COEFFICIENTS = "past.groups", "past.weights", "past.coefficients"
# A client rounds its noised sums to this part of the noise's deviation or less: it costs next to nothing in
# accuracy (1/768 of the variance), and saves bytes.
_PARTS = 8
# Inside these no gradient overflows, nor loses digits that its clipped length depends on.
_SMALLEST_CLIP, _LARGEST_CLIP = 1e-9, 1e9
_LARGEST_BASE = 1e3
# Chance that noise makes a check of one number fail. All clients of a run send fewer than 1e9 of them, so an honest
# client is refused with a chance below 1e-9.
_CHANCE = 1e-18
# How many times the public order of magnitude of its rows a client may have.
_MOST_TIMES = 1000
# Inside these, cells in standard units are finite, and so are thresholds between them, in single precision.
_SMALLEST_SCALE, _LARGEST_CENTRE = 1e-35, 1e36

ScoredRows = TypeVar("ScoredRows", bound="Scored")
SumsNoise = DiscreteGaussianSums | DiscreteLaplaceCounts


@dataclass(frozen=True)
class Asked:
    """What the server sends for a round of boosting.

    Parameters
    ----------
    start : Start or None
        None where the client has it already.
    first : int
        Number of the first finished round in ``past``, from 0.
    past : list of Finished
        Rounds that the client may not know.
    structure : Structure
        Trees to fill.
    """

    start: Start | None
    first: int
    past: list[Finished]
    structure: Structure


@dataclass(frozen=True)
class Finished:
    """What a finished round adds to scores; as in `Round`."""

    structure: Structure
    weights: np.ndarray
    coefficients: np.ndarray


def asked_mechanism(plan: BoostPlan, step: object) -> DiscreteGaussianSums | DiscreteLaplaceCounts:
    """What noises the answer to a message.

    Raises
    ------
    BadMessage
        There is no such step in this plan.
    """
    if step == HISTOGRAMS:
        return plan.marginals
    if step == MOMENTS and plan.linear:
        return plan.linear.moments
    if step == TREES:
        return plan.sums
    raise BadMessage(f"the message asks for {step!r}, which this run does not have")


def asked_entry(plan: BoostPlan, step: object) -> Entry:
    """Ledger line of the answer to a message; see `asked_mechanism`."""
    if step == TREES:
        return plan.round_entry
    return plan.linear.moment_entry if step == MOMENTS and plan.linear else plan.marginal_entry


class Scored(Protocol):
    """Rows with the score that finished rounds give each."""

    def add(self, structure: Structure, weights: np.ndarray, coefficients: np.ndarray) -> None:
        """Take a finished round into the scores."""


def caught_up(
    asked: Asked, kept: tuple[ScoredRows, int] | None, begin: Callable[[Start], ScoredRows]
) -> tuple[ScoredRows, int]:
    """A client's rows with all finished rounds in their scores, and how many rounds these are.

    Parameters
    ----------
    kept : (rows, int), optional
        From the last message of this run, and how many rounds they know.
    begin : callable of Start to rows
        Rows that know none.

    Raises
    ------
    BadMessage
        The start or a round is missing, or makes no sense.
    """
    if asked.start is not None:
        if asked.first:
            raise BadMessage(f"a start with finished rounds from {asked.first} only")
        rows, known = begin(asked.start), 0
    elif kept is None:
        raise BadMessage("the first message of this run did not arrive; a start is needed")
    else:
        rows, known = kept
    if asked.first > known:
        raise BadMessage(f"finished rounds from {asked.first}, but this client knows {known}")
    for done in asked.past[known - asked.first :]:
        rows.add(done.structure, done.weights, done.coefficients)
        known += 1
    return rows, known


def write_standard(standard: Standard) -> dict[str, np.ndarray]:
    """Arrays of a message that asks for moments; `read_standard` reads them back."""
    return {_CENTRE: standard.centre, _SCALE: standard.scale}


def read_standard(arrays: Arrays, schema: Schema) -> Standard:
    """Standard units that a server sends, with every number checked.

    Raises
    ------
    BadMessage
        An array is missing, of the wrong type or shape, or holds numbers that are not allowed.
    """
    shape = (len(Columns(schema).numeric),)
    with np.errstate(over="ignore"):  # what single precision cannot hold is refused below
        centre, scale = (_take(arrays, name, "f", shape).astype(np.float32) for name in (_CENTRE, _SCALE))
    sound = np.abs(centre) <= _LARGEST_CENTRE
    sound &= (scale >= _SMALLEST_SCALE) & (scale <= _LARGEST_CENTRE)
    if not sound.all():
        raise BadMessage(
            f"standard units need centres at most {_LARGEST_CENTRE:g} from 0 and scales from {_SMALLEST_SCALE:g} to "
            f"{_LARGEST_CENTRE:g}"
        )
    return Standard(centre, scale)


def write_round(start: Start | None, first: int, past: list[Round], structure: Structure) -> dict[str, np.ndarray]:
    """Arrays of a message; `read_round` reads them back."""
    arrays = {_FIRST: np.array([first], dtype=np.int64), **_write_structure(structure)}
    if start is not None:
        arrays |= {
            _CUTS: start.cuts.astype(np.float32),
            _BASE: start.base,
            _CLIP: np.array([start.clip]),
        }
        if start.standard is not None:
            arrays |= write_standard(start.standard)
    if past:
        arrays |= {
            _PAST_FEATURE: np.stack([_narrow(done.structure.feature) for done in past]),
            _PAST_SPLIT: np.stack([done.structure.split for done in past]),
            _PAST_GROUPS: np.stack([done.structure.groups for done in past]),
            _PAST_WEIGHTS: np.stack([done.weights for done in past]).astype(np.float16),
        }
        if past[0].coefficients.size:
            arrays[_PAST_COEFFICIENTS] = np.stack([done.coefficients for done in past]).astype(np.float16)
    return arrays


def read_round(arrays: Arrays, schema: Schema, plan: BoostPlan) -> Asked:
    """What the server asks, with every shape, index and number checked.

    Parameters
    ----------
    schema : Schema
        Of the columns that trees ask.

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
        start = Start(cuts, base, clip, read_standard(arrays, schema) if plan.linear else None)
    past = []
    if _PAST_WEIGHTS in arrays:
        trees = plan.trees_per_round
        weights = _take(arrays, _PAST_WEIGHTS, "f", (-1, trees, -1, schema.n_outputs)).astype(np.float32, copy=False)
        inner = (len(weights), trees, weights.shape[2] - 1)
        feature = _take(arrays, _PAST_FEATURE, "u", inner)
        split = _take(arrays, _PAST_SPLIT, "u", inner)
        groups = _take(arrays, _PAST_GROUPS, "u", (len(weights), *_groups_shape(columns)))
        if (np.abs(weights) > LARGEST_WEIGHT).any():
            raise BadMessage(f"a leaf changes a score by more than {LARGEST_WEIGHT:g}")
        coefficients = _past_coefficients(arrays, len(weights), schema, plan)
        for f, s, g, w, c in zip(feature, split, groups, weights, coefficients, strict=True):
            structure = _structure(f, s, g, columns, settings.cuts)
            past.append(Finished(structure, np.ascontiguousarray(w), np.ascontiguousarray(c)))
    feature = _take(arrays, _FEATURE, "u", (plan.trees_per_round, -1))
    split = _take(arrays, _SPLIT, "u", feature.shape)
    groups = _take(arrays, _GROUPS, "u", _groups_shape(columns))
    return Asked(start, first, past, _structure(feature, split, groups, columns, settings.cuts))


def _past_coefficients(arrays: Arrays, rounds: int, schema: Schema, plan: BoostPlan) -> np.ndarray:
    shape = (rounds, plan.n_coefficients(schema), schema.n_outputs)
    if not plan.n_coefficients(schema):
        return np.zeros(shape, dtype=np.float32)
    coefficients = _take(arrays, _PAST_COEFFICIENTS, "f", shape).astype(np.float32, copy=False)
    if (np.abs(coefficients) > LARGEST_WEIGHT).any():
        raise BadMessage(f"a coefficient changes by more than {LARGEST_WEIGHT:g}")
    return coefficients


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


def read_sums(arrays: Arrays, shape: tuple[int, ...], deviation: float, clients: int = 1) -> np.ndarray:
    """Sums of a reply, int64; those of so many clients can be added up.

    Raises
    ------
    BadMessage
        They are no integers of that shape.
    """
    sums = _take(arrays, SUMS, "i", shape)
    unit = _sent_unit(deviation)
    if (np.abs(sums.astype(np.float64)) > 2.0**62 / max(1, clients) / unit).any():
        raise BadMessage("a sum is beyond 62 bits")
    return sums.astype(np.int64) * unit


def check_histograms(sums: np.ndarray, schema: Schema, plan: BoostPlan, parties: int = 1) -> None:
    """Refuse histograms of `count_marginals` that records of so many parties and noise cannot explain.

    Raises
    ------
    BadMessage
        A cell is far below 0, or the histograms are not of equally many records, or of too many.
    """
    _check_counts(sums, plan.marginals, plan.marginal_unit, schema, parties, "histograms", "cell")


def check_moments(sums: np.ndarray, linear: LinearPlan, schema: Schema, parties: int = 1) -> None:
    """Refuse moments that records of so many parties and noise cannot explain.

    Raises
    ------
    BadMessage
        One is larger than those of all records that are believed.
    """
    largest = _most_records(schema, parties) * linear.moment_unit + _room(linear.moments, parties)
    if np.abs(sums.astype(np.float64)).max(initial=0) > largest:
        raise BadMessage("moments are beyond those of all records that are believed")


def check_round_sums(sums: np.ndarray, layout: Layout, schema: Schema, plan: BoostPlan, parties: int = 1) -> None:
    """Refuse sums of `Records.release` that records of so many parties and noise cannot explain.

    Raises
    ------
    BadMessage
        The counts of a round's trees are not of equally many records, or gradients are larger than the counts with
        them allow: a record can add ``unit`` to a tree and ``linear.unit`` to the linear part at most, and adds
        ``count_unit`` to the count.
    """
    leaves, linear = layout.parts(sums)
    _check_counts(leaves[..., -1], plan.sums, plan.count_unit, schema, parties, "trees", "leaf")
    counts = np.maximum(leaves[..., -1:], 0).astype(np.float64)
    _check_gradients(leaves[..., :-1], plan.unit, counts, 1, plan, parties)
    if plan.linear:  # the counts of a tree add up to those of all records, and so does their noise
        _check_gradients(linear, plan.linear.unit, counts[0].sum(keepdims=True), layout.leaves[1], plan, parties)


def _check_gradients(
    values: np.ndarray, unit: int, counts: np.ndarray, added: int, plan: BoostPlan, parties: int
) -> None:
    """Hold sums of gradients against counts that are made of so many noised ones each."""
    per_count = unit / plan.count_unit
    room = _room(plan.sums, parties) + per_count * _room(plan.sums, parties, added)
    beyond = np.abs(values) > per_count * counts + room
    if beyond.any():
        raise BadMessage(
            f"{int(beyond.sum())} sums of gradients are beyond what the counts of their leaves allow at this clip"
        )


def _check_counts(
    counts: np.ndarray, mechanism: SumsNoise, unit: int, schema: Schema, parties: int, lines: str, cell: str
) -> None:
    """Every record is in one cell of each line."""
    least, total = int(counts.min()), counts.astype(np.float64).sum(axis=1)
    if least < -_room(mechanism, parties):
        raise BadMessage(f"a {cell} holds {least / unit:.3g} records, which no noise explains")
    room = _room(mechanism, parties, counts.shape[1])
    if total.max() - total.min() > 2 * room:
        of = f"{total.min() / unit:.3g} to {total.max() / unit:.3g} records"
        raise BadMessage(f"the {lines} are of {of}, and must be of equally many")
    most = _most_records(schema, parties)
    if total.max() > most * unit + room:
        raise BadMessage(f"the {lines} are of {total.max() / unit:.3g} records; at most {most:g} are believed")


def _most_records(schema: Schema, parties: int) -> int:
    """More of so many parties are not believed."""
    return parties * min(MOST_ROWS, _MOST_TIMES * schema.rows if schema.rows else MOST_ROWS)


def _room(mechanism: SumsNoise, parties: int, cells: int = 1) -> float:
    """What noise and rounding can make of the sum of so many cells of so many parties."""
    return mechanism.tail(_CHANCE, parties * cells) + parties * cells * _sent_unit(mechanism.variance**0.5)


def check_vectors(sums: np.ndarray, longest: int, mechanism: SumsNoise, parties: int) -> None:
    """Refuse a sum of clients' vectors of bounded length that noise cannot explain.

    Parameters
    ----------
    longest : int
        Squared length of one client's vector.
    mechanism : mechanism
        What noises each of them.
    parties : int
        Clients in the sum.

    Raises
    ------
    BadMessage
    """
    most = parties * math.sqrt(longest) + _room(mechanism, parties)
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
