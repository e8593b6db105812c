"""Boosting where one client's whole data is the unit: what a client sends a round, what it costs, what the server does.

Two recipes, chosen by public facts alone: by the signal ``S = n mu`` of ``n`` clients (less where each adds all noise).

*Many clients* (`moments`), and any regression: boosting as it is for records, with one client in the place of one
record. Cuts lie at the quantiles of noised moments, and a regression's first score and unit are the noised mean and
deviation of the target. A client sends ``u = (G_t, kappa P_t)`` for all T trees of a round, where ``G_t`` holds in
each leaf the mean gradient of its rows there and ``P_t`` their share, clipped to ``c sqrt(T)`` as one vector.

*Few people* (`own`): about ``S ** 2`` numbers can be learned, so every vector counts. Rows are put on the client's own
scale (`dpforest.own_rows`), and a client sends the direction of its gradient in a linear model of its standardised
values and in T random trees of its ranks, together as one vector::

    u = [ sqrt(a)     sum_j r_j (x) (z_j / sqrt(2 F), d_j / sqrt(2 F), .1)
          sqrt(1 - a) sum_j r_j (x) onehot(leaf_t(j)) / sqrt(T) ]

with ``r_j`` the negative gradient of row j times its share, and ``d_j`` how far ``z_j`` is from the mean. As its
features have length about 1, B rounds of steps ``tau S / B`` leave noise of deviation tau on a score.

Proof. Rows of a client are weighed, standardised, ranked and averaged inside ``u``, a function of the client's data and
of what was released before. By `dpforest.mechanisms.vectors` a client replaced by nothing moves a round's sum by at
most ``c sqrt(T)``, or 1, in L2 norm, in whole numbers by the root of the squared sensitivity that the mechanism is made
for, so that a round is mu_b-GDP with ``mu_b = Delta / sigma``, all of its trees being one release. Moments of F columns
(a target counts as one) are clipped to ``sqrt(F) / 4`` in the same way. Adaptive rounds compose exactly:
``mu^2 = mu_moments^2 + sum_b mu_b^2``. Everything behind the sums (steps, centring, which features are drawn) is
post-processing, and the number of clients is public.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import softmax

from dpforest.boosting import kernels
from dpforest.boosting.booster import LARGEST_WEIGHT, Booster, Round, Start, halved
from dpforest.boosting.columns import Columns
from dpforest.boosting.lines import Line
from dpforest.boosting.model import CompleteTrees, forest_of, score_scale
from dpforest.boosting.settings import BoostPlan, BoostSettings
from dpforest.boosting.sizes import nominal_sizes
from dpforest.boosting.trees import Splits, Structure, random_structure, split_shares
from dpforest.errors import DPForestError
from dpforest.forest import Forest
from dpforest.ledger import Entry, Ledger
from dpforest.mechanisms import DiscreteGaussianSums, clipped_vector, scaled_sums, unit_vector
from dpforest.noise import Noise
from dpforest.own_rows import RANKS, OwnRows, class_shares, distances
from dpforest.schema import Schema

# Signal from which on boosting goes as for records. On validation people of WISDM, own scales were ahead at 68.
MANY = 100.0
# What a vector's largest length becomes in whole numbers, at least; a client's many small numbers lose little of it.
_LEAST_UNITS = 1 << 12
_CLIP = 0.05
# What a client adds to counts, next to its mean gradient of length 1 or so.
_COUNT = 0.1
_MOST_DEPTH_MOMENTS, _MOST_DEPTH_OWN = 8, 6
_SCORE_NOISE, _LONGEST = 0.8, 60.0
_OFFSET = 0.1
# Of a vector's squared length, for the linear part. A half was worse on validation people of WISDM and HAPT at epsilon
# 1, 3 and 10, and level on those of HuGaDB, where trees alone and the linear part alone were worse.
_LINEAR_SHARE = 0.75
# Part of the chance of being asked that all features share equally.
_EVEN = 0.3
_MOMENTS = "means of a client's features and of their squares, clipped together"
_LEAVES = "a client's mean gradients and shares in the leaves of a round's trees, clipped together"
_DIRECTIONS = "direction of a client's gradient in a round's linear part and trees, of length 1"


@dataclass(frozen=True, kw_only=True)
class ClientPlan(BoostPlan):
    """What every client does and pays where its whole data is the unit; follows from public facts alone.

    Parameters
    ----------
    own : bool
        Whether rows are put on the client's own scale.
    clients : int
        All of them: the divisor of every sum.
    linear_share : float
        Share a of a vector's squared length, about, that the linear part has.
    balance : float
        Exponent of a class's rows by which its rows weigh less.
    step_length : float
        Factor on the mean of unit vectors.
    """

    own: bool
    clients: int
    linear_share: float
    balance: float
    step_length: float

    @property
    def starts_with_trees(self) -> bool:
        """With cuts that are public as they are."""
        return self.own

    def planned(self) -> list[Entry]:
        """All releases of one client."""
        return super().planned()[1:] if self.own else super().planned()

    def vector_shape(self, schema: Schema, n_leaves: int) -> tuple[int, ...]:
        """Of what a client sends a round: leaves of all trees, or with a linear part all numbers behind one another."""
        trees, outputs = self.trees_per_round, schema.n_outputs
        if not self.own:
            return trees, n_leaves, outputs + 1
        rows = 2 * len(OwnRows(schema).columns) + 1 if self.linear_share else 0
        return ((trees * n_leaves + rows) * outputs,)

    def n_coefficients(self, schema: Schema) -> int:
        """Likewise; a column's value and its distance, and one for every record."""
        return 2 * Columns(schema).number + 1 if self.linear_share else 0

    def asked_schema(self, schema: Schema) -> Schema:
        """Schema of the columns that trees ask."""
        return OwnRows(schema).ranked if self.own else schema

    @property
    def longest(self) -> int:
        """Squared length of a client's vector of a round, in whole numbers, at most."""
        return self.unit**2 * (1 if self.own else self.trees_per_round)


