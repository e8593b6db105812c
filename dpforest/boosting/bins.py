"""Noised marginal histograms: where records lie in each feature, how many there are, and their targets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpforest.boosting import kernels
from dpforest.growers.kernels import bin_rows
from dpforest.mechanisms import whole_numbers
from dpforest.schema import Schema


def count_marginals(X: np.ndarray, y: np.ndarray, schema: Schema, bins: int) -> np.ndarray:
    """Histograms of every feature over the public grid, and one of the target.

    A record adds 1 to each row: ``n_features + 1`` in L1 norm, the root of that in L2 norm.

    Returns
    -------
    ndarray of int64, shape (n_features + 1, max(bins, n_classes))
        The last row counts classes, or targets in as many equal parts of their range; cells that a row does not need
        stay 0.
    """
    counts = np.zeros((schema.n_features + 1, max(bins, schema.n_outputs)), dtype=np.int64)
    grid = np.stack(schema.grid(bins)).astype(X.dtype)
    kernels.count_cells(bin_rows(X, grid), counts[:-1])
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
    cuts : ndarray of float64, shape (n_features, n_cuts)
        Thresholds at about equal shares of the records; non-decreasing, values of the public grid.
    records : float
        Estimated number, at least 1.
    target : ndarray of float64
        Estimated share of each class, or of each part of the target's range.
    """

    cuts: np.ndarray
    records: float
    target: np.ndarray

    @classmethod
    def of(cls, noised: np.ndarray, deviation: float, schema: Schema, bins: int, n_cuts: int) -> Marginals:
        """Read noised sums of `count_marginals`.

        Parameters
        ----------
        noised : ndarray of shape (n_features + 1, max(bins, n_classes))
        deviation : float
            Standard deviation of the noise of a cell.
        """
        histograms = noised[:-1, :bins].astype(np.float64)
        target = noised[-1, : schema.n_outputs if schema.is_classification else bins].astype(np.float64)
        totals = np.append(histograms.sum(axis=1), target.sum())
        # Each total estimates the number of records; its noise grows with the root of its cells.
        widths = np.append(np.full(len(histograms), bins), len(target))
        records = max(1.0, float((totals / widths).sum() / (1 / widths).sum()))
        grid = np.stack(schema.grid(bins))
        # A cell that its noise explains counts as empty, or features of few values would be cut in their gaps.
        shares = np.cumsum(np.where(histograms > deviation, histograms, 0.0), axis=1)
        shares /= np.maximum(shares[:, -1:], 1e-300)
        wanted = np.arange(1, n_cuts + 1) / (n_cuts + 1)
        index = np.array([np.searchsorted(row[:-1], wanted - 1e-12) for row in shares]).clip(0, bins - 2)
        target = np.where(target > deviation, target, 0.0)
        total = target.sum()
        target = target / total if total > 0 else np.full(len(target), 1 / len(target))
        return cls(np.take_along_axis(grid, index, axis=1), records, target)
