"""Attribute inference: one unknown cell of a record, guessed from the rest of it and a model.

That a model helps to guess is no breach of anybody's privacy by itself: it may have learned it from others, as it
should. So a guess by the model is set against one without it by people alike, and members against those of whom the
model has learned nothing: the second difference is what the model says about its own records.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.feature_selection import mutual_info_classif

_CELLS = 4
_TREES = 100
_FLOOR = 1e-6


@dataclass(frozen=True)
class Hidden:
    """A column of which a record's cell is not known to the attacker.

    Parameters
    ----------
    feature : int
    edges : ndarray
        Between the cells, ascending.
    centres : ndarray
        A value of each cell.
    """

    feature: int
    edges: np.ndarray
    centres: np.ndarray

    def cells(self, X: np.ndarray) -> np.ndarray:
        """Cell of each row."""
        return np.searchsorted(self.edges, X[:, self.feature], side="left")


def hidden_columns(X: np.ndarray, y: np.ndarray, most: int, seed: int) -> list[Hidden]:
    """The columns that say most about the target among (other people's) rows, cut at their quartiles.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        Rows of people who are alike.
    y : ndarray of shape (n_rows,)
        Their classes or targets.
    most : int
        At most so many columns.
    seed : int
        Of the estimate.

    Returns
    -------
    list of Hidden
        The columns that say most first.
    """
    gain = mutual_info_classif(X, _classes(y), random_state=seed)
    found = []
    for feature in np.argsort(-gain, kind="stable"):
        values = X[:, feature]
        edges = np.unique(np.quantile(values, np.arange(1, _CELLS) / _CELLS))
        cells = np.searchsorted(edges, values, side="left")
        if len(np.unique(cells)) == len(edges) + 1 and len(edges):
            centres = np.array([np.median(values[cells == cell]) for cell in range(len(edges) + 1)])
            found.append(Hidden(int(feature), edges, centres))
        if len(found) == most:
            break
    return found


def _classes(y: np.ndarray) -> np.ndarray:
    """Targets as classes, numbers cut at their quartiles."""
    return y if y.dtype.kind in "iu" else np.searchsorted(np.quantile(y, [0.25, 0.5, 0.75]), y)


class Guesser:
    """Guesses a hidden column: by the marginals of other people's rows, by people alike, and by a model as well.

    Parameters
    ----------
    hidden : Hidden
    X, y : ndarray
        Other people's rows.
    seed : int
    """

    def __init__(self, hidden: Hidden, X: np.ndarray, y: np.ndarray, seed: int) -> None:
        self._hidden = hidden
        self._usual = int(np.bincount(hidden.cells(X)).argmax())
        self._alike = ExtraTreesClassifier(_TREES, min_samples_leaf=2, random_state=seed)
        self._alike.fit(self._rest(X, y), hidden.cells(X))

    def by_marginals(self, X: np.ndarray) -> np.ndarray:
        """The most frequent cell, for all."""
        return np.full(len(X), self._usual)

    def by_others(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        """What people with the same other cells have."""
        return np.argmax(self._chances(X, y), axis=1)

    def by_model(
        self, X: np.ndarray, y: np.ndarray, fits: Callable[[np.ndarray, np.ndarray], np.ndarray]
    ) -> np.ndarray:
        """What is most probable by people alike and the model together.

        Parameters
        ----------
        fits : callable of (X, y) to ndarray of shape (n_rows,)
            Log likelihood of rows by the model.
        """
        score = np.log(np.maximum(self._chances(X, y), _FLOOR))
        for cell, centre in enumerate(self._hidden.centres):
            supposed = X.copy()
            supposed[:, self._hidden.feature] = centre
            score[:, cell] += fits(supposed, y)
        return np.argmax(score, axis=1)

    def _rest(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.column_stack([np.delete(X, self._hidden.feature, axis=1), y])

    def _chances(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        chances = np.zeros((len(X), len(self._hidden.centres)))
        chances[:, self._alike.classes_] = self._alike.predict_proba(self._rest(X, y))
        return chances
