"""The linear part of boosting: what trees of random structure are slow to find where data is small.

A score gets ``phi(x) @ coefficients`` next to its trees, ``phi`` holding every numeric column in standard units, the
values of the categorical ones as 0 and 1, and a constant, all over the root of their number. Each round the parties
release the sum of ``gradient x phi`` in one vector with the sums of the trees; the server takes a step with momentum.

*Sensitivity.* A record's ``phi`` is shortened to a norm of 1 at most and its gradient is one of whole numbers of norm
``unit`` at most (`kernels.class_gradients`), so their outer product has a norm of ``unit`` at most. It is scaled to
``LinearPlan.unit`` less a part in 10^9, which covers the rounding of a product of doubles, and cut off towards zero,
which makes no coordinate larger. So a record adds a vector of whole numbers of norm at most ``LinearPlan.unit`` to the
linear sums, next to those it adds to the trees; the squared norms of all add up to the squared sensitivity of a round.

*Standard units.* Mean and variance of the columns come from noised moments, twice: first in units of the public
bounds, then in those that the first came to, where the same noise is a smaller part of a column's spread (as in Biswas
et al. 2020, CoinPress). A record adds ``(z, (z^2 - 1) / 2)`` of each numeric column, shortened to a norm of ``sqrt(1.5
columns)``, scaled to `LinearPlan.moment_unit`, and cut off towards zero: the same argument.

In the finished forest a column's part is one tree, whose leaves are the cells of the standard units.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from dpforest.boosting import kernels
from dpforest.boosting.columns import Columns
from dpforest.boosting.trees import Structure, search_order
from dpforest.growers.kernels import bin_rows
from dpforest.mechanisms import whole_numbers

CELLS = 64
# Cells in one standard unit: what they round off is far below the noise.
_PER_UNIT = 10
_FARTHEST = 3.0  # standard units at which cells are cut off for moments
_LESS = 1 - 1e-9  # covers the rounding of a norm and a product in double precision
_ROWS_AT_ONCE = 1024
_MOMENTUM = 0.9
# Longest step, in Newton steps of a curvature that all columns share; momentum is stable up to 38.
_FASTEST = 20.0
# What the noise of all rounds may add to a score, as a standard deviation: of a logit, and in those of the target.
_LOGIT_NOISE, _TARGET_NOISE = 1.5, 0.3


@dataclass(frozen=True)
class Standard:
    """Standard units of the numeric columns.

    Parameters
    ----------
    centre, scale : ndarray of float32, shape (n_numeric,)
        A cell x is ``(x - centre) / scale``; scales are positive.
    """

    centre: np.ndarray
    scale: np.ndarray

    @classmethod
    def of_bounds(cls, columns: Columns) -> Standard:
        """From the public bounds alone: a quarter of their distance is one unit."""
        low, high = (np.array([getattr(f, end) for f in columns.features], dtype=np.float64) for end in ("low", "high"))
        return cls(((low + high) / 2).astype(np.float32), np.maximum((high - low) / 4, 1e-30).astype(np.float32))

    def cuts(self, columns: Columns) -> np.ndarray:
        """Thresholds between the cells, non-decreasing float32 numbers, shape (n_numeric, CELLS - 1).

        Where a column may lack values, the first tells what is missing from all others.
        """
        cuts = self.centre.astype(np.float64)[:, None] + self.scale.astype(np.float64)[:, None] * _edges()[1:-1]
        for row, feature in zip(cuts, columns.features, strict=True):
            if feature.has_branch:
                row[:] = np.maximum(row, feature.missing_cut)
                row[0] = feature.missing_cut
        return cuts.astype(np.float32).astype(np.float64)

    def moments(self, numbers: np.ndarray, columns: Columns, unit: int) -> np.ndarray:
        """Sums over records of ``(z, (z^2 - 1) / 2)``, each record's shortened to a norm of ``unit`` at most.

        Parameters
        ----------
        numbers : ndarray of shape (n_records, n_numeric)

        Returns
        -------
        ndarray of int64, shape (2 n_numeric,)
        """
        total = np.zeros(2 * numbers.shape[1], dtype=np.int64)
        missing = np.array([f.missing_cut if f.has_branch else -np.inf for f in columns.features])
        longest = moment_norm(numbers.shape[1])
        for first in range(0, len(numbers), _ROWS_AT_ONCE):
            rows = numbers[first : first + _ROWS_AT_ONCE].astype(np.float64)
            z = np.clip((rows - self.centre) / self.scale, -_FARTHEST, _FARTHEST)
            parts = np.concatenate([z, (z**2 - 1) / 2], axis=1)
            parts[np.tile(rows <= missing, 2)] = 0
            lengths = np.maximum(np.linalg.norm(parts, axis=1), longest)
            total += whole_numbers(parts * (unit * _LESS / lengths)[:, None], unit, towards_zero=True).sum(axis=0)
        return total

    def refined(self, noised: np.ndarray, deviation: float, records: float) -> Standard:
        """The units that noised `moments` come to.

        What noise explains is shrunk: centres towards the old ones, variances towards their mean over all columns, by
        how much columns differ beyond noise.

        Parameters
        ----------
        noised : ndarray of shape (2 n_numeric,)
            In units of ``(z, (z^2 - 1) / 2)``.
        deviation : float
            Of the noise of each.
        """
        mean, half = noised.reshape(2, -1) / records
        noise = (deviation / records) ** 2
        spread = max(0.0, float((mean**2).mean()) - noise)
        mean = mean * (spread / (spread + noise + 1e-12))
        variance = 2 * half + 1 - mean**2
        noise *= 4
        average = max(float(variance.mean()), 0.02)
        differ = min(max(float(((variance - average) ** 2).mean()) - noise, 0.05 * average**2), average**2)
        variance = (variance * differ + average * noise) / (differ + noise)
        variance = np.clip(variance, 0.1 * average * noise / (differ + noise) + 1e-4, 16.0)
        return Standard(
            (self.centre + mean * self.scale).astype(np.float32), (self.scale * np.sqrt(variance)).astype(np.float32)
        )


def moment_norm(n_numeric: int) -> float:
    """Norm to which a record's moments are shortened."""
    return math.sqrt(1.5 * n_numeric)