def make_client_plan(
    settings: BoostSettings,
    schema: Schema,
    *,
    rounds: int,
    mu: float,
    signal: float,
    clients: int,
    shares: int,
    scale: str = "auto",
    linear_share: float | None = None,
    balance: float = 0.5,
) -> ClientPlan:
    """Choose the recipe, and solve its noise.

    Parameters
    ----------
    settings : BoostSettings
        As given.
    schema : Schema
        Public description of the rows.
    rounds : int
        Of boosting.
    mu : float
        What all releases may cost together.
    signal : float
        How far the mean of all clients' unit vectors stands out of the noise of the run.
    clients : int
        That train.
    shares : int
        How many clients share the noise of a sum; 1: each adds all of it.
    scale : {"auto", "own", "moments"}
        The recipe; ``auto`` follows the signal.
    linear_share : float, optional
        Of the recipe ``own``; three quarters if left out.
    balance : float
        How far rare classes weigh more.

    Returns
    -------
    ClientPlan
        With its noise.

    Raises
    ------
    DPForestError
        The settings are not for clients, or the noise does not fit whole numbers.
    """
    if scale == "own" and not schema.is_classification:
        raise DPForestError(
            "scale=own is for classes: the direction of a target's gradient does not say how far to go; leave scale out"
        )
    if settings.pure:
        raise DPForestError("pure noise hides no client's whole data: set pure=false, or use privacy.unit=record")
    own = scale == "own" or (scale == "auto" and signal < MANY and schema.is_classification)
    if not own and linear_share:
        raise DPForestError(
            "linear_share is for scale=own and classes, where each client standardises its rows by its own"
        )
    part = (_LINEAR_SHARE if linear_share is None else float(linear_share)) if own else 0.0
    trees = _trees(settings, own, part)
    clip = _CLIP if settings.clip == "auto" else settings.clip
    cuts = RANKS - 1 if own else settings.cuts
    bins = max(settings.bins, cuts + 1)
    settings = replace(settings, depth=_depth(settings, own, part, signal), clip=clip, cuts=cuts, bins=bins)
    first = 0.0 if own else settings.marginal_share
    moment_unit, moments = scaled_sums(
        _LEAST_UNITS, lambda unit: unit**2 * n_moment_columns(schema), mu * math.sqrt(settings.marginal_share), shares
    )
    parts = 1 if own else trees
    unit, sums = scaled_sums(
        _LEAST_UNITS, lambda unit: unit**2 * parts, mu * math.sqrt((1 - first) / rounds), shares
    )  # fmt: skip
    step = _SCORE_NOISE if settings.step == "auto" else settings.step
    return ClientPlan(
        settings,
        rounds,
        trees,
        moment_unit,
        unit,
        max(1, round(unit * _COUNT / float(settings.clip))),
        moments,
        sums,
        moments.entry(_MOMENTS),
        sums.entry(_DIRECTIONS if own else _LEAVES),
        own=own,
        clients=clients,
        linear_share=part,
        balance=balance,
        step_length=min(step * signal, _LONGEST) / rounds,
    )


