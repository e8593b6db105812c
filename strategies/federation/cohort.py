"""Which nodes take part, and for what."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dpforest.errors import DPForestError


@dataclass(frozen=True)
class Cohort:
    """Which node plays which client, by what the clients are for.

    Parameters
    ----------
    train, test : mapping of int to int
        Node of each client.
    total : int
        Clients, also such as are for nothing.
    """

    train: Mapping[int, int]
    test: Mapping[int, int]
    total: int


def choose_cohort(
    nodes: Mapping[int, int],
    roles: Sequence[str],
    own_tests: bool = True,
    sampled: Callable[[list[int]], list[int]] = list,
) -> Cohort:
    """Nodes for clients with these roles: ``train``, ``test`` or ``unused``.

    Parameters
    ----------
    nodes : mapping of int to int
        Which node plays which client.
    roles : sequence of str
        By client.
    own_tests : bool
        Whether clients that train have test rows of their own.
    sampled : callable of list of int to list of int
        Which of the clients that have test rows evaluate; all by default.

    Raises
    ------
    DPForestError
        Nobody plays one of the clients.
    """
    if missing := sorted(set(range(len(roles))) - set(nodes)):
        raise DPForestError(
            f"no node plays client {missing[0]}, and {len(nodes)} nodes play {', '.join(map(str, sorted(nodes)))}: "
            f"number them from 0 without gaps, by the partition-id of their configurations"
        )
    train = {client: nodes[client] for client, role in enumerate(roles) if role == "train"}
    tested = [client for client, role in enumerate(roles) if role == "test" or (role == "train" and own_tests)]
    return Cohort(train, {client: nodes[client] for client in sampled(tested)}, len(roles))
