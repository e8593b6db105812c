"""Straight lines over columns, and lines with a bend at the mean, as trees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpforest.boosting.model import CompleteTrees, forest_of
from dpforest.boosting.trees import search_order
from dpforest.forest import Forest
from dpforest.own_rows import FARTHEST, RANKS, STEPS, OwnRows, distances


@dataclass(frozen=True)
class Line:
    """How a tree holds a straight line over one column: a leaf for each value that the column has.

    Parameters
    ----------
    points : ndarray of shape (2 ** depth,)
        The values, increasing; the last ones may be beyond all that the column has.
    chances : ndarray of the same shape
        Part of the rows that have each value, about.
    """

    points: np.ndarray
    chances: np.ndarray

    @classmethod
    def of_z(cls) -> Line:
        """Of standardised values (`OwnRows.steps`), which are about normal."""
        points = -FARTHEST + np.arange(64) / STEPS
        chances = np.exp(-(points**2) / 2)
        return cls(points, chances / chances.sum())

    @classmethod
    def of_ranks(cls) -> Line:
        """Of ranks."""
        return cls((np.arange(RANKS) + 0.5) / RANKS, np.full(RANKS, 1 / RANKS))

    def trees(
        self, slopes: np.ndarray, first: int, rows: float, of_distances: np.ndarray | None = None
    ) -> CompleteTrees:
        """A tree a column.

        Parameters
        ----------
        slopes : ndarray of shape (n_columns, n_outputs)
            What each column adds to a score for 1 of its value.
        first : int
            Feature of the first column.
        rows : float
            In each tree.
        of_distances : ndarray of shape (n_columns, n_outputs), optional
            What each column adds to a score for 1 of the distance of its value (`own_rows.distances`).
        """
        n, leaves = len(slopes), len(self.points)
        depth = leaves.bit_length() - 1
        weights = self.points[None, :, None] * slopes[:, None, :]
        if of_distances is not None:
            weights += distances(self.points)[None, :, None] * of_distances[:, None, :]
        between = ((self.points[:-1] + self.points[1:]) / 2).astype(np.float32).astype(np.float64)
        return CompleteTrees(
            np.repeat(first + np.arange(n)[:, None], leaves - 1, axis=1),
            np.tile(between[search_order(depth)], (n, 1)),
            weights,
            np.tile(rows * self.chances, (n, 1)),
        )


def linear_forest(
    own: OwnRows, slopes: np.ndarray, offset: np.ndarray, ranks: bool, provenance: Mapping[str, Any]
) -> Forest:
    """A linear model of rows on a person's own scale, as a forest with the same predictions.

    Parameters
    ----------
    slopes : ndarray of shape (n_columns, n_classes)
        Of standardised values, or of ranks.
    offset : ndarray of shape (n_classes,)
    """
    line, first = (Line.of_ranks(), 0) if ranks else (Line.of_z(), len(own.columns))
    no_sets = np.zeros((0, 0), dtype=bool)
    return forest_of([line.trees(slopes, first, 1.0)], offset, own.standardized, no_sets, provenance, own)
