"""The way of one row through a forest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpforest.errors import printable
from dpforest.explain.wording import addition, cell, outcome, question, records
from dpforest.forest import Forest


@dataclass(frozen=True)
class Step:
    """One question that a row was asked, and its answer.

    Where it is about a set of categories, ``feature`` is the column, and ``value`` 1 for a row whose value is in it.

    Parameters
    ----------
    feature : str
        Name of the column.
    value : float
        The row's, in the unit of the column.
    threshold : float
        That it was compared with.
    goes_left : bool
        Whether the value is at most the threshold.
    text : str
        All of it in words.
    """

    feature: str
    value: float
    threshold: float
    goes_left: bool
    text: str


@dataclass(frozen=True)
class TreePath:
    """A row's way through one tree.

    Parameters
    ----------
    tree : int
    owner : str
        The client that the tree came from.
    steps : tuple of Step
    value : ndarray of shape (n_outputs,)
        What the leaf says.
    text : str
        All of it in words.
    """

    tree: int
    owner: str
    steps: tuple[Step, ...]
    value: np.ndarray
    text: str

    def __str__(self) -> str:
        return self.text


def explain_prediction(forest: Forest, row: np.ndarray) -> list[TreePath]:
    """The path of one row through every tree.

    The forest's prediction follows from the mean of their values, or from their sum (``output`` "logit" and
    "target_sum").

    Parameters
    ----------
    forest : Forest
        A finished one.
    row : ndarray of shape (n_features,)
        Inside the schema's bounds.

    Returns
    -------
    list of TreePath
        One a tree.

    Raises
    ------
    InvalidForest
        The leaves hold raw counts, or the row has another number of features.

    Examples
    --------
    >>> import numpy as np
    >>> from dpforest import PrivateForestClassifier
    >>> X, y = np.repeat([[0.1], [0.9]], 500, axis=0), np.repeat(["low", "high"], 500)
    >>> model = PrivateForestClassifier(trees=1, depth=1, bounds=[(0, 1)], classes=["high", "low"], random_state=0)
    >>> forest = model.fit(X, y).forest_
    >>> [step.feature for path in explain_prediction(forest, np.array([0.1])) for step in path.steps]
    ['x0']
    """
    row = np.asarray(row)
    words = addition if forest.output in ("logit", "target_sum") else outcome
    leaves = forest.apply(row[None, :])[0]
    paths = []
    for tree, leaf in enumerate(leaves.tolist()):
        steps = _steps(forest, row, int(forest.offsets[tree]))
        then = words(forest, forest.value[leaf])
        if forest.weight.any():  # zeros throughout: the numbers are unknown
            then += f", {records(forest.weight[leaf])}"
        text = "; ".join([*(step.text for step in steps), f"so {then}"])
        paths.append(TreePath(tree, forest.owners[tree], tuple(steps), forest.value[leaf].copy(), text))
    return paths


def _steps(forest: Forest, row: np.ndarray, node: int) -> list[Step]:
    steps = []
    while forest.left[node] >= 0:
        index, threshold = int(forest.feature[node]), float(forest.threshold[node])
        name, value, words = _asked(forest, row, index)
        goes_left = bool(np.float32(value) <= np.float32(threshold))  # as the forest compares
        low, high = (-np.inf, threshold) if goes_left else (threshold, np.inf)
        text = f"{printable(words)}: {question(forest, index, low, high)}"
        steps.append(Step(name, value, threshold, goes_left, text))
        node = int(forest.left[node]) + (0 if goes_left else 1)
    return steps


def _asked(forest: Forest, row: np.ndarray, asked: int) -> tuple[str, float, str]:
    """Name and value of what a node asks of a row, and what the row has there, in words."""
    schema = forest.schema
    if asked < schema.n_features:
        feature, value = schema.features[asked], float(row[asked])
        if feature.name in schema.indicators:
            column, _ = schema.indicators[feature.name]
            return feature.name, value, f"{column} is {_category(forest, row, column)}"
        return feature.name, value, f"{feature.name} is {cell(feature, value)}"
    members = forest.sets[asked - schema.n_features]
    column, _ = forest.categories_of(asked - schema.n_features)
    return column, float((row[members] > 0.5).any()), f"{column} is {_category(forest, row, column)}"


def _category(forest: Forest, row: np.ndarray, column: str) -> str:
    categories = forest.schema.categories
    position = forest.schema.category_positions(row[None, :])[list(categories).index(column)][0]
    return (*categories[column], "none of its categories")[position]
