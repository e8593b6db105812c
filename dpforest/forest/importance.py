"""Importances from what was already noised: post-processing, so they cost no budget."""

from __future__ import annotations

import numpy as np

from dpforest.forest.forest import Forest


def feature_importances(forest: Forest) -> np.ndarray:
    """Mean decrease in impurity (Breiman 2001; Gini for classes, variance proxy for targets).

    Computed from the noised leaf values and weights only. Trees count equally. Importances that the forest states
    itself are given as they are.

    Parameters
    ----------
    forest : Forest
        A finished one.

    Returns
    -------
    ndarray of float64, shape (n_features,)
        Non-negative; adds up to 1 unless no split decreases the impurity (then all 0).

    Examples
    --------
    >>> import numpy as np
    >>> from dpforest import PrivateForestClassifier
    >>> X, y = np.repeat([[0.1], [0.9]], 500, axis=0), np.repeat(["low", "high"], 500)
    >>> model = PrivateForestClassifier(trees=1, depth=1, bounds=[(0, 1)], classes=["high", "low"], random_state=0)
    >>> forest = model.fit(X, y).forest_
    >>> feature_importances(forest).tolist()
    [1.0]
    """
    if forest.stated_importances is not None:
        return forest.stated_importances
    inner = np.flatnonzero(~forest.is_leaf)
    total = np.zeros(forest.schema.n_features)
    if inner.size == 0:
        return total
    value, weight = forest.value, forest.weight
    # For probabilities p, Gini is 1 - |p|^2; for a target, the variance between children is explained by
    # squared means. In both cases the decrease is sum over children of w |v|^2 minus the parent's.
    strength = weight * (value**2).sum(axis=1)
    left = forest.left[inner]
    gain = np.maximum(strength[left] + strength[left + 1] - strength[inner], 0.0)
    tree_of = np.searchsorted(forest.offsets, inner, side="right") - 1
    root_weight = np.maximum(weight[forest.offsets[:-1]], 1e-12)
    gain /= root_weight[tree_of]
    asked = forest.feature[inner]
    of_set = asked >= len(total)
    np.add.at(total, asked[~of_set], gain[~of_set])
    # What a set of categories gains is shared by its members.
    if of_set.any():
        members = forest.sets[asked[of_set] - len(total)]
        total += (gain[of_set] / members.sum(axis=1)) @ members
    return total / total.sum() if total.sum() > 0 else total
