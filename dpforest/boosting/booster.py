"""From noised sums to trees: everything here is post-processing and costs no budget."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from dpforest.boosting.bins import Marginals
from dpforest.boosting.columns import Columns
from dpforest.boosting.gains import FeatureGains
from dpforest.boosting.linear import Basis, LinearSteps, Standard, basis_size, linear_trees, moment_norm
from dpforest.boosting.model import CompleteTrees, forest_of
from dpforest.boosting.questions import Questions
from dpforest.boosting.settings import BoostPlan
from dpforest.boosting.sizes import LeafSizes, leaf_sizes, nominal_sizes
from dpforest.boosting.trees import Splits, Structure, random_structure, split_shares
from dpforest.errors import DPForestError
from dpforest.forest import Forest
from dpforest.schema import Schema

Item = TypeVar("Item")
# Largest change of a score by one leaf.
LARGEST_WEIGHT = 2.0
# Deviations that are added to the size of a leaf before its sum is divided by it.
_UPPER_DEVIATIONS = 0.3
# Variance of a record's gradient, in squares of the clip.
_SAMPLE_NOISE = 0.5
# Share of the classes' chances that is spread evenly, so that no class starts at minus infinity.
_EVEN_SHARE = 0.2


@dataclass(frozen=True)
class Start:
    """What all parties need before the first tree; plain numbers of noised histograms.

    Parameters
    ----------
    cuts : ndarray of float64, shape (n_numeric, n_cuts)
        Thresholds of the numeric columns; float32 numbers.
    base : ndarray of float64, shape (n_outputs,)
        Score of every record before the first tree.
    clip : float
        Norm above which gradients are shortened.
    standard : Standard, optional
        Of the linear part; None where there are trees only.
    """

    cuts: np.ndarray
    base: np.ndarray
    clip: float
    standard: Standard | None = None


@dataclass(frozen=True)
class Round:
    """Trees of one round with what their leaves add to a score.

    Parameters
    ----------
    structure : Structure
    weights : ndarray of float32, shape (n_trees, n_leaves, n_outputs)
        Half-precision numbers.
    records : ndarray of float32, shape (n_trees, n_leaves)
        Estimated records of each leaf, at least 0.
    coefficients : ndarray of float32, shape (number of coefficients, n_outputs)
        What the linear part changed by; half-precision numbers. No rows where there are trees only.
    """

    structure: Structure
    weights: np.ndarray
    records: np.ndarray
    coefficients: np.ndarray


@dataclass(frozen=True)
class Layout:
    """What is where in the sums of a round.

    Parameters
    ----------
    leaves : (int, int, int)
        Trees, leaves of each, and outputs and a count.
    linear : (int, int)
        Coefficients and outputs.
    """

    leaves: tuple[int, int, int]
    linear: tuple[int, int]

    @classmethod
    def of(cls, structure: Structure, schema: Schema, plan: BoostPlan) -> Layout:
        """Under a plan, for trees of these shapes."""
        size = plan.n_coefficients(schema)
        return cls((structure.n_trees, structure.n_leaves, schema.n_outputs + 1), (size, schema.n_outputs))

    @property
    def length(self) -> int:
        """Of the vector."""
        return math.prod(self.leaves) + math.prod(self.linear)

    def parts(self, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sums of the leaves and of the linear part, in their shapes."""
        first = math.prod(self.leaves)
        return sums[:first].reshape(self.leaves), sums[first:].reshape(self.linear)


