"""Noise for deployment: OpenDP's exact integer samplers fed by the operating system's entropy."""

from __future__ import annotations

import math
import secrets
from functools import cache
from typing import Any

import numpy as np

from dpforest.noise.base import Noise, Shape, check_scale

_CANDIDATES = 1000


class Secure(Noise):
    """Cryptographically secure noise without a seed.

    Examples
    --------
    >>> Secure().discrete_laplace(2.0, 3).dtype.name
    'int64'
    """

    def discrete_laplace(self, scale: float, shape: Shape) -> np.ndarray:
        check_scale(scale)
        dp = _opendp()
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
        return _sample(dp.m.make_laplace(*space, scale=float(scale)), shape)

    def discrete_laplace_share(self, scale: float, shares: int, shape: Shape) -> np.ndarray:
        size = int(np.prod(shape))
        first, second = (self._negative_binomial(scale, shares, size) for _ in range(2))
        return (first - second).reshape(shape)

    def _negative_binomial(self, scale: float, shares: int, size: int) -> np.ndarray:
        """Exactly, by rejection.

        Of a geometric number k, which a two-sided one is given that it is not negative, a share is
        ``prod_{j < k} (j + 1 / shares) / (j + 1)`` times as likely, a product of chances of whole numbers.
        """
        kept: list[int] = []
        while len(kept) < size:
            draws = self.discrete_laplace(scale, _CANDIDATES).tolist()
            kept += [k for k in draws if k >= 0 and _is_kept(k, shares)]
        return np.array(kept[:size], dtype=np.int64)

    def discrete_gaussian(self, sigma: float, shape: Shape) -> np.ndarray:
        check_scale(sigma)
        dp = _opendp()
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
        return _sample(dp.m.make_gaussian(*space, scale=float(sigma)), shape)

    def permute_and_flip(self, scores: np.ndarray, scale: float) -> np.ndarray:
        # Report-noisy-max with exponential noise is permute-and-flip (Ding et al. 2021).
        return self._noisy_max(scores, scale, _opendp().max_divergence())

    def exponential_mechanism(self, scores: np.ndarray, scale: float) -> np.ndarray:
        # OpenDP adds Gumbel noise under this measure, which is the exponential mechanism.
        return self._noisy_max(scores, scale, _opendp().zero_concentrated_divergence())

    def bernoulli(self, probability: float, size: int) -> np.ndarray:
        # Whole numbers of 53 bits against a bound that is rounded down: never more than the probability.
        bits = np.frombuffer(secrets.token_bytes(8 * size), dtype=np.uint64) >> np.uint64(11)
        return bits < np.uint64(math.floor(probability * 2**53))

    def sample(self, population: int, size: int) -> np.ndarray:
        return np.array(secrets.SystemRandom().sample(range(population), size), dtype=np.int64)

    def generator(self) -> np.random.Generator:
        return np.random.default_rng()

    @staticmethod
    def _noisy_max(scores: np.ndarray, scale: float, measure: Any) -> np.ndarray:
        dp = _opendp()
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64", monotonic=True)
        draw = dp.m.make_noisy_max(*space, measure, scale=float(scale))
        return np.array([draw(row) for row in scores.tolist()], dtype=np.int64)


def _is_kept(k: int, shares: int) -> bool:
    return all(secrets.randbelow((j + 1) * shares) <= j * shares for j in range(k))


def _sample(measurement: Any, shape: Shape) -> np.ndarray:
    size = int(np.prod(shape))
    return np.array(measurement([0] * size), dtype=np.int64).reshape(shape)


@cache
def _opendp() -> Any:
    # OpenDP takes seconds to import, so a simulation never does.
    import opendp.prelude as dp

    dp.enable_features("contrib")
    return dp
