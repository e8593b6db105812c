"""Noised marginal histograms: where records lie in each feature, how many there are, and their targets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpforest.boosting import kernels
from dpforest.growers.kernels import bin_rows
from dpforest.schema import Schema

# Relative error of a noised cumulative share at which it weighs as much as that of even ranks.
_TRUSTED_ERROR = 0.1
# Odds against a heavy tail at a bound, before anything is seen, and the share of the records that one would hold.
_ODDS_AGAINST = 4.0
_HEAVY_SHARE = 0.5
_FILLINGS = 30  # steps to the fixed point of `_water_level`; it is reached in a few


@dataclass(frozen=True)
class Grid:
    """Public cells of the histograms.

    Parameters
    ----------
    cuts : ndarray of float64, shape (n_features, n_cuts)
        Thresholds of each feature, increasing up to its own number; the last one repeated behind.
    cells : ndarray of int64, shape (n_features,)
        Cells of each feature: one more than its different thresholds.
    coarse : ndarray of int64, shape (n_features, width)
        Which of ``bins`` even cells each cell lies in.
    """

    cuts: np.ndarray
    cells: np.ndarray
    coarse: np.ndarray

    @classmethod
    def of(cls, schema: Schema, bins: int) -> Grid:
        """The grid of a schema: the one cut between the values of a category's 0/1 column, many for a number."""
        numeric = set(schema.numeric_columns)
        cuts = [
            feature.grid_with_tails(bins) if feature.name in numeric else np.array([0.5]) for feature in schema.features
        ]
        cells = np.array([len(row) + 1 for row in cuts], dtype=np.int64)
        padded = np.stack([np.pad(row, (0, cells.max() - 1 - len(row)), mode="edge") for row in cuts])
        upper = np.concatenate([padded, schema.high[:, None]], axis=1)
        even = schema.grid(bins)
        coarse = np.stack([np.searchsorted(e, u) for e, u in zip(even, upper, strict=True)])
        return cls(padded, cells, coarse)

    @property
    def width(self) -> int:
        """Largest number of cells of a feature."""
        return self.cuts.shape[1] + 1

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
        noise = deviation * np.sqrt(sizes)
        together = sums > np.where(sizes > 1, _believable(records, noise, _ODDS_AGAINST), noise)
        alone = histograms > _believable(records, deviation, _ODDS_AGAINST * sizes[place])
        return used & (histograms > deviation) & (together[place] | alone)


def _believable(records: float, noise: np.ndarray | float, odds_against: np.ndarray | float) -> np.ndarray:
    """Noised count from which on it is likelier that a cell is heavy than that it is empty.

    The likelihood ratio of a mass m against none at a count x is ``exp((x m - m^2 / 2) / noise^2)``. Where noise is
    small against m, lighter cells matter too, and .7 deviations are enough beside the odds.
    """
    mass = _HEAVY_SHARE * records
    return np.log(odds_against) * noise**2 / mass + np.minimum(mass / 2, 0.7 * np.asarray(noise))


def marginal_shape(schema: Schema, bins: int) -> tuple[int, int]:
    """Shape of `count_marginals`."""
    return schema.n_features + 1, max(Grid.of(schema, bins).width, bins, schema.n_outputs)


def count_marginals(X: np.ndarray, y: np.ndarray, schema: Schema, bins: int) -> np.ndarray:
    """Histograms of every feature over the public grid, and one of the target.

    A record adds 1 to each row: ``n_features + 1`` in L1 norm, the root of that in L2 norm.

    Returns
    -------
    ndarray of int64, shape ``marginal_shape(schema, bins)``
        The last row counts classes, or targets in ``bins`` equal parts of their range; cells that a row does not need
        stay 0.
    """
    counts = np.zeros(marginal_shape(schema, bins), dtype=np.int64)
    kernels.count_cells(bin_rows(X, Grid.of(schema, bins).cuts.astype(X.dtype)), counts[:-1])
    counts[-1] = np.bincount(_target_cells(y, schema, bins), minlength=counts.shape[1])
    return counts


def _target_cells(y: np.ndarray, schema: Schema, bins: int) -> np.ndarray:
    if schema.target_range is None:
        return y
    low, high = schema.target_range
    return np.clip((y - low) * (bins / (high - low)), 0, bins - 1).astype(np.int64)


@dataclass(frozen=True)
class Marginals:
    """What noised histograms say.

    Parameters
    ----------
    cuts : ndarray of float64, shape (n_features, n_cuts)
        Thresholds at about equal shares of the records; non-decreasing, values of the public grid.
    shares : ndarray of float64, shape (n_features, n_cuts + 2)
        Estimated share of the records up to the r-th different cut, from 0 before the first to 1 behind the last.
    records : float
        Estimated number, at least 1.
    target : ndarray of float64
        Estimated share of each class, or of each part of the target's range.
    """

    cuts: np.ndarray
    shares: np.ndarray
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
        masses = _shares(np.where(grid.standing_out(histograms, deviation, records), histograms, 0.0))
        cuts, shares = np.empty((schema.n_features, n_cuts)), np.empty((schema.n_features, n_cuts + 2))
        for f, mass in enumerate(masses):
            index = _cut_cells(mass[: grid.cells[f]], n_cuts)
            error = deviation * grid.cells[f] ** 0.5 / records
            cuts[f], shares[f] = grid.cuts[f, index], _shares_at(mass, index, error)
        return cls(cuts, shares, records, _shares(np.where(target > deviation, target, 0.0)))


def _shares(counts: np.ndarray) -> np.ndarray:
    """Parts of the last axis' total; even ones where there is nothing."""
    total = counts.sum(axis=-1, keepdims=True)
    return np.where(total > 0, counts / np.maximum(total, 1e-300), 1 / counts.shape[-1])


def _cut_cells(mass: np.ndarray, n_cuts: int) -> np.ndarray:
    """Cells behind which to cut, int64 of shape (n_cuts,): at equal shares of what no single cell may fill alone.

    A cell that holds most records (the zeros of a sparse column) would take nearly all cuts for itself, which are one
    and the same; so its mass is cut off at the level at which the others fill as many parts as there are.
    """
    occupied = mass > 0
    few = occupied.sum() <= n_cuts + 1
    weight = occupied.astype(np.float64) if few else np.minimum(mass, _water_level(mass, n_cuts))
    running = np.cumsum(weight) / weight.sum()
    wanted = np.arange(1, n_cuts + 1) / (n_cuts + 1)
    return np.searchsorted(running[:-1], wanted - 1e-12).clip(0, len(mass) - 2)


def _water_level(mass: np.ndarray, n_cuts: int) -> float:
    """Largest level c with ``sum_j min(mass_j, c) >= c (n_cuts + 1)``."""
    level = float(mass.max())
    for _ in range(_FILLINGS):
        level = min(level, float(np.minimum(mass, level).sum()) / (n_cuts + 1))
    return level


def _shares_at(mass: np.ndarray, index: np.ndarray, error: float) -> np.ndarray:
    """Shares up to each different cut, between 0 and 1; the less trusted the noisier, in favour of even ranks."""
    different = np.unique(index)
    n = len(different)
    ranks = np.arange(n + 2) / (n + 1)
    found = np.concatenate([[0.0], np.cumsum(mass)[different], [1.0]])
    trust = 1 / (1 + (error / _TRUSTED_ERROR) ** 2)
    return np.pad(trust * found + (1 - trust) * ranks, (0, len(index) - n), constant_values=1.0)