class Booster:
    """Grows the model of a run from noised sums.

    Parameters
    ----------
    schema : Schema
    plan : BoostPlan
    seed : int
        Of the structures; public.
    """

    def __init__(self, schema: Schema, plan: BoostPlan, seed: int) -> None:
        self.schema = schema
        self.plan = plan
        self.rounds: list[Round] = []
        self._rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0xB0057,)))
        self._start: Start | None = None
        self._columns = Columns(schema)
        self._marginals: Marginals | None = None
        self._splits: Splits | None = None
        self._depth = 1
        self._step = 1.0
        self._structure: Structure | None = None
        self._gains = FeatureGains(self._columns.number)
        self._spread = 1.0
        self._moments_left = plan.moment_rounds
        self._linear = LinearSteps((basis_size(self._columns), schema.n_outputs), plan.rounds)

    @property
    def start(self) -> Start:
        """What the marginal histograms came to; an error before `read_marginals`."""
        return _after_histograms(self._start)

    @property
    def records(self) -> float:
        """Estimated number of records, at least 1; an error before `read_marginals`."""
        return _after_histograms(self._marginals).records

    @property
    def needs_moments(self) -> bool:
        """Whether `read_moments` comes next, and not trees."""
        return self._moments_left > 0

    @property
    def standard(self) -> Standard:
        """Standard units of the linear part so far; an error without one, and before `read_marginals`."""
        return _after_histograms(self.start.standard)

    @property
    def structure(self) -> Structure:
        """Trees whose leaves are to be filled next; an error before `read_marginals`."""
        return _after_histograms(self._structure)

    def read_marginals(self, noised: np.ndarray, parties: int) -> None:
        """Choose cuts, first scores and depth.

        Parameters
        ----------
        noised : ndarray of int64, shape ``bins.marginal_shape(schema, settings.bins)``
            Sum of noised `bins.count_marginals`, times the plan's ``marginal_unit``.
        parties : int
            How many parts with noise are in the sum.
        """
        plan, settings = self.plan, self.plan.settings
        unit = plan.marginal_unit
        deviation = (parties * plan.marginals.variance) ** 0.5 / unit
        marginals = Marginals.of(noised / unit, deviation, self.schema, settings.bins, settings.cuts)
        self._marginals = marginals
        clip = plan.clip(self.schema, marginals.records, parties)
        if self.schema.is_classification:
            base = np.log((1 - _EVEN_SHARE) * marginals.target + _EVEN_SHARE / self.schema.n_outputs)
            base -= base.mean()
            strength = _gradient_strength(marginals.target, base, clip)
        else:
            centres = (np.arange(settings.bins) + 0.5) * (2 / settings.bins) - 1
            mean = float(marginals.target @ centres)
            base = np.array([mean])
            self._set_spread(float(marginals.target @ (centres - mean) ** 2))
            clip *= self._spread
            strength = 1.0
        standard = Standard.of_bounds(self._columns) if plan.linear else None
        self._start = Start(marginals.cuts, base, clip, standard)
        self._depth = plan.depth(marginals.records, parties, strength)
        self._step = plan.step(self.schema, marginals.records, parties)
        self._draw_structure()

    def start_from_moments(self, mean: np.ndarray, square: np.ndarray, clients: int) -> None:
        """Choose cuts by noised means (`Marginals.of_moments`), where clients stand in the place of records.

        Clip and depth are those of the plan's settings. No class is likelier than another at first; a regression
        begins at the mean of the target, whose moments are the last, and its clip is in units of the deviation.
        """
        plan, schema = self.plan, self.schema
        self._marginals = marginals = Marginals.of_moments(mean, square, schema, plan.settings.cuts, clients)
        base, clip = np.zeros(schema.n_outputs), plan.clip(schema, clients, 1)
        if not schema.is_classification:
            base = np.clip(2 * mean[-1:], -1, 1)  # scores go from -1 to 1
            self._set_spread(4 * float(square[-1]) - float(base[0]) ** 2)
            clip *= self._spread
        self._start = Start(marginals.cuts, base, clip)
        self._depth = plan.depth(clients, 1)
        self._step = plan.step(schema, 0, 1)  # longer ones were tried on records alone
        self._draw_structure()

    def read_moments(self, noised: np.ndarray, parties: int) -> None:
        """Refine the standard units of the linear part.

        Parameters
        ----------
        noised : ndarray of int64, shape (2 n_numeric,)
            Sum of noised `Standard.moments` of all parties.
        parties : int
            How many parts with noise are in the sum.
        """
        linear = self.plan.linear
        if linear is None or not self.needs_moments:
            raise DPForestError("no moments were asked for")
        scale = moment_norm(len(self._columns.numeric)) / linear.moment_unit
        deviation = (parties * linear.moments.variance) ** 0.5
        refined = self.standard.refined(noised * scale, deviation * scale, self.records)
        self._start = replace(self.start, standard=refined)
        self.skip_moments()

    def skip_moments(self) -> None:
        """Go on with the units so far: what parties sent came to no sum."""
        self._moments_left -= 1

    def read_sums(self, noised: np.ndarray, parties: int) -> Round:
        """Fill the leaves of `structure`, take a step of the linear part, and draw the next trees.

        Parameters
        ----------
        noised : ndarray of int64, 1-D
            Sum of noised `Records.release` of all parties.
        parties : int
            How many parts with noise are in the sum.
        """
        plan = self.plan
        deviation = (parties * plan.sums.variance) ** 0.5
        scale = self.start.clip / plan.unit
        leaves, linear = Layout.of(self.structure, self.schema, plan).parts(noised)
        gradients = leaves[..., :-1] * scale
        counts = leaves[..., -1] / plan.count_unit
        count_deviation = deviation / plan.count_unit
        records = _after_histograms(self._marginals).records
        to_left = split_shares(self.structure, _after_histograms(self._splits))
        nominal = nominal_sizes(to_left, records)
        self._gains.learn(self.structure, nominal, gradients, counts, deviation * scale, count_deviation)
        sizes = leaf_sizes(counts, to_left, records, count_deviation**2)
        newton = self._newton_steps(gradients, sizes, deviation * scale)
        weights = np.clip(newton * (self._step / plan.trees_per_round), -LARGEST_WEIGHT, LARGEST_WEIGHT)
        coefficients = self._linear_step(linear, deviation, records)
        done = Round(self.structure, halved(weights), np.maximum(counts, 0.0).astype(np.float32), halved(coefficients))
        self.rounds.append(done)
        self._draw_structure()
        return done

    def forest(self, provenance: dict[str, Any]) -> Forest:
        """The model so far.

        Raises
        ------
        DPForestError
            No round was finished.
        """
        if not self.rounds:
            raise DPForestError("no tree was grown")
        start = self.start
        questions = Questions(self._columns, start.cuts)
        base = start.base
        asked = [questions.of(done.structure) for done in self.rounds]
        feature, cut = (np.concatenate(parts) for parts in zip(*asked, strict=True))
        weights = np.concatenate([done.weights for done in self.rounds]).astype(np.float64)
        trees = [CompleteTrees(feature, cut, weights, np.concatenate([done.records for done in self.rounds]))]
        if start.standard is not None:
            basis = Basis(self._columns, start.standard)
            marginals = _after_histograms(self._marginals)
            coefficients = np.stack([done.coefficients for done in self.rounds]).sum(axis=0, dtype=np.float64)
            found, constant = linear_trees(basis, coefficients, marginals.categories)
            cells = questions.with_cuts(start.standard.cuts(self._columns))
            trees += [
                CompleteTrees(*cells.of(each.structure), each.weights, each.shares * marginals.records)
                for each in found
            ]
            base = base + constant
        return forest_of(trees, base, self.schema, questions.sets, provenance)

    def _set_spread(self, variance: float) -> None:
        # A target that noise makes look constant still has the width of a cell.
        self._spread = min(1.0, max(max(variance, 0.0) ** 0.5, 1 / self.plan.settings.bins))

    def _linear_step(self, noised: np.ndarray, deviation: float, records: float) -> np.ndarray:
        if self.plan.linear is None:
            return noised.astype(np.float64)  # none
        scale = self.start.clip / self.plan.linear.unit / records
        step = self._linear.step(
            noised * scale, deviation * scale, self._curvature(), self._spread, self.schema.is_classification
        )
        return np.clip(step, -LARGEST_WEIGHT, LARGEST_WEIGHT)

    def _draw_structure(self) -> None:
        self._splits = Splits.draw(_after_histograms(self._marginals), self._rng)
        self._structure = random_structure(
            self.plan.trees_per_round,
            self._depth,
            self._splits,
            self._gains.chances(self.plan.settings.exploration),
            self._rng,
        )

    def _newton_steps(self, gradients: np.ndarray, sizes: LeafSizes, deviation: float) -> np.ndarray:
        """Newton steps of the leaves, the shorter the less a leaf's curvature stands out of the noise.

        Of the form of a posterior mean, ``-G H / (H^2 + s^2 / t^2)`` for steps of prior deviation t and noise s. What
        stands for ``s^2 / t^2`` grows with s alone, since small steps in many rounds do better than the best step in
        one; at a leaf of average size the divisor is ``H + shrinkage s``. The curvature that divides is that of a size
        at the upper end of what it may be: a step that is too short is made good by later rounds, and one that is too
        long is not. To the noise comes that of the sample, a record's gradient being up to the clip.
        """
        upper = sizes.size + _UPPER_DEVIATIONS * sizes.deviation
        curvature = self._curvature()
        relative = sizes.size.mean(axis=1, keepdims=True) / sizes.size
        noise = np.sqrt(deviation**2 + _SAMPLE_NOISE * upper * self.start.clip**2)
        divisor = curvature * upper + self._shrinkage() * noise * relative + 1
        return -gradients / divisor[..., None]

    def _shrinkage(self) -> float:
        if self.plan.settings.shrinkage != "auto":
            return self.plan.settings.shrinkage
        return 20.0 if self._is_gaussian_regression else 4.0

    @property
    def _is_gaussian_regression(self) -> bool:
        """Many weak steps, over many trees; under Laplace noise trees are few, and each must count."""
        return not (self.schema.is_classification or self.plan.settings.pure)

    def _curvature(self) -> float:
        """What stands for the second derivative of the loss of a record."""
        if not self.schema.is_classification:
            return 1.0
        n = self.schema.n_outputs
        return 1.2 * (n - 1) / n**2


def halved(numbers: np.ndarray) -> np.ndarray:
    """Half precision is far finer than the noise, and is what travels: all parties add the same numbers."""
    return numbers.astype(np.float16).astype(np.float32)


def _after_histograms(value: Item | None) -> Item:
    if value is None:
        raise DPForestError("the marginal histograms come first")
    return value


def _gradient_strength(shares: np.ndarray, base: np.ndarray, clip: float) -> float:
    """Root mean square of the first gradients over their clip, at most 1: small where a class is rare."""
    chances = np.exp(base - base.max())
    chances /= chances.sum()
    norms = np.linalg.norm(np.eye(len(shares)) - chances, axis=1)
    return float(np.sqrt(shares @ np.minimum(1.0, norms / clip) ** 2))
