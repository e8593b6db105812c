"""Which features have helped so far, by sums that are released anyway."""

from __future__ import annotations

import numpy as np

from dpforest.boosting.sizes import node_sizes
from dpforest.boosting.trees import Structure


class FeatureGains:
    """Running estimate of what a split by each feature gains a record.

    A split that tells records with different gradients apart has children whose gradient sums differ by more than
    noise: with sums ``G`` and records ``N`` of the children, the contrast ``D = G_l N_r / N - G_r N_l / N`` gives the
    gain ``|D|^2 N / (N_l N_r)``, less the part of the noise. Nodes count by the square of ``N_l N_r / N``,
    since those with few records, or few on one side, say little compared with the noise.
    """

    def __init__(self, n_features: int) -> None:
        self._gain = np.zeros(n_features)
        self._weight = np.zeros(n_features)

    def learn(
        self,
        structure: Structure,
        nominal: list[np.ndarray],
        gradients: np.ndarray,
        counts: np.ndarray,
        gradient_deviation: float,
        count_deviation: float,
    ) -> None:
        """Add the splits of finished trees.

        Parameters
        ----------
        nominal : list of ndarray, shapes (n_trees, 1) to (n_trees, n_leaves)
            Records of each node by its share of all.
        gradients, counts : ndarray of shape (n_trees, n_leaves, n_outputs) and (n_trees, n_leaves)
            Noised sums.
        gradient_deviation, count_deviation : float
            Of their noise.
        """
        n_outputs = gradients.shape[2]
        depth = len(nominal) - 1
        for level in range(depth - 1, -1, -1):
            below = 2 ** (depth - 1 - level)  # leaves whose noise a child has
            sizes = node_sizes(counts, nominal[level + 1], count_deviation**2 * below)
            left, right = sizes[:, 0::2], sizes[:, 1::2]
            size = left + right
            to_left, to_right = left / size, right / size
            contrasted = left * right / size
            contrast = gradients[:, 0::2] * to_right[..., None] - gradients[:, 1::2] * to_left[..., None]
            noise = n_outputs * below * gradient_deviation**2 * (to_left**2 + to_right**2)
            gain = ((contrast**2).sum(axis=2) - noise) / contrasted
            asked = structure.feature[:, 2**level - 1 : 2 ** (level + 1) - 1]
            np.add.at(self._gain, asked, contrasted**2 * gain / size)
            np.add.at(self._weight, asked, contrasted**2)
            gradients = gradients[:, 0::2] + gradients[:, 1::2]
            counts = counts[:, 0::2] + counts[:, 1::2]

    def chances(self, exploration: float) -> np.ndarray:
        """Chance of each feature, shape (n_features,): positive, adds up to 1."""
        n = len(self._gain)
        seen = self._weight > 0
        average = self._gain.sum() / self._weight.sum() if seen.any() else 0.0
        gain = np.where(seen, self._gain / np.where(seen, self._weight, 1.0), average)
        strength = np.maximum(gain, 0.0)
        even = np.full(n, 1 / n)
        if strength.sum() <= 0:
            return even
        return exploration * even + (1 - exploration) * strength / strength.sum()
