"""Scores of trees: on public rows, or from the noised sums of clients."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from dpforest.errors import DPForestError
from dpforest.forest import Forest
from dpforest.forest.codec import fill_inner_nodes
from dpforest.growers.regression import TARGET_UNIT
from dpforest.mechanisms import whole_numbers
from dpforest.schema import Schema

# Of the squared range of the target; what a noised variance below it is taken for.
_LEAST_VARIANCE = 1e-4
FIRST_TREE = {True: 1, False: 3}
"""Where the sums of trees begin in a client's scores, for classes and for targets."""


class PublicRows:
    """Rows that everybody may see, and what predictions of them are worth.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,)
    schema : Schema
    score : str
        Name of the score.

    Raises
    ------
    DPForestError
        There are too few rows, or all have the same target where the score needs a spread.
    """

    def __init__(self, X: np.ndarray, y: np.ndarray, schema: Schema, score: str) -> None:
        if len(y) < 2:
            raise DPForestError(
                f"public rows: {len(y)}, but a test of trees takes 2 or more: raise evaluation.public_share"
            )
        if score in ("r2", "pearson") and not y.max() > y.min():
            raise DPForestError(
                f"all {len(y)} public targets are {y[0]:g}, so that {score} is undefined: raise "
                "evaluation.public_share, or use score=negative_mse"
            )
        self.X, self.y = X, y
        self._schema, self._score = schema, score

    def score(self, forest: Forest) -> float:
        """Score of all trees together."""
        return self._of_prediction(forest.predict(self.X))

    def score_trees(self, forest: Forest) -> list[float]:
        """Score of each tree alone."""
        return [self._of_prediction(forest.tree(tree).predict(self.X)) for tree in range(forest.n_trees)]

    def best_constant(self) -> np.ndarray:
        """The output of a leaf that predicts these rows best: class shares, or the mean; shape (n_outputs,)."""
        if self._schema.is_classification:
            return np.bincount(self.y, minlength=self._schema.n_outputs) / len(self.y)
        return np.array([self.y.mean()])

    def constant_score(self) -> float:
        """Score of the best constant prediction."""
        if self._score == "accuracy":
            return float(self.best_constant().max())
        return -float(self.y.var()) if self._score == "negative_mse" else 0.0

    def calibrated(self, forest: Forest) -> Forest:
        """The same trees with all leaves ``x`` replaced by ``a + b x``, which fits these rows best; for targets.

        The slope is shrunk by what its own uncertainty says (James, Stein 1961), so that a forest that tells nothing
        becomes a constant, and leaves are clipped to the target's range. Where clipping spoils the fit, so that the
        mean of these rows would do better, all leaves become that mean.
        """
        predicted = forest.predict(self.X)
        n, centre, spread = len(predicted), float(predicted.mean()), float(predicted.var())
        if n < 3 or spread == 0:
            return forest
        slope = float(((predicted - centre) * (self.y - self.y.mean())).mean()) / spread
        residual = self.y - self.y.mean() - slope * (predicted - centre)
        slope *= max(0.0, 1 - float(residual.var()) / (n - 2) / (spread * max(slope**2, 1e-12)))
        assert forest.schema.target_range is not None
        value = np.clip(float(self.y.mean()) + slope * (forest.value - centre), *forest.schema.target_range)
        stretched = replace(forest, value=value)
        if ((stretched.predict(self.X) - self.y) ** 2).mean() > self.y.var():
            value[:] = self.y.mean()
        fill_inner_nodes(stretched)
        return stretched

    def _of_prediction(self, predicted: np.ndarray) -> float:
        y = self.y
        if self._score == "accuracy":
            return float((predicted == y).mean())
        if self._score == "pearson":
            return float(np.corrcoef(predicted, y)[0, 1]) if predicted.std() > 0 else 0.0
        mse = float(((predicted - y) ** 2).mean())
        return -mse if self._score == "negative_mse" else 1 - mse / float(y.var())


def client_sums(forest: Forest, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """What a client's rows say about trees, before noise; see `strategies.fext.rounds.score_mechanism`.

    Returns
    -------
    ndarray of int64
        Classes: rows, then right answers of every tree. Targets: rows, targets and squared targets in shares of the
        range, then squared errors in shares of the squared range; all in TARGET_UNIT.
    """
    predictions = [forest.tree(tree).predict(X) for tree in range(forest.n_trees)]
    if forest.schema.is_classification:
        return np.array([len(y), *(int((p == y).sum()) for p in predictions)], dtype=np.int64)
    assert forest.schema.target_range is not None
    low, high = forest.schema.target_range
    z = (np.clip(y, low, high) - low) / (high - low)
    errors = [np.minimum(((p - low) / (high - low) - z) ** 2, 1.0) for p in predictions]
    # Every record's part is rounded for itself, so that one record changes a sum by no more than one unit.
    columns = [np.ones_like(z), z, z**2, *errors]
    return np.array([whole_numbers(TARGET_UNIT * column, TARGET_UNIT).sum() for column in columns], dtype=np.int64)


def combine_client_sums(
    sums: Mapping[int, np.ndarray], owners: Sequence[int], schema: Schema, score: str
) -> tuple[list[float], float]:
    """Scores of all trees from noised sums of clients, and the best constant's. Nobody's word counts for its own tree.

    Parameters
    ----------
    sums : mapping of client to ndarray
        As `client_sums`, noised.
    owners : sequence of int
        Client of each tree.
    schema : Schema
    score : {"accuracy", "r2", "negative_mse"}
    """
    first = FIRST_TREE[schema.is_classification]
    constant = 1 / schema.n_outputs if schema.is_classification else 0.0
    scores = []
    variance = 0.0
    for tree, owner in enumerate(owners):
        others = [values for client, values in sums.items() if client != owner]
        if not others:
            scores.append(-math.inf)
            continue
        total = np.stack(others).astype(np.float64).sum(axis=0)
        rows = max(total[0], 1.0)
        of_tree = max(total[first + tree], 0.0)
        if schema.is_classification:
            scores.append(min(of_tree / rows, 1.0))
            continue
        assert schema.target_range is not None
        scale = (schema.target_range[1] - schema.target_range[0]) ** 2
        variance = max(total[2] / rows - (total[1] / rows) ** 2, _LEAST_VARIANCE)
        scores.append(-of_tree / rows * scale if score == "negative_mse" else 1 - of_tree / rows / variance)
        constant = -variance * scale if score == "negative_mse" else 0.0
    return scores, constant
