"""Which nodes take part, and for what."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Cohort:
    """Which node plays which client, by what the clients are for.

    Parameters
    ----------
    train, test : mapping of int to int
        Node of each client.
    total : int
        Clients, also such as are for nothing, or that nobody plays.
    nobodys : mapping of int to str
        What the clients that nobody plays are for.
    """

    train: Mapping[int, int]
    test: Mapping[int, int]
    total: int
    nobodys: Mapping[int, str] = field(default_factory=dict)

    @property
    def to_train(self) -> int:
        """Clients that are to train, also such as nobody plays."""
        return len(self.train) + sum(role == "train" for role in self.nobodys.values())


def choose_cohort(
    nodes: Mapping[int, int],
    roles: Sequence[str],
    own_tests: bool = True,
    sampled: Callable[[list[int]], list[int]] = list,
) -> Cohort:
    """Nodes for clients with these roles: ``train``, ``test`` or ``unused``. A client that nobody plays takes no part.

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
    """
    train = {client: nodes[client] for client, role in enumerate(roles) if role == "train" and client in nodes}
    tested = [client for client, role in enumerate(roles) if role == "test" or (role == "train" and own_tests)]
    test = {client: nodes[client] for client in sampled(tested) if client in nodes}
    nobodys = {client: role for client, role in enumerate(roles) if client not in nodes}
    return Cohort(train, test, len(roles), nobodys)