@dataclass(frozen=True)
class Basis:
    """What the coefficients of the linear part multiply.

    Parameters
    ----------
    columns : Columns
    standard : Standard
    """

    columns: Columns
    standard: Standard

    @property
    def size(self) -> int:
        """Number of coefficients of an output: numeric columns, categories, and a constant, in this order."""
        return basis_size(self.columns)

    @property
    def one(self) -> float:
        """What the constant and a category at hand are; a numeric column counts in units of it."""
        return 1 / math.sqrt(self.columns.number + 1)

    @property
    def table(self) -> np.ndarray:
        """Value of each cell of the numeric columns, float64 of shape (n_numeric, CELLS); 0 for a missing one."""
        middle = (np.arange(CELLS) - (CELLS - 1) / 2) / _PER_UNIT
        table = np.tile(middle * self.one, (len(self.columns.numeric), 1))
        table[[f.has_branch for f in self.columns.features], 0] = 0
        return table

    @property
    def offsets(self) -> np.ndarray:
        """First coefficient of each categorical column, and the end; int64."""
        return np.cumsum([len(self.columns.numeric), *map(len, self.columns.members)])


def basis_size(columns: Columns) -> int:
    """See `Basis.size`."""
    return len(columns.numeric) + sum(map(len, columns.members)) + 1


class LinearRecords:
    """A party's records as the linear part sees them.

    Parameters
    ----------
    X : ndarray of shape (n_records, n_features)
    codes : ndarray of uint8
        `Columns.codes` of the same records.
    basis : Basis
    """

    def __init__(self, X: np.ndarray, codes: np.ndarray, basis: Basis) -> None:
        numbers = np.ascontiguousarray(X[:, basis.columns.numeric])
        self._cells = bin_rows(numbers, basis.standard.cuts(basis.columns).astype(X.dtype))
        self._categories = codes[:, len(basis.columns.numeric) :]
        self._table, self._offsets, self._one, self._size = basis.table, basis.offsets, basis.one, basis.size
        self._shortened = np.empty(len(X))
        kernels.shorten(self._cells, self._table, self._offsets, self._one, self._shortened)

    def sums(self, gradients: np.ndarray, unit: int, linear_unit: int) -> np.ndarray:
        """Sums of ``gradient x phi``, int64 of shape (size, n_outputs); the module says what a record adds at most.

        Parameters
        ----------
        gradients : ndarray of int32, shape (n_records, n_outputs)
            Of norm ``unit`` at most.
        """
        sums = np.zeros((self._size, gradients.shape[1]), dtype=np.int64)
        reach = self._shortened * (_LESS * linear_unit / unit)
        kernels.add_linear(
            self._cells, self._table, self._categories, self._offsets, self._one, reach, gradients, linear_unit, sums
        )
        return sums

    def add(self, coefficients: np.ndarray, scores: np.ndarray) -> None:
        """Add ``phi @ coefficients`` (float32, shape (size, n_outputs)) to the scores, in place."""
        kernels.add_linear_scores(
            self._cells, self._table, self._categories, self._offsets, self._one, coefficients, scores
        )


