"""What the nodes of boosted trees ask, in the terms of a forest: a threshold of a feature, or a set of categories."""

from __future__ import annotations

import numpy as np

from dpforest.boosting.columns import Columns
from dpforest.boosting.trees import Structure


class Questions:
    """Collects the sets of categories that trees ask, each once.

    Parameters
    ----------
    columns : Columns
    cuts : ndarray of shape (n_numeric, n_cuts)
        Thresholds of the numeric columns.
    """

    def __init__(self, columns: Columns, cuts: np.ndarray) -> None:
        self._columns = columns
        self._cuts = cuts
        self._numbers: dict[bytes, int] = {}  # of each set, by its members

    def with_cuts(self, cuts: np.ndarray) -> Questions:
        """The same collection, for trees whose splits count other thresholds."""
        other = Questions(self._columns, cuts)
        other._numbers = self._numbers
        return other

    @property
    def sets(self) -> np.ndarray:
        """Members of each set among the features, bool of shape (n_sets, n_features)."""
        n_features = self._columns.schema.n_features
        members = np.frombuffer(b"".join(self._numbers), dtype=bool)
        return members.reshape(-1, n_features).copy()

    def of(self, structure: Structure) -> tuple[np.ndarray, np.ndarray]:
        """Feature and threshold of every inner node, both of shape (n_trees, 2 ** depth - 1).

        Features from ``n_features`` on are sets: what is in one goes right.
        """
        n_numeric = len(self._columns.numeric)
        column, split = structure.feature.astype(np.int64), structure.split
        feature, threshold = np.empty(column.shape, dtype=np.int64), np.full(column.shape, 0.5)
        numbers = column < n_numeric
        feature[numbers] = self._columns.numeric[column[numbers]]
        threshold[numbers] = self._cuts[column[numbers], split[numbers]]
        for c, features in enumerate(self._columns.members):
            groups = structure.groups[c, : len(features)]
            for cut in np.unique(split[column == n_numeric + c]):
                asks = (column == n_numeric + c) & (split == cut)
                members = features[groups > cut]
                if len(members):
                    feature[asks] = self._feature_of(members)
                else:  # a repeated question, to which all go left
                    feature[asks], threshold[asks] = features[0], 1.0
        return feature, threshold

    def _feature_of(self, members: np.ndarray) -> int:
        if len(members) == 1:
            return int(members[0])
        n_features = self._columns.schema.n_features
        mask = np.zeros(n_features, dtype=bool)
        mask[members] = True
        return n_features + self._numbers.setdefault(mask.tobytes(), len(self._numbers))
