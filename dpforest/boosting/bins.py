"""Noised marginal histograms: where records lie in each feature, how many there are, and their targets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from dpforest.boosting import kernels
from dpforest.boosting.columns import Columns
from dpforest.mechanisms import whole_numbers
from dpforest.schema import Schema

# Relative error of a noised cumulative share at which it weighs as much as that of even ranks.
_TRUSTED_ERROR = 0.1
# Odds against a heavy tail at a bound, before anything is seen, and the share of the records that one would hold.
_ODDS_AGAINST = 4.0
_HEAVY_SHARE = 0.5
# Of a feature in shares of its range, by noised moments, at least.
_SMALLEST_DEVIATION = 0.01
_FILLINGS = 30  # steps to the fixed point of `_water_level`; it is reached in a few


@dataclass(frozen=True)
class Grid:
    """Public cells of the histograms, one histogram a column.

    Parameters
    ----------
    columns : Columns
    cuts : ndarray of float64, shape (n_numeric, n_cuts)
        Thresholds of each numeric column, increasing up to its own number; the last one repeated behind.
    cells : ndarray of int64, shape (n_columns,)
        Cells of each column: one more than its different thresholds, or than its categories.
    coarse : ndarray of int64, shape (n_columns, width)
        Which of ``bins`` even cells each cell lies in; of a category, each is its own.
    """

    columns: Columns
    cuts: np.ndarray
    cells: np.ndarray
    coarse: np.ndarray

    @classmethod
    def of(cls, schema: Schema, bins: int) -> Grid:
        """The grid of a schema."""
        columns = Columns(schema)
        features = columns.features
        cuts = [feature.grid_with_tails(bins) for feature in features]
        cells = np.array([len(row) + 1 for row in [*cuts, *columns.members]], dtype=np.int64)
        most = max((len(row) for row in cuts), default=1)
        padded = np.array([np.pad(row, (0, most - len(row)), mode="edge") for row in cuts]).reshape(-1, most)
        coarse = np.tile(np.arange(cells.max()), (len(cells), 1))
        for row, feature, upper in zip(coarse, features, padded, strict=False):
            row[: most + 1] = np.searchsorted(feature.grid(bins), np.append(upper, feature.high))
        return cls(columns, padded, cells, coarse)

    @property
    def width(self) -> int:
        """Largest number of cells of a column."""
        return self.coarse.shape[1]

    def standing_out(self, histograms: np.ndarray, deviation: float, records: float) -> np.ndarray:
        """Cells, in the shape of the histograms, that their noise does not explain.

        The narrow cells at a bound are many, and noise in them would draw cuts there where nothing is; so they also
        have to stand out as one even cell together, or one of them far.
        """
        used = np.arange(self.width) < self.cells[:, None]
        place = np.arange(len(histograms))[:, None], self.coarse
        sums, sizes = np.zeros((2, len(histograms), int(self.coarse.max()) + 1))
        np.add.at(sums, place, np.where(used, histograms, 0))
        np.add.at(sizes, place, used)
        sizes = np.maximum(sizes, 1)
        noise = deviation * np.sqrt(sizes)
        as_one_even_cell = sums > np.where(sizes > 1, _believable(records, noise, _ODDS_AGAINST), noise)
        alone = histograms > _believable(records, deviation, _ODDS_AGAINST * sizes[place])
        return used & (histograms > deviation) & (as_one_even_cell[place] | alone)


def _believable(records: float, noise: np.ndarray | float, odds_against: np.ndarray | float) -> np.ndarray:
    """Noised count from which on it is likelier that a cell is heavy than that it is empty.

    The likelihood ratio of a mass m against none at a count x is ``exp((x m - m^2 / 2) / noise^2)``. Where noise is
    small against m, lighter cells matter too, and .7 deviations are enough in addition to the odds.
    """
    mass = _HEAVY_SHARE * records
    return np.log(odds_against) * noise**2 / mass + np.minimum(mass / 2, 0.7 * np.asarray(noise))


def marginal_shape(schema: Schema, bins: int) -> tuple[int, int]:
    """Shape of `count_marginals`."""
    return _shape(Grid.of(schema, bins), schema, bins)


def _shape(grid: Grid, schema: Schema, bins: int) -> tuple[int, int]:
    return grid.columns.number + 1, max(grid.width, bins, schema.n_outputs)


def count_marginals(X: np.ndarray, y: np.ndarray, schema: Schema, bins: int) -> np.ndarray:
    """Histograms of every column over the public grid, and one of the target.

    A record adds 1 to each row: ``n_columns + 1`` in L1 norm, the root of that in L2 norm.

    Returns
    -------
    ndarray of int64, shape ``marginal_shape(schema, bins)``
        The last row counts classes, or targets in ``bins`` equal parts of their range; cells that a row does not need
        stay 0.
    """
    grid = Grid.of(schema, bins)
    counts = np.zeros(_shape(grid, schema, bins), dtype=np.int64)
    kernels.count_cells(grid.columns.codes(X, grid.cuts), counts[:-1])
    counts[-1] = np.bincount(_target_cells(y, schema, bins), minlength=counts.shape[1])
    return counts


def _target_cells(y: np.ndarray, schema: Schema, bins: int) -> np.ndarray:
    if schema.target_range is None:
        return y
    low, high = schema.target_range
    parts = np.clip((y - low) * (bins / (high - low)), 0, bins - 1)
    return whole_numbers(parts, bins - 1, towards_zero=True)


@dataclass(frozen=True)
class Marginals:
    """What noised histograms say.

    Parameters
    ----------
    cuts : ndarray of float64, shape (n_numeric, n_cuts)
        Thresholds of the numeric columns, where their records are; non-decreasing, values of the public grid.
    shares : ndarray of float64, shape (n_numeric, n_cuts + 2)
        Estimated share of the records up to the r-th different cut, from 0 before the first to 1 behind the last.
    categories : tuple of ndarray of float64, shapes (n_categories,)
        Estimated share of each value of the categorical columns.
    records : float
        Estimated number, at least 1.
    target : ndarray of float64
        Estimated share of each class, or of each part of the target's range.
    """

    cuts: np.ndarray
    shares: np.ndarray
    categories: tuple[np.ndarray, ...]
    records: float
    target: np.ndarray

    @classmethod
    def of(cls, noised: np.ndarray, deviation: float, schema: Schema, bins: int, n_cuts: int) -> Marginals:
        """Read noised sums of `count_marginals`.

        Parameters
        ----------
        noised : ndarray of shape ``marginal_shape(schema, bins)``
        deviation : float
            Standard deviation of the noise of a cell.
        """
        grid = Grid.of(schema, bins)
        used = np.arange(grid.width) < grid.cells[:, None]
        histograms = np.where(used, noised[:-1, : grid.width], 0).astype(np.float64)
        target = noised[-1, : schema.n_outputs if schema.is_classification else bins].astype(np.float64)
        totals = np.append(histograms.sum(axis=1), target.sum())
        # Each total estimates the number of records; its noise grows with the root of its cells.
        widths = np.append(grid.cells, len(target))
        records = max(1.0, float((totals / widths).sum() / (1 / widths).sum()))
        # A cell that its noise explains counts as empty, or features of few values would be cut in their gaps.
        occupied = np.where(grid.standing_out(histograms, deviation, records), histograms, 0.0)
        n_numeric = len(grid.cuts)
        cuts, shares = np.empty((n_numeric, n_cuts)), np.empty((n_numeric, n_cuts + 2))
        for f in range(n_numeric):
            mass = _shares(occupied[f, : grid.cells[f]])
            index = _cut_cells(mass, n_cuts)
            if mass[0] and grid.columns.features[f].has_branch:
                index[0] = 0  # missing cells stay apart, few as they may be
            error = deviation * grid.cells[f] ** 0.5 / records
            cuts[f], shares[f] = grid.cuts[f, index], _shares_at(mass, index, error)
        categories = tuple(
            _shares(occupied[c, : len(values)]) for c, values in enumerate(grid.columns.members, n_numeric)
        )
        return cls(cuts, shares, categories, records, _shares(np.where(target > deviation, target, 0.0)))

    @classmethod
    def of_moments(cls, mean: np.ndarray, square: np.ndarray, schema: Schema, n_cuts: int, records: float) -> Marginals:
        """From noised means alone: cuts at the quantiles of normal distributions.

        Parameters
        ----------
        mean, square : ndarray of shape (n_features,)
            Noised mean of ``x`` and of its square, ``x`` from -1/2 to 1/2 along the feature's public scale.
        records : float
            Public number of what is counted.
        """
        columns = Columns(schema)
        mean = np.clip(mean, -0.5, 0.5)
        deviation = np.sqrt(np.clip(square - mean**2, _SMALLEST_DEVIATION**2, 0.25))
        ranks = np.arange(1, n_cuts + 1) / (n_cuts + 1)
        cuts, shares = np.empty((len(columns.numeric), n_cuts)), np.ones((len(columns.numeric), n_cuts + 2))
        for place, (f, feature) in enumerate(zip(columns.numeric, columns.features, strict=True)):
            cuts[place] = feature.at(np.clip(0.5 + mean[f] + deviation[f] * ndtri(ranks), 0, 1))
            if feature.has_branch:
                cuts[place, 0] = feature.missing_cut  # missing cells stay apart
            last = np.append(np.flatnonzero(np.diff(cuts[place]) > 0), n_cuts - 1)  # of each run of equal cuts
            shares[place, 0], shares[place, 1 : len(last) + 1] = 0.0, ranks[last]
        categories = tuple(_shares(np.clip(0.5 + mean[members], 0, 1)) for members in columns.members)
        return cls(cuts, shares, categories, max(1.0, records), np.full(schema.n_outputs, 1 / schema.n_outputs))


def _shares(counts: np.ndarray) -> np.ndarray:
    """Parts of the last axis' total; even ones where there is nothing."""
    total = counts.sum(axis=-1, keepdims=True)
    return np.where(total > 0, counts / np.maximum(total, 1e-300), 1 / counts.shape[-1])