def _trees(settings: BoostSettings, own: bool, linear_share: float) -> int:
    if own and linear_share == 1:
        return 0
    if settings.trees_per_round != "auto":
        return settings.trees_per_round
    return 32 if own else 8


def _depth(settings: BoostSettings, own: bool, linear_share: float, signal: float) -> int:
    if settings.depth != "auto":
        return settings.depth
    bits = math.log2(min(max(signal, 1.0), 2.0**40))
    if own:
        least = 2 if linear_share else 1
        return min(max(round(0.75 * bits - 0.5), least), _MOST_DEPTH_OWN)
    return min(max(round(0.6 * bits + 0.2), 1), _MOST_DEPTH_MOMENTS)


def n_moment_columns(schema: Schema) -> int:
    """Columns of which moments are released: all features, and a target."""
    return schema.n_features + (not schema.is_classification)


def release_client_moments(
    X: np.ndarray, y: np.ndarray, schema: Schema, plan: ClientPlan, ledger: Ledger, noise: Noise
) -> np.ndarray:
    """A client's noised means of ``x`` and of its square, ``x`` from -1/2 to 1/2 along the public scale.

    Returns
    -------
    ndarray of int64, shape (2, n_moment_columns(schema))
        In parts of ``1 / (4 marginal_unit)``.
    """
    ledger.require([plan.marginal_entry])
    x = schema.grid_position(X) - 0.5
    gaps = schema.gaps
    x[:, gaps] = np.where(X[:, gaps] == schema.missing_values[gaps], 0.0, x[:, gaps])
    if not schema.is_classification:
        x = np.column_stack([x, score_scale(y, schema) / 2])
    shares = _row_shares(y, schema, plan)
    moments = np.stack([shares @ x, shares @ x**2])
    clip = math.sqrt(n_moment_columns(schema)) / 4
    vector = clipped_vector(moments, clip, plan.marginal_unit**2 * n_moment_columns(schema))
    return _gaussian(plan.marginals).release(vector, plan.marginal_entry, ledger, noise)


def _row_shares(y: np.ndarray, schema: Schema, plan: ClientPlan) -> np.ndarray:
    """Of a client's rows, which add up to 1; those of a regression count alike."""
    return class_shares(y, plan.balance) if schema.is_classification else np.full(len(y), 1 / max(len(y), 1))


def _gaussian(mechanism: Any) -> DiscreteGaussianSums:
    assert isinstance(mechanism, DiscreteGaussianSums)
    return mechanism


def read_client_moments(booster: Booster, noised: np.ndarray, plan: ClientPlan) -> None:
    """Choose cuts by the noised sum of `release_client_moments`."""
    mean, square = noised / (4.0 * plan.marginal_unit * plan.clients)
    booster.start_from_moments(mean, square, plan.clients)


