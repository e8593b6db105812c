"""Where a trusted server adds the noise: sums that clients entrust to it, and what it draws from.

Proof. What the unit of the guarantee (a record, or one client's whole data) moves its own client's whole numbers by, it
moves their total by, and a mechanism is made for at most that much. The server adds up exactly and releases the total
by that mechanism, once an exchange and with the noise of one party, before anything else follows from it. So an
exchange costs what the mechanism says, and exchanges compose as adaptive releases do. A client that is missing adds
nothing, which is what its data replaced by nothing would add. The server sees the numbers without noise: it is trusted.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from dpforest.errors import DPForestError
from dpforest.guarantee import CLIENT_UNIT, RECORD_UNIT, PrivacyUnit, Trust, TrustModel
from dpforest.ledger import Entry, Ledger
from dpforest.mechanisms import DiscreteGaussianSums, DiscreteLaplaceCounts
from dpforest.noise import Noise, Secure, Seeded
from strategies.method import ClientUpdate, Task

SUMS_TRUST = Trust("server trusted", "it sees every client's sums before the noise", TrustModel.CENTRAL)


class LeftToServer(Noise):
    """What a client draws from that leaves the noise to a trusted server: none.

    What comes of it goes out as `strategies.updates.Entrusted` and in no other way.
    """

    def discrete_laplace(self, scale: float, shape: Any) -> np.ndarray:
        return np.zeros(shape, dtype=np.int64)

    def discrete_gaussian(self, sigma: float, shape: Any) -> np.ndarray:
        return np.zeros(shape, dtype=np.int64)

    def discrete_laplace_share(self, scale: float, shares: int, shape: Any) -> np.ndarray:
        raise _not_a_sum()

    def permute_and_flip(self, scores: np.ndarray, scale: float) -> np.ndarray:
        raise _not_a_sum()

    def exponential_mechanism(self, scores: np.ndarray, scale: float) -> np.ndarray:
        raise _not_a_sum()

    def bernoulli(self, probability: float, size: int) -> np.ndarray:
        raise _not_a_sum()

    def sample(self, population: int, size: int) -> np.ndarray:
        raise _not_a_sum()

    def generator(self) -> np.random.Generator:
        raise _not_a_sum()


def _not_a_sum() -> DPForestError:
    return DPForestError("only the noise of a sum can be left to a trusted server")


class ServerNoise:
    """What a trusted server draws its noise from.

    Parameters
    ----------
    task : Task
        Its settings have ``server_noise``.
    """

    def __init__(self, task: Task[Any]) -> None:
        self._seed = task.seed
        self._is_secure = task.deployed or task.settings.server_noise == "secure"

    def check(self, updates: Collection[ClientUpdate]) -> None:
        """Refuse seeded noise for real nodes.

        Raises
        ------
        DPForestError
        """
        if not self._is_secure and any(update.noise != "seeded" for update in updates):
            raise DPForestError(
                "the clients are real nodes, but the server's noise follows the public seed: set server_noise=secure "
                "(privacy.noise=secure)"
            )

    def source(self, *key: int) -> Noise:
        """Of one purpose in one round; in a simulation it follows the seed and the key."""
        return Secure() if self._is_secure else Seeded(np.random.SeedSequence(self._seed, spawn_key=key))


class TrustedSums:
    """The releases of a trusted server, with a ledger of its own.

    Parameters
    ----------
    task : Task
    """

    def __init__(self, task: Task[Any]) -> None:
        unit = CLIENT_UNIT if task.unit is PrivacyUnit.CLIENT else RECORD_UNIT
        self.ledger = Ledger(task.budget, unit, SUMS_TRUST)
        self._noise = ServerNoise(task)

    def release(
        self,
        total: np.ndarray,
        updates: Collection[ClientUpdate],
        exchange: int,
        mechanism: DiscreteGaussianSums | DiscreteLaplaceCounts,
        entry: Entry,
    ) -> np.ndarray:
        """The noised total of an exchange.

        Parameters
        ----------
        total : ndarray of int64
            Exact, over the updates.

        Raises
        ------
        DPForestError
            The noise would follow the public seed, and nodes are real; or the budget is spent.
        """
        self._noise.check(updates)
        return mechanism.release(total, entry, self.ledger, self._noise.source(3, exchange))