def _cut_cells(mass: np.ndarray, n_cuts: int) -> np.ndarray:
    """Cells behind which to cut, int64 of shape (n_cuts,): at equal shares of `levelled` masses."""
    running = np.cumsum(levelled(mass, n_cuts + 1))
    wanted = np.arange(1, n_cuts + 1) / (n_cuts + 1)
    return np.searchsorted(running[:-1] / running[-1], wanted - 1e-12).clip(0, len(mass) - 2)


def levelled(mass: np.ndarray, parts: int) -> np.ndarray:
    """Masses of which no single one fills more than its part.

    A cell that holds most records (the zeros of a sparse column) would take nearly all cuts for itself, which are one
    and the same; so it is cut off at the level at which the others fill as many parts as there are. Where no more
    cells hold any than there are parts, each of them counts alike.
    """
    occupied = mass > 0
    return occupied.astype(np.float64) if occupied.sum() <= parts else np.minimum(mass, _water_level(mass, parts))


def _water_level(mass: np.ndarray, parts: int) -> float:
    """Largest level c with ``sum_j min(mass_j, c) >= c parts``."""
    level = float(mass.max())
    for _ in range(_FILLINGS):
        level = min(level, float(np.minimum(mass, level).sum()) / parts)
    return level


def _shares_at(mass: np.ndarray, index: np.ndarray, error: float) -> np.ndarray:
    """Shares up to each different cut, between 0 and 1; the less trusted the noisier, in favour of even ranks."""
    different = np.unique(index)
    n = len(different)
    ranks = np.arange(n + 2) / (n + 1)
    found = np.concatenate([[0.0], np.cumsum(mass)[different], [1.0]])
    trust = 1 / (1 + (error / _TRUSTED_ERROR) ** 2)
    return np.pad(trust * found + (1 - trust) * ranks, (0, len(index) - n), constant_values=1.0)