class ClientRows:
    """One client's rows with the score that the model so far gives each.

    Parameters
    ----------
    schema : Schema
    plan : ClientPlan
    codes : ndarray of uint8, shape (n_rows, n_columns)
        Of the columns that trees ask.
    values : ndarray of float32, shape (n_rows, n_columns), or None
        That the linear part multiplies, and their distances.
    y : ndarray of shape (n_rows,)
        Class indices, or targets.
    unit : float
        Unit of gradients: for a regression, the noised deviation of the target.
    scores : ndarray of float32, shape (n_rows, n_outputs)
    """

    def __init__(
        self,
        schema: Schema,
        plan: ClientPlan,
        codes: np.ndarray,
        values: np.ndarray | None,
        y: np.ndarray,
        unit: float,
        scores: np.ndarray,
    ) -> None:
        self.codes, self.values, self.unit, self.scores = codes, values, unit, scores
        self._schema, self._plan = schema, plan
        self._y = y if schema.is_classification else score_scale(y, schema)

    @classmethod
    def of(
        cls,
        X: np.ndarray,
        y: np.ndarray,
        schema: Schema,
        plan: ClientPlan,
        start: Start,
        scores: np.ndarray | None = None,
    ) -> ClientRows:
        """Rows as they come, from the first scores or later ones."""
        if scores is None:
            scores = np.tile(start.base.astype(np.float32), (len(y), 1))
        if not plan.own:
            unit = start.clip / float(plan.settings.clip)
            return cls(schema, plan, Columns(schema).codes(X, start.cuts), None, y, unit, scores)
        own = OwnRows(schema)
        codes = Columns(own.ranked).codes(own.ranks(X), own_cuts(schema))
        return cls(schema, plan, codes, own.steps(X) if plan.linear_share else None, y, 1.0, scores)

    def add(self, structure: Structure, weights: np.ndarray, coefficients: np.ndarray) -> None:
        """Take a finished round into the scores."""
        codes = structure.grouped(self.codes)
        kernels.add_weights(codes, structure.feature, structure.split, weights, self.scores)
        if self.values is not None:
            self.scores += _with_distances(self.values) @ coefficients[:-1] + coefficients[-1]

    def release(self, structure: Structure, ledger: Ledger, noise: Noise) -> np.ndarray:
        """The client's noised vector of a round, int64 of shape `ClientPlan.vector_shape`."""
        plan = self._plan
        ledger.require([plan.round_entry])
        return _gaussian(plan.sums).release(self._vector(structure), plan.round_entry, ledger, noise)

    def _vector(self, structure: Structure) -> np.ndarray:
        plan = self._plan
        shares = _row_shares(self._y, self._schema, plan)
        gradients = self._gradients() * shares[:, None]
        sums = np.zeros((structure.n_trees, structure.n_leaves, gradients.shape[1] + 1))
        codes = structure.grouped(self.codes)
        kernels.add_records(codes, structure.feature, structure.split, gradients, shares, sums)
        if not plan.own:
            sums[..., -1] *= _COUNT
            clip = float(plan.settings.clip) * math.sqrt(plan.trees_per_round)
            return clipped_vector(sums, clip, plan.longest)
        parts = [-_tree_factor(plan) * sums[..., :-1].ravel()]
        if self.values is not None:
            values = _with_distances(self.values)
            factors = _linear_factors(plan, values.shape[1])
            with_offset = np.concatenate([values.T @ gradients, gradients.sum(axis=0, keepdims=True)])
            parts.append(-(factors[:, None] * with_offset).ravel())
        return unit_vector(np.concatenate(parts), plan.unit)

    def _gradients(self) -> np.ndarray:
        scores = self.scores.astype(np.float64)
        if not self._schema.is_classification:
            return (scores - self._y[:, None]) / self.unit
        gradients = softmax(scores, axis=1)
        gradients[np.arange(len(self._y)), self._y] -= 1
        return gradients


def _with_distances(values: np.ndarray) -> np.ndarray:
    return np.concatenate([values, distances(values)], axis=1)


def _tree_factor(plan: ClientPlan) -> float:
    return math.sqrt((1 - plan.linear_share) / max(plan.trees_per_round, 1))


def _linear_factors(plan: ClientPlan, width: int) -> np.ndarray:
    """Of the values and of the offset, shape (width + 1,)."""
    return math.sqrt(plan.linear_share) * np.append(np.full(width, 1 / math.sqrt(width)), _OFFSET)


def own_cuts(schema: Schema) -> np.ndarray:
    """Cuts between equal parts of ranks, shape (n_columns, RANKS - 1)."""
    return np.tile(np.arange(1, RANKS) / RANKS, (len(OwnRows(schema).columns), 1))