class LinearSteps:
    """Gradient steps with momentum, whose rate falls to 0 over the rounds of a run.

    Parameters
    ----------
    shape : (int, int)
        Of the coefficients.
    rounds : int
    """

    def __init__(self, shape: tuple[int, int], rounds: int) -> None:
        self._velocity = np.zeros(shape)
        self._rounds = rounds
        self._done = 0

    def step(
        self, gradient: np.ndarray, deviation: float, curvature: float, spread: float, is_classification: bool
    ) -> np.ndarray:
        """Change of the coefficients, in the shape of the gradient.

        Parameters
        ----------
        gradient : ndarray of shape (size, n_outputs)
            Noised mean over the records.
        deviation : float
            Of the noise of each number.
        curvature : float
            Second derivative of the loss by the score.
        spread : float
            Standard deviation of the target; not used for classes.
        """
        if is_classification:
            gradient = gradient - gradient.mean(axis=1, keepdims=True)  # scores count by their differences alone
        allowed = _LOGIT_NOISE if is_classification else _TARGET_NOISE * spread
        # A third: the sum of the squares of rates that fall to 0.
        of_all_rounds = deviation * math.sqrt(self._rounds / 3)
        rate = min(_FASTEST / curvature, allowed / of_all_rounds if of_all_rounds else math.inf)
        rate *= (1 - _MOMENTUM) * (1 - self._done / self._rounds)
        self._velocity = _MOMENTUM * self._velocity - gradient
        self._done += 1
        return rate * self._velocity


@dataclass(frozen=True)
class LinearTrees:
    """Trees of one depth that hold the linear part of some columns; see `Questions`.

    Parameters
    ----------
    structure : Structure
        ``split`` counts the cuts of the standard units, or the values of a categorical column.
    weights : ndarray of float64, shape (n_trees, n_leaves, n_outputs)
    shares : ndarray of float64, shape (n_trees, n_leaves)
        Estimated share of the records.
    """

    structure: Structure
    weights: np.ndarray
    shares: np.ndarray


def linear_trees(
    basis: Basis, coefficients: np.ndarray, categories: tuple[np.ndarray, ...]
) -> tuple[list[LinearTrees], np.ndarray]:
    """One tree a column, and what the constant adds to every score.

    Parameters
    ----------
    coefficients : ndarray of shape (basis.size, n_outputs)
    categories : tuple of ndarray
        Estimated shares of the values of the categorical columns.
    """
    n_numeric = len(basis.columns.numeric)
    no_groups = np.zeros((len(categories), basis.columns.most_categories + 1), dtype=np.uint8)
    trees = []
    if n_numeric:
        shares = np.tile(np.diff(ndtr(_edges())), (n_numeric, 1))
        shares[[f.has_branch for f in basis.columns.features], 0] = 0
        weights = basis.table[:, :, None] * coefficients[:n_numeric, None, :]
        trees.append(LinearTrees(_search(np.arange(n_numeric), CELLS, no_groups), weights, shares))
    for c, share in enumerate(categories):
        groups = no_groups.copy()
        groups[c, : len(share)] = np.arange(len(share))
        structure = _search(np.array([n_numeric + c]), len(share), groups)
        leaf = np.minimum(np.arange(structure.n_leaves), len(share) - 1)
        first = basis.offsets[c]
        weights = coefficients[first : basis.offsets[c + 1]][leaf][None] * basis.one
        reached = np.arange(structure.n_leaves) < len(share)
        trees.append(LinearTrees(structure, weights, np.where(reached, share[leaf], 0.0)[None]))
    return trees, coefficients[-1] * basis.one


def _edges() -> np.ndarray:
    inner = (np.arange(CELLS - 1) - (CELLS // 2 - 1)) / _PER_UNIT
    return np.concatenate([[-np.inf], inner, [np.inf]])


def _search(columns: np.ndarray, n_codes: int, groups: np.ndarray) -> Structure:
    """Complete search trees over the codes 0 to ``n_codes - 1`` of each column: leaf r holds code r."""
    depth = max(1, math.ceil(math.log2(n_codes)))
    splits = search_order(depth)
    feature = np.repeat(columns.astype(np.uint16)[:, None], len(splits), axis=1)
    split = np.tile(np.minimum(splits, n_codes - 1).astype(np.uint8), (len(columns), 1))
    return Structure(feature, split, groups)
