"""The server's side: passes messages on, and unmasks the sum."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum

import numpy as np

from dpforest.errors import DPForestError
from strategies.messages import BadMessage
from strategies.method import Arrays, TooFewClients
from strategies.secure_aggregation import keys, wire
from strategies.secure_aggregation.terms import Terms
from strategies.secure_aggregation.wire import KEY, SELF

# Exchanges in a row without a sum after which a run ends: what is missing does not come back, and every sum that is
# asked for in vain has its price.
PATIENCE = 3


class Phase(Enum):
    """What the next exchange is for."""

    ADVERTISE = "advertise"
    SHARE = "share"
    MASK = "mask"
    UNMASK = "unmask"
    PRESENT = "present"
    DONE = "done"


@dataclass(frozen=True)
class Total:
    """A sum over clients.

    Parameters
    ----------
    values : ndarray of int64 of shape (n,)
    clients : tuple of int
        Whose vectors are in it.
    """

    values: np.ndarray
    clients: tuple[int, ...]


@dataclass(frozen=True)
class _Advert:
    public_key: np.ndarray  # (32,)
    round_keys: np.ndarray  # (rounds, 32)
    commitments: np.ndarray  # (rounds, 32)


class SumCollector:
    """Leads clients through the exchanges of a run.

    For each exchange, send `message` to all `participants`, and hand the replies that pass `check` to `receive`. After
    an exchange in which fewer clients answered than a sum needs, and where fewer are available, no vectors are asked
    for: the next exchange only asks who is there (`Phase.PRESENT`). After `PATIENCE` exchanges in vain the run ends.

    Parameters
    ----------
    terms : Terms
    length : int
        Of the vectors; may be set anew before each round.

    Attributes
    ----------
    phase : Phase
        What the next exchange is for.
    round : int
        That the next exchange belongs to, 1-based.
    ended : str or None
        Why the run ended before its last round; None if it did not.
    """

    def __init__(self, terms: Terms, length: int) -> None:
        self.terms = terms
        self.length = length
        self.phase = Phase.ADVERTISE
        self.round = 1
        self.ended: str | None = None
        self._in_vain = 0
        self._more_exchanges = 0
        self._adverts: dict[int, _Advert] = {}
        self._sealed: dict[int, dict[int, np.ndarray]] = {}  # by dealer and holder
        self._enrolled: set[int] = set()  # have the parts that they hold
        self._survivors: list[int] = []
        self._masked_sum = np.zeros(0, terms.field.dtype)

    @property
    def exchanges(self) -> int:
        """Of the whole run, as far as is known: two to agree on keys, two for each sum, and those that clients cost."""
        return 2 + 2 * self.terms.rounds + self._more_exchanges

    def is_enough(self, clients: Collection[int]) -> bool:
        """Whether the next exchange with these clients alone would not be in vain."""
        return self.phase in (Phase.UNMASK, Phase.DONE) or (
            sum(map(self._takes_part, clients)) >= self.terms.least_survivors
        )

    def participants(self, clients: list[int]) -> list[int]:
        """Which of the available clients the next exchange needs."""
        chosen = [client for client in clients if self._takes_part(client)]
        if self.phase is Phase.MASK and len(chosen) < self.terms.least_survivors:
            self._look_for_clients()
        return chosen

    def message(self, client: int) -> Arrays:
        """What to send to a participant."""
        if self.phase is Phase.SHARE:
            adverts = [self._adverts[member] for member in self._members]
            return {
                wire.MEMBERS: np.array(self._members, np.int64),
                wire.PUBLIC_KEYS: np.stack([advert.public_key for advert in adverts]),
                wire.ROUND_KEYS: np.stack([advert.round_keys for advert in adverts]),
            }
        if self.phase is Phase.MASK:
            content: dict[str, np.ndarray] = {wire.ROUND: np.array([self.round], np.int64)}
            if client not in self._enrolled:
                content[wire.ROSTER] = np.array(self._roster, np.int64)
                rows = [self._sealed[dealer][client] for _, dealer in self._held_by(client)]
                content[wire.SEALED] = np.stack(rows)
            return content
        if self.phase is Phase.UNMASK:
            return {
                wire.ROUND: np.array([self.round], np.int64),
                wire.SURVIVORS: np.array(self._survivors, np.int64),
            }
        return {}

    def check(self, client: int, reply: Arrays) -> None:
        """Raise unless a reply has the form that this exchange needs.

        Raises
        ------
        BadMessage
            It has not, or its sender takes no part in this exchange.
        """
        if not self._takes_part(client):
            raise BadMessage(f"client {client} takes no part in this exchange")
        rounds = self.terms.rounds
        if self.phase is Phase.ADVERTISE:
            wire.take(reply, wire.PUBLIC_KEY, np.uint8, (keys.KEY_BYTES,))
            wire.take(reply, wire.ROUND_KEYS, np.uint8, (rounds, keys.KEY_BYTES))
            wire.take(reply, wire.COMMITMENTS, np.uint8, (rounds, keys.KEY_BYTES))
        elif self.phase is Phase.SHARE:
            holders, _ = self.terms.ring(client, self._members)
            wire.take(reply, wire.SEALED, np.uint8, (len(holders), wire.sealed_bytes(self.terms)))
        elif self.phase is Phase.MASK:
            wire.take(reply, wire.MASKED, self.terms.field.dtype, (self.length,))
        elif self.phase is Phase.UNMASK:
            wire.take(reply, wire.PARTS, np.uint8, (len(self._held_by(client)), keys.SEED_BYTES))

    def receive(
        self, replies: Mapping[int, Arrays], check_total: Callable[[Total], None] = lambda total: None
    ) -> Total | None:
        """Take the replies of an exchange, and go on to the next one.

        Parameters
        ----------
        replies : mapping of int to (mapping of str to ndarray)
            By client; those that passed `check`.
        check_total : callable
            Raises a DPForestError for a sum that cannot be right; it counts as given up.

        Returns
        -------
        Total or None
            The sum, at the end of a round.

        Raises
        ------
        TooFewClients
            For this sum, which is then given up: the next exchange starts the next round, or asks who is there. While
            keys are agreed on, for any sum.
        DPForestError
            The sum is wrong, because a client sent wrong parts or values out of bounds; given up as well.
        BadMessage
            A reply does not pass `check`.
        """
        for client, reply in replies.items():
            self.check(client, reply)
        if self.phase is Phase.ADVERTISE:
            self._take_adverts(replies)
            return None
        if self.phase is Phase.SHARE:
            self._take_shares(replies)
            return None
        try:
            total = self._go_on(replies)
            if total is not None:
                check_total(total)
                self._in_vain = 0
        except (TooFewClients, DPForestError) as error:
            self._in_vain += 1
            if self._in_vain >= PATIENCE and self.phase is not Phase.DONE:
                self.phase = Phase.DONE
                self.ended = f"{self._in_vain} exchanges in a row came to no sum, the last because {error}"
            raise
        return total

    def _takes_part(self, client: int) -> bool:
        if self.phase is Phase.ADVERTISE:
            return True
        if self.phase is Phase.SHARE:
            return client in self._adverts
        if self.phase is Phase.UNMASK:
            return client in self._survivors
        return client in self._sealed and self.phase is not Phase.DONE

    def _take_adverts(self, replies: Mapping[int, Arrays]) -> None:
        self._require(len(replies))
        if len(replies) > self.terms.clients:
            raise DPForestError(f"{len(replies)} clients take part, but {self.terms.clients} are agreed on")
        self._adverts = {
            client: _Advert(reply[wire.PUBLIC_KEY], reply[wire.ROUND_KEYS], reply[wire.COMMITMENTS])
            for client, reply in sorted(replies.items())
        }
        self.phase = Phase.SHARE

    def _take_shares(self, replies: Mapping[int, Arrays]) -> None:
        self._require(len(replies))
        for client, reply in sorted(replies.items()):
            holders, _ = self.terms.ring(client, self._members)
            self._sealed[client] = dict(zip(holders, reply[wire.SEALED], strict=True))
        self.phase = Phase.MASK

    def _go_on(self, replies: Mapping[int, Arrays]) -> Total | None:
        """One step of a sum."""
        if self.phase is Phase.UNMASK:
            try:
                return self._unmasked(replies)
            finally:
                self._next_round(len(replies))
        if self.phase is Phase.MASK:
            self._enrolled.update(replies)
            if len(replies) < self.terms.least_survivors:
                self._more_exchanges -= 1  # nothing to unmask
                self._next_round(len(replies))
            self._require(len(replies))
            self._survivors = sorted(replies)
            self._masked_sum = np.zeros(self.length, self.terms.field.dtype)
            for reply in replies.values():
                self._masked_sum += reply[wire.MASKED]
            self.phase = Phase.UNMASK
        else:
            if len(replies) < self.terms.least_survivors:
                self._look_for_clients()
            self._require(len(replies))
            self.phase = Phase.MASK
        return None

    @property
    def _members(self) -> list[int]:
        return list(self._adverts)

    @property
    def _roster(self) -> list[int]:
        return list(self._sealed)

    def _held_by(self, client: int) -> list[tuple[int, int]]:
        """Index of the part, and dealer, of what a client holds."""
        _, dealers = self.terms.ring(client, self._members)
        return [(index, dealer) for index, dealer in enumerate(dealers, 1) if dealer in self._sealed]

    def _require(self, clients: int) -> None:
        least = self.terms.least_survivors
        if clients < least:
            raise TooFewClients(
                f"{clients} clients answered; a secure sum over {self.terms.clients} with at most "
                f"{self.terms.dropouts} dropouts needs {least}"
            )

    def _next_round(self, answered: int) -> None:
        self.round += 1
        self.phase = Phase.MASK if self.round <= self.terms.rounds else Phase.DONE
        if self.phase is Phase.MASK and answered < self.terms.least_survivors:
            self._look_for_clients()

    def _look_for_clients(self) -> None:
        self.phase = Phase.PRESENT
        self._more_exchanges += 1

    def _unmasked(self, replies: Mapping[int, Arrays]) -> Total:
        seeds = self._restored(replies)
        members = np.array(self._members, np.int64)
        setup = wire.setup_digest(
            self.terms,
            members,
            np.stack([advert.public_key for advert in self._adverts.values()]),
            np.stack([advert.round_keys for advert in self._adverts.values()]),
        )
        roster = wire.roster_digest(setup, np.array(self._roster, np.int64))
        total, add = self._masked_sum, self.terms.field.add_mask
        for client, seed in seeds.items():
            if client in self._survivors:
                add(total, wire.self_mask(seed, roster, self.round, client), -1)
                continue
            private = keys.round_key(seed)
            for peer in self._survivors:
                theirs = self._adverts[peer].round_keys[self.round - 1].tobytes()
                key = wire.pair_mask(private, theirs, roster, self.round, peer, client)
                add(total, key, -wire.pair_sign(peer, client))
        values = self.terms.field.decode(total)
        bound = self.terms.largest_value * len(self._survivors)
        if values.size and (int(values.max()) > bound or int(values.min()) < -bound):
            raise DPForestError(
                f"the sum of round {self.round} exceeds +-{bound}; a client sent values beyond the agreed "
                f"+-{self.terms.largest_value} or holds other keys"
            )
        return Total(values, tuple(self._survivors))

    def _restored(self, replies: Mapping[int, Arrays]) -> dict[int, bytes]:
        """The seed of each client of the roster: of its self mask if it survived, else of its round key."""
        parts: dict[int, dict[int, bytes]] = {client: {} for client in self._roster}
        for holder, reply in replies.items():
            for (index, dealer), part in zip(self._held_by(holder), reply[wire.PARTS], strict=True):
                parts[dealer][index] = part.tobytes()
        seeds = {}
        for client, known in parts.items():
            if len(known) < self.terms.threshold:
                raise TooFewClients(
                    f"{len(replies)} clients helped to unmask, and {len(known)} of them hold parts for client "
                    f"{client}; {self.terms.threshold} are needed"
                )
            seeds[client] = keys.restore(known, self.terms.threshold)
            if not self._is_right(client, SELF if client in self._survivors else KEY, seeds[client]):
                raise DPForestError(f"the parts returned for client {client} restore a wrong secret; the sum is lost")
        return seeds

    def _is_right(self, client: int, kind: int, seed: bytes) -> bool:
        advert, at = self._adverts[client], self.round - 1
        if kind == SELF:
            return keys.commitment(seed) == advert.commitments[at].tobytes()
        return keys.public_key(keys.round_key(seed)) == advert.round_keys[at].tobytes()
