"""Many clients: masks and parts of secrets are shared with the next on a circle instead of with all (Bell et al. 2020).

With n clients, all pairs cost each of them n masks a sum. From `FEWEST` clients on they are put on a circle in an order
that follows from a hash of all their keys, and each shares masks and parts with the ``k`` that stand next to it, half
on either side (a Harary graph; Bell, Bonawitz, Gascon, Lepoint, Raykova 2020, Secure Single-Server Aggregation with
(Poly)Logarithmic Overhead, CCS). `circle_for` chooses k, and the parts t that restore a secret, by public numbers: n,
at most d clients that are missing or lie, at most c that collude. Where no k is smaller than all others, all pairs
stay.

Proof. It is about clients that are missing, lie or collude whatever the order is: the order is drawn from a hash of
every client's fresh keys after all keys are there, so whoever fails stands at random places. At least n - d clients are
members (who never appeared has no place).

1. *Neighbourhoods.* How many of c colluders are among the k neighbours of one client is hypergeometric. Let e be the
   least number that any of n clients exceeds with a chance of 2^-64 at most (never more than c), and likewise f for
   the d that fail, for all sums of a run together, with a chance of 2^-20. Then ``t = floor((k + e) / 2) + 1``, and k
   is such that ``k - f >= t``. So what the package proves for the k holders of one client holds with e in the place of
   c, and k - t in that of d: colluders alone restore nothing (``e < t``); both secrets of a client never come out, nor
   both attempts at a sum (``2 t > k + e``); and parts enough come back, and liars are named, unless more than f of one
   neighbourhood fail, which costs one sum in a million runs, and nothing else.
2. *Nobody is cut off.* A sum over some survivors alone would show (with less noise than was sized) if their masks
   cancelled among themselves: if missing and colluding clients cut the circle. To leave two pieces that share no mask,
   ``k / 2`` places in a row must be gone at two places. For r = d + c gone of n, k given places are all gone with a
   chance of ``prod_{i < k} (r - i) / (n - i)``, and there are fewer than n^2 / 2 pairs of places, in each attempt at a
   sum: k is such that all together have a chance of 2^-64 at most.

So with a chance of 2^-63 more than all pairs, the server that follows the protocol learns the sum over all survivors
and nothing else. That chance adds to delta. Colluders who try many keys to stand well gain no more than as many times
that chance: after 2^24 tries it is 2^-39.

*Not covered*, unlike with all pairs: a server that lies about the survivors, where d is near k or above. It never gets
both secrets of a client, since ``2 t > k + e``, but by naming different survivors to different clients it can get the
round keys of all neighbours of one, whose vector is then a sum by itself. A client refuses survivors without more than
k - t of its own neighbours, which no honest sum could be unmasked for; that makes such a cut harder and does not rule
it out. The trust model of these sums says that the server follows the protocol; clients that know each other's keys
take part only where no such cut is possible (`strategies.secure_aggregation.fellows`, 3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

# Clients from which on there is a circle, and neighbours on it, at least.
FEWEST, _FEWEST_NEIGHBOURS = 100, 20
# Chances, in a whole run: that anything is uncovered, by colluders around one client or by a cut; that a sum is lost.
_UNCOVERED, _LOST = 2.0**-64, 2.0**-20


@dataclass(frozen=True)
class Circle:
    """With how many neighbours each client shares, and how many parts restore a secret."""

    neighbours: int
    threshold: int


@lru_cache(maxsize=64)
def circle_for(clients: int, dropouts: int, colluders: int, attempts: int) -> Circle | None:
    """The circle of a run; None where all clients share with all.

    Parameters
    ----------
    clients, dropouts, colluders : int
    attempts : int
        At all sums of the run.
    """
    if clients < FEWEST:
        return None
    members = clients - dropouts  # at least
    for neighbours in range(_FEWEST_NEIGHBOURS, members - 1, 2):
        colluding = _exceeded(members - 1, colluders, neighbours, _UNCOVERED / clients)
        failing = _exceeded(clients - 1, dropouts, neighbours, _LOST / clients / attempts)
        threshold = (neighbours + colluding) // 2 + 1
        if neighbours - failing >= threshold and cut_chance(clients, dropouts + colluders, neighbours) <= (
            _UNCOVERED / attempts
        ):
            return Circle(neighbours, threshold)
    return None


def cut_chance(clients: int, gone: int, neighbours: int) -> float:
    """Largest chance that so many clients, gone at random, leave pieces of the circle that share no mask."""
    if gone < neighbours:
        return 0.0
    log = sum(math.log((gone - i) / (clients - i)) for i in range(neighbours))
    return clients**2 / 2 * math.exp(log)


def _exceeded(others: int, of_a_kind: int, chosen: int, chance: float) -> int:
    """The least number of a kind that are among so many of the others, but for a chance."""
    from scipy.stats import hypergeom  # slow to import, and every run loads this module

    most = min(of_a_kind, chosen)
    return next((least for least in range(most) if hypergeom.sf(least, others, of_a_kind, chosen) <= chance), most)
