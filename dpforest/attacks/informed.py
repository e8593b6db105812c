"""The informed attacker: knows every other record, and all that was released, but for whether one record is in.

This is the attacker that epsilon is about. Its likelihood ratios are exact, from the mechanisms' own distributions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp, ndtr, ndtri

from dpforest.attacks.allowed import most_area, most_true_positives
from dpforest.boosting.columns import Columns
from dpforest.boosting.kernels import class_gradients
from dpforest.boosting.settings import BoostPlan
from dpforest.forest import Forest
from dpforest.guarantee import most_balanced_accuracy


def count_ratio(noised: np.ndarray, others: np.ndarray, epsilon: float) -> float:
    """Exact log likelihood ratio of a record in one of several trees, by the count of its leaf and class in each.

    A count has two-sided geometric noise, of which a step changes the probability by the factor ``e^-epsilon``. Of
    trees on disjoint rows one has the record, each with the same chance.

    Parameters
    ----------
    noised, others : ndarray of shape (n_trees,)
        The released counts, and those of all other records.
    epsilon : float
        Of one count; finite.
    """
    steps = np.abs(noised - others) - np.abs(noised - others - 1)
    return float(logsumexp(epsilon * steps) - np.log(len(steps)))


@dataclass(frozen=True)
class Influence:
    """What a boosted run released about single records, by exact distributions.

    Parameters
    ----------
    records : ndarray of shape (n_records,)
        Of each record: mu of the Gaussian test between it being in or not, or epsilon where the noise is Laplace.
    paid : float
        What the ledger charged for any record.
    is_pure : bool
        Whether these are epsilons.
    """

    records: np.ndarray
    paid: float
    is_pure: bool

    def areas(self) -> np.ndarray:
        """Area under the curve of the exact test about each record; of pure noise, the most that its epsilon allows."""
        if self.is_pure:
            return np.array([most_area(epsilon) for epsilon in self.records])
        return ndtr(self.records / np.sqrt(2))

    def balanced_accuracies(self) -> np.ndarray:
        """Balanced accuracy of the same."""
        if self.is_pure:
            return np.array([most_balanced_accuracy(epsilon) for epsilon in self.records])
        return ndtr(self.records / 2)

    def true_positives(self, false_positives: float) -> np.ndarray:
        """True positive rate of the same at a false positive rate."""
        if self.is_pure:
            return np.array([float(most_true_positives(false_positives, epsilon)) for epsilon in self.records])
        return ndtr(ndtri(false_positives) + self.records)


def boosting_influence(
    forest: Forest, plan: BoostPlan, X: np.ndarray, y: np.ndarray, clip: float, shares: int = 1
) -> Influence:
    """How far each record moved what boosting released, in deviations of its noise; exact, no model is grown.

    Every round's released trees and what they added to a record's score are in the forest, so its gradient in each
    round is known, and all rounds together are one Gaussian test of ``mu^2 = sum |a|^2 / variance``, a being what the
    record adds to the sums.

    Parameters
    ----------
    forest : Forest
        Boosted classes, with the trees in the order in which they were grown.
    plan : BoostPlan
        Public plan of the run; without a linear part, whose rounds a forest does not show.
    X, y : ndarray
        Records, and their class indices.
    clip : float
        Norm above which gradients were shortened.
    shares : int
        Parties whose noise is in a sum that is only seen as a whole.
    """
    per_round = plan.trees_per_round
    leaves = forest.apply(X)
    scores = np.tile(forest.base.astype(np.float32), (len(y), 1))
    gradients = np.empty(scores.shape, dtype=np.int32)
    lengths = np.zeros(len(y))
    for first in range(0, forest.n_trees, per_round):
        class_gradients(scores, np.asarray(y, dtype=np.int64), clip, plan.unit, plan.norm, gradients)
        wide = gradients.astype(np.float64)
        size = np.abs(wide).sum(1) + plan.count_unit if plan.settings.pure else (wide**2).sum(1) + plan.count_unit**2
        lengths += per_round * size
        for tree in range(first, first + per_round):
            scores += forest.value[leaves[:, tree]].astype(np.float32)
    widths = Columns(forest.schema).number + 1
    trees = forest.n_trees
    if plan.settings.pure:
        of_sums, of_histograms = plan.sums.cost.epsilon, plan.marginals.cost.epsilon
        largest = plan.unit + plan.count_unit
        found = of_sums * lengths / largest + of_histograms
        return Influence(found, trees * of_sums + of_histograms, True)
    of_histograms = widths * plan.marginal_unit**2 / (shares * plan.marginals.variance)
    found = np.sqrt(lengths / (shares * plan.sums.variance) + of_histograms)
    most = trees * (plan.unit**2 + plan.count_unit**2) / (shares * plan.sums.variance) + of_histograms
    return Influence(found, float(np.sqrt(most)), False)
