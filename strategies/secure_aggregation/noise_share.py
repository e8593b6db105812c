"""How much noise each client adds so that the sum has enough, whoever is missing or colludes.

Of n clients, d may be missing and c may know, and subtract, their own noise. If each adds discrete Gaussian noise of
variance sigma^2 / (n - d - c), what protects a sum has a variance of at least sigma^2.

A sum of discrete Gaussians is no discrete Gaussian, but nearly: Kairouz, Liu and Steinke 2021 (The Distributed
Discrete Gaussian Mechanism for Federated Learning with Secure Aggregation, ICML, theorem 1) bound the ratio of the
probabilities of any value under the sum of m shares of standard deviation s >= 1/2 and under one discrete Gaussian of
variance m s^2 by exp(+-tau), tau = 10 sum_{k=1}^{m-1} exp(-2 pi^2 s^2 k / (k + 1)). At s = 3 and m = 100 that is
3e-38; scale values up until the share has a standard deviation of 3 or more, and nothing is left to account for.

Over D numbers in all (of all rounds, chosen adaptively or not) the ratios multiply to exp(+-D tau) at most. So if one
discrete Gaussian per number gives (epsilon, delta), the sums of shares give, by going over and back,

    P'(A) <= e^(D tau) P(A) <= e^(D tau) (e^epsilon Q(A) + delta) <= e^(epsilon + 2 D tau) Q'(A) + e^(D tau) delta.

One discrete Gaussian of parameter sigma satisfies the same zero-concentrated bound, Delta^2 / (2 sigma^2), as the
continuous one (Canonne, Kamath and Steinke 2020, The Discrete Gaussian for Differential Privacy).
"""

from __future__ import annotations

import math

from dpforest.errors import DPForestError
from strategies.secure_aggregation.terms import Terms


def share_sigma(sigma: float, terms: Terms) -> float:
    """Standard deviation of one client's noise.

    Parameters
    ----------
    sigma : float
        Of the noise that a sum must have at least, in the same unit.
    terms : Terms
    """
    return sigma / math.sqrt(terms.clients - terms.dropouts - terms.colluders)


def divergence(share: float, shares: int) -> float:
    """Largest |log ratio| tau between a sum of discrete Gaussians and one of the same variance, per number.

    Parameters
    ----------
    share : float
        Standard deviation of each, at least 1/2.
    shares : int
        How many are summed.

    Raises
    ------
    DPForestError
        The bound does not hold for so little noise.
    """
    if share < 0.5:
        raise DPForestError(f"a share of noise of {share:.3g} is below 0.5; scale the values up before rounding them")
    return 10 * math.fsum(math.exp(-2 * (math.pi * share) ** 2 * k / (k + 1)) for k in range(1, shares))


def with_shares(epsilon: float, delta: float, share: float, terms: Terms, numbers: int) -> tuple[float, float]:
    """The guarantee of sums of noise shares, given that of single discrete Gaussians of the same variance.

    Parameters
    ----------
    epsilon, delta : float
        Of all releases together.
    share : float
        Standard deviation of one client's noise.
    terms : Terms
    numbers : int
        Released in all rounds together.
    """
    loss = numbers * divergence(share, terms.clients)
    return epsilon + 2 * loss, delta * math.exp(loss)


def least_share(extra_epsilon: float, terms: Terms, numbers: int) -> float:
    """Least standard deviation of a share for which sums of shares cost at most so much more epsilon.

    From tau <= 10 (clients - 1) exp(-pi^2 s^2), since k / (k + 1) >= 1/2.
    """
    spread = math.log(max(1.0, 20 * numbers * (terms.clients - 1) / extra_epsilon))
    return max(0.5, math.sqrt(spread) / math.pi)


def noise_tail(share: float, draws: int, failure: float) -> int:
    """What no draw of a client's noise exceeds in absolute value, but for a small chance.

    Add it to the clip bound for `Terms.largest_value`.

    Parameters
    ----------
    share : float
        Standard deviation of each draw.
    draws : int
        Of all clients and rounds together.
    failure : float
        Chance that one of them exceeds the result. A discrete Gaussian has the tails 2 exp(-m^2 / (2 s^2)) of a
        continuous one, since by Poisson summation no shift of exp(-z^2 / (2 s^2)) has a larger sum over the integers.
    """
    return math.ceil(share * math.sqrt(2 * math.log(2 * draws / failure)))
