"""LRF: a user grows the same random trees with nobody; nothing leaves it."""

from __future__ import annotations

import numpy as np

from dpforest.forest import Forest
from dpforest.growers import ResolvedSettings, finish_classifier
from dpforest.schema import Schema
from strategies.pp_fprf.growth import NO_MASTER, Group, Growth
from strategies.pp_fprf.member import Member
from strategies.pp_fprf.settings import TreeSettings


def grow_alone(
    X: np.ndarray, y: np.ndarray, schema: Schema, settings: TreeSettings, seed: int, rng: np.random.Generator
) -> Forest:
    """Trees of one user by the protocol of all, without noise.

    Parameters
    ----------
    X, y : ndarray
        The rows that trees may see.
    seed : int
        Of candidate features and values.
    rng : Generator
        Of the values that the user would propose.
    """
    growth = Growth([Group(NO_MASTER, (0,))], schema, settings, seed, values_of_users=True)
    member = Member(X, y, np.zeros(len(y), dtype=np.int16), 1, schema, settings)
    while growth.phase != "done":
        message = growth.message(0)
        member.follow(message)
        if growth.phase == "propose":
            sizes, values = member.propose(seed, rng)
            growth.receive({0: {"sizes": sizes, "values": values}})
        elif growth.phase == "vote":
            growth.receive({0: {"votes": member.scores(seed, message, published=True).argmax(axis=1)}})
        else:
            growth.receive({0: {"counts": member.close()}})
    return finish(growth.counts_forest(), settings, np.inf)


def finish(counts: Forest, settings: TreeSettings, leaf_epsilon: float) -> Forest:
    """Labels or class shares of the leaves from (noised) counts; an empty leaf and a tie go by the node above.

    Parameters
    ----------
    leaf_epsilon : float
        Of the sum of all members' counts; ``inf`` takes counts at their word.
    """
    return finish_classifier(counts, ResolvedSettings(smoothing="shrink", voting=settings.voting), leaf_epsilon)
