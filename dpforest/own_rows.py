"""Rows on the scale of the person that they are of: standardised, or ranked, among that person's own rows.

What a person's rows have in common (how a sensor sits, how large the steps are) is what sets people apart, and tells
nothing of what they do. Taken out, a model fits people that it has never seen: such a person brings rows of its own,
without labels, and they are put on its own scale by the same rule.

Proof. At the level of a client this costs nothing: a client's own mean, deviations and ranks are part of how its one
vector follows from its data (`dpforest.mechanisms.vectors`), and nothing of them is sent. At the level of a record it
would be *wrong*: one record more or less moves the mean, and with it every standardised row of its client, so that what
one record adds to a sum is not bounded by what its own row adds. So it is refused there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpforest.schema import Feature, Schema

# Standardised values are cut off here, and rounded to so many parts of 1 where trees ask them.
FARTHEST = 3.0
STEPS = 10
# Ranks are distinguished in so many equal parts.
RANKS = 16
# Standard deviation of a feature, in shares of its public range, below which it does not vary.
SMALLEST_DEVIATION = 0.01
LEAST_ROWS, ENOUGH_ROWS = 2, 30


@dataclass(frozen=True)
class OwnRows:
    """How rows of one person come to its own scale.

    Each feature becomes two: its rank among the person's rows, and its distance from their mean in their deviations.
    A feature with missing cells has two more, of whether a cell is missing.

    Parameters
    ----------
    schema : Schema
        Of the rows as they come.
    """

    schema: Schema

    @cached_property
    def columns(self) -> list[str]:
        """Names of what is standardised: the features, and behind them whether a cell is missing."""
        names = self.schema.feature_names
        return [*names, *(f"{names[gap]} is missing" for gap in self.schema.gaps)]

    @cached_property
    def ranked(self) -> Schema:
        """Schema of ranks alone, from 0 to 1."""
        return self._schema([Feature(f"{name}, own rank", 0, 1) for name in self.columns])

    @cached_property
    def standardized(self) -> Schema:
        """Schema of what trees ask: ranks, and behind them standardised values."""
        values = [Feature(f"{name}, own z", -FARTHEST, FARTHEST) for name in self.columns]
        return self._schema([*self.ranked.features, *values])

    def ranks(self, X: np.ndarray) -> np.ndarray:
        """Mid-rank of each cell among the present cells of its column, in the middle of its sixteenth.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)
            All rows of one person, inside the schema's bounds.

        Returns
        -------
        ndarray of float32, shape (n_rows, len(columns))
            A missing cell is in the middle.
        """
        from scipy.stats import rankdata  # slow to import, and every forest loads this module

        unit = self._unit(X)
        if not len(unit):
            return unit.astype(np.float32)
        present = np.maximum((~np.isnan(unit)).sum(axis=0), 1)
        sixteenth = np.floor((rankdata(unit, axis=0, nan_policy="omit") - 0.5) * RANKS / present)
        part = np.clip(np.where(np.isnan(unit), RANKS // 2, sixteenth), 0, RANKS - 1)
        return ((part + 0.5) / RANKS).astype(np.float32)

    def z(self, X: np.ndarray) -> np.ndarray:
        """Each cell less the mean of its column, over its deviation, cut off at `FARTHEST`; see `ranks`.

        Returns
        -------
        ndarray of float32, shape (n_rows, len(columns))
            A missing cell is 0.
        """
        unit = self._unit(X)
        present = ~np.isnan(unit)
        filled = np.where(present, unit, 0.0)
        number = np.maximum(present.sum(axis=0), 1)
        mean = filled.sum(axis=0) / number
        off = np.where(present, unit - mean, 0.0)
        deviation = np.sqrt((off**2).sum(axis=0) / number)
        z = off / np.maximum(deviation, SMALLEST_DEVIATION)
        return np.clip(z, -FARTHEST, FARTHEST).astype(np.float32)

    def steps(self, X: np.ndarray) -> np.ndarray:
        """`z`, rounded to tenths: on what trees ask no row lies near a threshold."""
        return (np.rint(self.z(X).astype(np.float64) * STEPS) / STEPS).astype(np.float32)

    def rows(self, X: np.ndarray) -> np.ndarray:
        """Rows of the schema `standardized`, float32."""
        return np.concatenate([self.ranks(X), self.steps(X)], axis=1)

    def _unit(self, X: np.ndarray) -> np.ndarray:
        """Cells from 0 to 1 along their public scale, NaN where missing; and 0/1 for whether they are."""
        missing = X[:, self.schema.gaps] == self.schema.missing_values[self.schema.gaps]
        unit = self.schema.grid_position(X)
        unit[:, self.schema.gaps] = np.where(missing, np.nan, unit[:, self.schema.gaps])
        return np.concatenate([unit, missing], axis=1)

    def _schema(self, features: list[Feature]) -> Schema:
        schema = self.schema
        return Schema(tuple(features), classes=schema.classes, target=schema.target, target_range=schema.target_range)


def distances(z: np.ndarray) -> np.ndarray:
    """How far standardised values are from their mean, on either side, in the scale of `OwnRows.z`.

    A linear model of them as well tells rest from movement, which both lie around the mean. Less the mean that normal
    values have of it, over their deviation.
    """
    return (np.abs(z) - z.dtype.type(0.8)) / z.dtype.type(0.6)


def class_shares(y: np.ndarray, balance: float) -> np.ndarray:
    """Shares of one client's rows, which add up to 1: those of a class with n rows go with n to the power -balance."""
    weights = np.bincount(y)[y] ** -float(balance) if len(y) else np.zeros(0)
    return weights / max(weights.sum(), 1e-300)