class OwnBooster:
    """Grows the model of a run from noised directions of clients' gradients on their own scales.

    Parameters
    ----------
    schema : Schema
    plan : ClientPlan
    seed : int
        Of the structures; public.
    """

    def __init__(self, schema: Schema, plan: ClientPlan, seed: int) -> None:
        self.schema, self.plan = schema, plan
        self.rounds: list[Round] = []
        self.start = Start(own_cuts(schema), np.zeros(schema.n_outputs), 1.0)
        self._own = OwnRows(schema)
        self._width = len(self._own.columns)
        self._rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0xB0057,)))
        number = np.full(self._width, RANKS - 1)
        places = np.tile(np.arange(RANKS - 1), (self._width, 1))
        shares = np.tile(np.arange(RANKS + 1) / RANKS, (self._width, 1))
        self._splits = Splits(number, places, places, shares, np.zeros((0, 0), dtype=np.uint8))
        self._gain = np.zeros(self._width)
        self.structure = self._draw_structure()

    def read_sums(self, noised: np.ndarray, parties: int) -> Round:
        """Go a step along the noised mean of the clients' directions, and draw the next trees.

        Parameters
        ----------
        noised : ndarray of int64, shape `ClientPlan.vector_shape`
        parties : int
            How many parts with noise are in the sum.
        """
        plan, structure = self.plan, self.structure
        outputs = self.schema.n_outputs
        mean = (noised / (plan.unit * plan.clients)).reshape(-1, outputs)
        mean -= mean.mean(axis=1, keepdims=True)  # adding to all classes alike changes no probability
        leaves = mean[: structure.n_trees * structure.n_leaves].reshape(structure.n_trees, structure.n_leaves, outputs)
        deviation = math.sqrt(parties * plan.sums.variance) / (plan.unit * plan.clients)
        self._learn_gains(leaves, deviation)
        weights = np.clip(plan.step_length * _tree_factor(plan) * leaves, -LARGEST_WEIGHT, LARGEST_WEIGHT)
        coefficients = np.zeros((0, outputs), dtype=np.float32)
        if plan.linear_share:
            factors = _linear_factors(plan, 2 * self._width)
            steps = plan.step_length * factors[:, None] * mean[-len(factors) :]
            coefficients = halved(np.clip(steps, -LARGEST_WEIGHT, LARGEST_WEIGHT))
        done = Round(structure, halved(weights), self._sizes(), coefficients)
        self.rounds.append(done)
        self.structure = self._draw_structure()
        return done

    def forest(self, provenance: dict[str, Any]) -> Forest:
        """The model so far, over rows on each person's own scale; the linear part as a tree a column.

        Raises
        ------
        DPForestError
            No round was finished.
        """
        if not self.rounds:
            raise DPForestError("no tree was grown")
        schema, own, no_sets = self._own.standardized, self._own, np.zeros((0, 0), dtype=bool)
        base = np.zeros(self.schema.n_outputs)
        parts: list[CompleteTrees] = []
        if self.plan.trees_per_round:
            structures = [done.structure for done in self.rounds]
            parts.append(
                CompleteTrees(
                    np.concatenate([structure.feature for structure in structures]).astype(np.int64),
                    (np.concatenate([structure.split for structure in structures]) + 1.0) / RANKS,
                    np.concatenate([done.weights for done in self.rounds]).astype(np.float64),
                    np.concatenate([done.records for done in self.rounds]),
                )
            )
        if self.plan.linear_share:
            slopes = np.stack([done.coefficients for done in self.rounds]).sum(axis=0, dtype=np.float64)
            base += slopes[-1]
            of_values, of_distances = slopes[:-1].reshape(2, self._width, -1)
            parts.append(Line.of_z().trees(of_values, self._width, self.plan.clients, of_distances))
        return forest_of(parts, base, schema, no_sets, provenance, own)

    def _learn_gains(self, leaves: np.ndarray, deviation: float) -> None:
        """Add to each feature what its splits separated beyond noise."""
        structure = self.structure
        below = 1  # leaves of each side
        sums = leaves
        while sums.shape[1] > 1:
            left, right = sums[:, 0::2], sums[:, 1::2]
            noise = (self.schema.n_outputs - 1) * deviation**2
            gain = ((left - right) ** 2).sum(axis=2) / (2 * below) - noise
            nodes = left.shape[1]
            np.add.at(self._gain, structure.feature[:, nodes - 1 : 2 * nodes - 1], gain)
            sums, below = left + right, 2 * below

    def _sizes(self) -> np.ndarray:
        """Clients in each leaf, if their columns were independent."""
        if not self.plan.trees_per_round:
            return np.zeros((0, self.structure.n_leaves), dtype=np.float32)
        return nominal_sizes(split_shares(self.structure, self._splits), self.plan.clients)[-1].astype(np.float32)

    def _draw_structure(self) -> Structure:
        if not self.plan.trees_per_round:
            return Structure(np.zeros((0, 1), dtype=np.uint16), np.zeros((0, 1), dtype=np.uint8), self._splits.groups)
        strength = np.maximum(self._gain, 0.0)
        chances = np.full(self._width, 1 / self._width)
        if strength.sum() > 0:
            chances = _EVEN * chances + (1 - _EVEN) * strength / strength.sum()
        depth = self.plan.depth(self.plan.clients, 1)
        return random_structure(self.plan.trees_per_round, depth, self._splits, chances, self._rng)
