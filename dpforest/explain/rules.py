"""A tree as rules in words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpforest.explain.wording import outcome, question, records
from dpforest.forest import Forest


@dataclass(frozen=True)
class Rule:
    """One leaf.

    Parameters
    ----------
    bounds : tuple of (feature index, low, high)
        ``low < x <= high`` for every feature that the path asks, in the order of the first question. Numbers from
        ``n_features`` on are the forest's sets of categories, with x = 1 for a row in them.
    value : ndarray of shape (n_outputs,)
        What the leaf predicts.
    weight : float
        Estimated records, from noised counts.
    text : str
        All of it in words.
    """

    bounds: tuple[tuple[int, float, float], ...]
    value: np.ndarray
    weight: float
    text: str

    def __str__(self) -> str:
        return self.text


def tree_rules(forest: Forest, tree: int = 0, limit: int | None = None) -> list[Rule]:
    """Rules of one tree, those of most records first.

    Several questions about one feature are joined into one condition.

    Parameters
    ----------
    forest : Forest
        Whose trees are averaged (``output`` "target" or "probability").
    tree : int
        Which tree, from 0.
    limit : int, optional
        At most so many rules.

    Returns
    -------
    list of Rule
        One a leaf.

    Raises
    ------
    InvalidForest
        The leaves of such a forest mean nothing alone.

    Examples
    --------
    >>> import numpy as np
    >>> from dpforest import PrivateForestClassifier
    >>> X, y = np.repeat([[0.1], [0.9]], 500, axis=0), np.repeat(["low", "high"], 500)
    >>> model = PrivateForestClassifier(trees=1, depth=1, bounds=[(0, 1)], classes=["high", "low"], random_state=0)
    >>> forest = model.fit(X, y).forest_
    >>> len(tree_rules(forest))
    2
    """
    alone = forest.tree(tree)
    rules = []
    open_nodes: list[tuple[int, dict[int, tuple[float, float]]]] = [(0, {})]
    while open_nodes:
        node, box = open_nodes.pop()
        if alone.left[node] < 0:
            rules.append(_rule(alone, node, box))
            continue
        feature, cut = int(alone.feature[node]), float(alone.threshold[node])
        low, high = box.get(feature, (-np.inf, np.inf))
        left = int(alone.left[node])
        open_nodes.append((left + 1, {**box, feature: (max(low, cut), high)}))
        open_nodes.append((left, {**box, feature: (low, min(high, cut))}))
    rules.sort(key=lambda rule: -rule.weight)
    return rules[:limit]


def _rule(tree: Forest, leaf: int, box: dict[int, tuple[float, float]]) -> Rule:
    conditions = [question(tree, f, low, high) for f, (low, high) in box.items()]
    then = f"{outcome(tree, tree.value[leaf])}, {records(tree.weight[leaf])}"
    text = f"if {' and '.join(conditions)} then {then}" if conditions else f"always {then}"
    bounds = tuple((f, low, high) for f, (low, high) in box.items())
    return Rule(bounds, tree.value[leaf].copy(), float(tree.weight[leaf]), text)
