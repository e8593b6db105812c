"""Public weights of classes, put into a finished forest.

A learner that counted each record of class c for w_c times as much would learn w_c p_c(x), scaled to a sum of 1, where
p_c(x) are the probabilities that are learned from equal records. So the weights are put on those afterwards. That
releases nothing (they are public, the forest is released already) and needs no more noise, whereas a weight in training
multiplies what one record can move, and with it the noise for all classes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpforest.errors import InvalidForest
from dpforest.forest.forest import Forest
from dpforest.forest.importance import feature_importances


def weigh_classes(forest: Forest, weights: np.ndarray) -> Forest:
    """The forest whose probabilities are those of ``forest`` times the weights, scaled to a sum of 1.

    Parameters
    ----------
    forest : Forest
        A finished one, of classes; ``output`` "probability" or "logit".
    weights : ndarray of shape (n_classes,)
        Positive; only their ratios matter.

    Raises
    ------
    InvalidForest
        The forest's output is another one.
    """
    share = np.asarray(weights, dtype=np.float64) / np.max(weights)
    if forest.output == "logit":
        return replace(forest, base=forest.base + np.log(share))
    if forest.output != "probability":
        raise InvalidForest(f"a forest of {forest.output!r} has no probabilities to weigh")
    return replace(
        forest,
        output="score",
        value=forest.value * share,
        stated_importances=feature_importances(forest),
    )
