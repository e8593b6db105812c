"""What all clients and the server agree on before the first exchange."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from dpforest.errors import DPForestError
from strategies.secure_aggregation.circle import Circle, circle_for
from strategies.secure_aggregation.field import Field


@dataclass(frozen=True)
class Terms:
    """Public facts of a run with secure sums.

    Parameters
    ----------
    clients : int
        How many take part; at least 2 dropouts + colluders + 2.
    rounds : int
        Sums of the run.
    largest_value : int
        Largest absolute value that one client may send, noise included (see `DiscreteGaussianSums.tail`). A client
        refuses to send more, so that the sum cannot wrap around.
    dropouts : int
        Clients that may be missing at any time, those that never appeared included.
    colluders : int
        Clients that may hand all they know to the server.

    Raises
    ------
    DPForestError
        No sum under these terms hides the single vectors, or it does not fit 64 bits.
    """

    clients: int
    rounds: int
    largest_value: int
    dropouts: int = 0
    colluders: int = 0

    def __post_init__(self) -> None:
        if self.dropouts < 0 or self.colluders < 0:
            raise DPForestError(f"dropouts {self.dropouts} and colluders {self.colluders} must be 0 or more")
        least = 2 * self.dropouts + self.colluders + 2
        if self.clients < least:
            raise DPForestError(
                f"{self.clients} clients cannot hide their vectors in a sum with {self.dropouts} dropouts and "
                f"{self.colluders} colluders: at least {least} are needed; allow fewer or use local noise"
            )
        if self.rounds < 1 or self.largest_value < 1:
            raise DPForestError(f"rounds {self.rounds} and largest value {self.largest_value} must be 1 or more")
        _ = self.field

    @cached_property
    def field(self) -> Field:
        """Integers mod 2^32 if every sum fits, else mod 2^64."""
        return Field.for_sums(self.clients * self.largest_value)

    @property
    def least_survivors(self) -> int:
        """Clients that must be in a sum."""
        return self.clients - self.dropouts

    @property
    def quorum(self) -> int:
        """Signatures on one list of survivors that rule out such signatures on another."""
        return (self.clients + self.colluders) // 2 + 1

    @property
    def secrets(self) -> int:
        """Pairs of secrets of each client: one for each sum, and where clients may lie, one to mask it again."""
        return self.rounds * self.attempts

    @property
    def attempts(self) -> int:
        """At most, at each sum."""
        return 2 if self.dropouts else 1

    @property
    def threshold(self) -> int:
        """Parts that restore a secret."""
        return self.circle.threshold if self.circle else self.dropouts + self.colluders + 1

    @cached_property
    def circle(self) -> Circle | None:
        """With whom clients share where they are many; None if all share masks with all."""
        return circle_for(self.clients, self.dropouts, self.colluders, self.secrets)

    @property
    def most_failing(self) -> int:
        """Holders of one client's parts, and clients whose parts one holds, that are missing or lie at most."""
        return self.circle.neighbours - self.circle.threshold if self.circle else self.dropouts

    def partners(self, client: int, members: Sequence[int]) -> list[int]:
        """With whom a client shares masks.

        Parameters
        ----------
        members : sequence of int
            In the order of `strategies.secure_aggregation.wire.arranged`.
        """
        if self.circle is None:
            return [member for member in members if member != client]
        at, n = list(members).index(client), len(members)
        return [members[(at + sign * s) % n] for s in range(1, self.circle.neighbours // 2 + 1) for sign in (1, -1)]

    def ring(self, client: int, members: Sequence[int]) -> tuple[list[int], list[int]]:
        """Who holds parts of a client's secrets, and whose parts the client holds.

        Parameters
        ----------
        client : int
        members : sequence of int
            All that advertised keys, in the order of `strategies.secure_aggregation.wire.arranged`.

        Returns
        -------
        holders, dealers : list of int
            The s-th holder, counted from 1, has the part with index s. The client has the part with index s of
            the s-th dealer.
        """
        if self.circle is not None:
            partners = self.partners(client, members)
            return partners, partners
        at, n = list(members).index(client), len(members)
        steps = range(1, min(2 * self.dropouts + self.colluders + 1, n - 1) + 1)
        return [members[(at + s) % n] for s in steps], [members[(at - s) % n] for s in steps]
