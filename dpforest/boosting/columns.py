"""A table as boosting reads it: one column a number, and one column a category, however many values it has."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpforest.errors import SchemaError
from dpforest.growers.kernels import bin_rows
from dpforest.schema import MOST_CATEGORIES, Feature, Schema


@dataclass(frozen=True)
class Columns:
    """Numeric columns first, then categorical ones, as in ``schema.columns``.

    Parameters
    ----------
    schema : Schema

    Raises
    ------
    SchemaError
        A column has more categories than fit a byte.
    """

    schema: Schema

    def __post_init__(self) -> None:
        for column, values in self.schema.categories.items():
            if len(values) > MOST_CATEGORIES:
                raise SchemaError(
                    f"column {column!r} has {len(values)} categories; boosting takes at most {MOST_CATEGORIES}: join "
                    "rare ones into one ('missing' and 'other' of the schema count too)"
                )

    @property
    def number(self) -> int:
        """How many there are."""
        return len(self.numeric) + len(self.members)

    @cached_property
    def numeric(self) -> np.ndarray:
        """Features that are numbers."""
        return self.schema.numeric_features

    @cached_property
    def features(self) -> list[Feature]:
        """The same, with their bounds."""
        return [self.schema.features[f] for f in self.numeric]

    @cached_property
    def members(self) -> list[np.ndarray]:
        """Features that are the values of each categorical column."""
        return self.schema.category_features

    @cached_property
    def most_categories(self) -> int:
        """Largest number of values of a categorical column; 0 without one."""
        return max(map(len, self.members), default=0)

    def codes(self, X: np.ndarray, cuts: np.ndarray) -> np.ndarray:
        """Codes of all cells.

        Parameters
        ----------
        X : ndarray of shape (n_records, n_features)
        cuts : ndarray of shape (n_numeric, n_cuts)
            Non-decreasing.

        Returns
        -------
        ndarray of uint8, shape (n_records, number)
            A number's is how many cuts it is above; a category's its place among the values, and one more than the
            last where a record has none of them.
        """
        codes = np.empty((len(X), self.number), dtype=np.uint8)
        n_numeric = len(self.numeric)
        if n_numeric:
            numbers = X if n_numeric == X.shape[1] else np.ascontiguousarray(X[:, self.numeric])
            codes[:, :n_numeric] = bin_rows(numbers, cuts.astype(X.dtype))
        for c, positions in enumerate(self.schema.category_positions(X), n_numeric):
            codes[:, c] = positions
        return codes
