"""A statistical check of differential privacy, by the frequencies of outputs on two neighbouring inputs.

For every event E of a fixed list, pure epsilon-differential privacy asks
P[M(a) in E] <= exp(epsilon) P[M(b) in E]. Both probabilities are replaced by exact binomial (Clopper, Pearson 1934)
confidence bounds that all hold together but for a chance of ``alarm``, so that a private mechanism is found guilty
with at most that chance.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import beta

from dpforest.noise import Noise


def certain_loss(cells: np.ndarray, neighbour_cells: np.ndarray, n_cells: int, alarm: float = 1e-6) -> float:
    """Privacy loss that is certainly reached: compare with epsilon.

    Parameters
    ----------
    cells, neighbour_cells : ndarray of int, shape (n_draws,)
        Output of every independent run on the one and on the other input, numbered from 0.
    n_cells : int
        Number of outputs, chosen before the draws. Events are each output, "at most k" and "at least k".
    alarm : float
        Chance that the result is above the true loss.
    """
    events = 3 * n_cells
    bounds = []
    for drawn in (cells, neighbour_cells):
        counts = np.bincount(drawn, minlength=n_cells)
        assert len(counts) == n_cells, "an output lies outside the numbered cells"
        hits = np.concatenate([counts, np.cumsum(counts), np.cumsum(counts[::-1])])
        miss = alarm / (4 * events)
        low = np.where(hits > 0, beta.ppf(miss, hits, len(drawn) - hits + 1), 0.0)
        high = np.where(hits < len(drawn), beta.ppf(1 - miss, hits + 1, len(drawn) - hits), 1.0)
        bounds.append((low, high))
    (low, high), (neighbour_low, neighbour_high) = bounds
    with np.errstate(divide="ignore"):
        return float(max(np.log(low / neighbour_high).max(), np.log(neighbour_low / high).max()))


class HalvedNoise(Noise):
    """The mutant: half the noise that a mechanism asks for."""

    def __init__(self, noise: Noise) -> None:
        self._noise = noise

    def discrete_laplace(self, scale, shape):
        return self._noise.discrete_laplace(scale / 2, shape)

    def discrete_gaussian(self, sigma, shape):
        return self._noise.discrete_gaussian(sigma / 2, shape)

    def permute_and_flip(self, scores, scale):
        return self._noise.permute_and_flip(scores, scale / 2)

    def exponential_mechanism(self, scores, scale):
        return self._noise.exponential_mechanism(scores, scale / 2)

    def bernoulli(self, probability, size):
        return self._noise.bernoulli(probability, size)

    def sample(self, population, size):
        return self._noise.sample(population, size)

    def generator(self):
        return self._noise.generator()
