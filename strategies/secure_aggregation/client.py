"""A client's side: it answers the server only as far as its vector stays secret."""

from __future__ import annotations

import io
import os

import numpy as np

from dpforest.errors import DPForestError
from strategies.method import Arrays
from strategies.secure_aggregation import keys, wire
from strategies.secure_aggregation.terms import Terms
from strategies.secure_aggregation.wire import KEY, SELF

_ARRAYS = ("private_key", "seeds", "members", "public_keys", "round_keys", "roster", "held")


class Refused(DPForestError):
    """The server asks for what could uncover a vector, or for what the protocol does not foresee."""


class SecureSummer:
    """Masks a client's vectors, and helps to unmask their sums.

    Call `advertise`, `share`, and then `mask` and `unmask` in turn, each with the server's message. The state has to
    survive between messages: save `to_bytes` after each call, before the reply leaves, since a client that forgot
    that it masked a round could be brought to mask two vectors in the same way. Arrays of a message that are not
    named ``secure.*`` are left to the caller.

    Parameters
    ----------
    client : int
        Own number.
    terms : Terms
        From the client's own settings, not from the server.
    """

    def __init__(self, client: int, terms: Terms) -> None:
        self.client = client
        self.terms = terms
        self.round = 0  # masked last
        self.answered = True  # whether this round may no longer be unmasked
        self.private_key = wire.to_array(os.urandom(keys.KEY_BYTES))
        self.seeds = wire.to_array(
            os.urandom(terms.rounds * 2 * keys.SEED_BYTES), terms.rounds, 2, keys.SEED_BYTES
        ).copy()
        self.members = np.zeros(0, np.int64)
        self.public_keys = np.zeros((0, keys.KEY_BYTES), np.uint8)
        self.round_keys = np.zeros((0, terms.rounds, keys.KEY_BYTES), np.uint8)
        self.roster = np.zeros(0, np.int64)
        self.held = np.zeros((0, terms.rounds, 2, keys.SEED_BYTES), np.uint8)

    def to_bytes(self) -> bytes:
        """The whole state, secrets included; for the client's own keeping."""
        file = io.BytesIO()
        counters = np.array([self.client, self.round, self.answered], np.int64)
        np.savez(file, counters=counters, **{name: getattr(self, name) for name in _ARRAYS})
        return file.getvalue()

    @classmethod
    def from_bytes(cls, state: bytes, terms: Terms) -> SecureSummer:
        """The client as it was when `to_bytes` was called."""
        with np.load(io.BytesIO(state), allow_pickle=False) as saved:
            client, round_, answered = saved["counters"].tolist()
            summer = cls(client, terms)
            summer.round, summer.answered = round_, bool(answered)
            for name in _ARRAYS:
                setattr(summer, name, saved[name])
        return summer

    def advertise(self) -> Arrays:
        """First exchange: public keys, and commitments to the seeds of the self masks."""
        return {
            wire.PUBLIC_KEY: wire.to_array(keys.public_key(self.private_key.tobytes())),
            wire.ROUND_KEYS: self._own_round_keys(),
            wire.COMMITMENTS: np.stack([wire.to_array(keys.commitment(pair[SELF].tobytes())) for pair in self.seeds]),
        }

    def share(self, message: Arrays) -> Arrays:
        """Second exchange: sealed parts of all secrets, one row for each holder.

        Raises
        ------
        Refused
            Second request; own keys replaced, a key given twice, or too few clients.
        BadMessage
            The message is malformed.
        BadKey
            A public key is unusable.
        """
        if self.members.size:
            raise Refused("the secrets were shared already; start the run anew to share new ones")
        members = wire.take_clients(message, wire.MEMBERS)
        m, rounds = len(members), self.terms.rounds
        public_keys = wire.take(message, wire.PUBLIC_KEYS, np.uint8, (m, keys.KEY_BYTES))
        round_keys = wire.take(message, wire.ROUND_KEYS, np.uint8, (m, rounds, keys.KEY_BYTES))
        self._check_enough(members, "members")
        own = members == self.client
        if (
            public_keys[own].tobytes() != keys.public_key(self.private_key.tobytes())
            or round_keys[own].tobytes() != self._own_round_keys().tobytes()
        ):
            raise Refused(f"the keys given out for client {self.client} are not its own; someone replaced them")
        if len(np.unique(public_keys, axis=0)) < m:
            raise Refused("two clients have the same public key; one of them repeats the other's message")

        setup = wire.setup_digest(self.terms, members, public_keys, round_keys)
        holders, _ = self.terms.ring(self.client, members.tolist())
        parts = np.empty((len(holders), rounds, 2, keys.SEED_BYTES), np.uint8)
        for r in range(rounds):
            for kind in (SELF, KEY):
                split = keys.split(self.seeds[r, kind].tobytes(), self.terms.threshold, len(holders))
                parts[:, r, kind] = wire.to_array(b"".join(split), len(holders), keys.SEED_BYTES)
        sealed = [
            keys.seal(
                self._seal_key(setup, public_keys[members == holder].tobytes()),
                part.tobytes(),
                wire.seal_context(setup, self.client, holder),
            )
            for holder, part in zip(holders, parts, strict=True)
        ]
        self.members, self.public_keys, self.round_keys = members, public_keys, round_keys
        return {wire.SEALED: wire.to_array(b"".join(sealed), len(holders), -1)}

    def mask(self, message: Arrays, vector: np.ndarray) -> Arrays:
        """The vector of a round, masked.

        Parameters
        ----------
        message : mapping of str to ndarray
        vector : ndarray of int of shape (n,)
            At most ``terms.largest_value`` in absolute value; any length, the same for all clients.

        Raises
        ------
        Refused
            A round that is over or not foreseen, another roster than before, or one that is too small.
        BadKey
            The parts of another client's secrets were altered.
        DPForestError
            The vector is not of integers, or a value exceeds the bound.
        BadMessage
            The message is malformed.
        """
        round_ = int(wire.take(message, wire.ROUND, np.int64, (1,))[0])
        if not self.round < round_ <= self.terms.rounds:
            raise Refused(
                f"asked to mask round {round_} after round {self.round} of {self.terms.rounds}; each is masked once"
            )
        if not self.roster.size:
            self._enrol(message)
        elif wire.ROSTER in message and not np.array_equal(message[wire.ROSTER], self.roster):
            raise Refused("the clients of the run cannot change after its first sum")
        masked = self._masked(round_, self._checked(vector))
        self.round, self.answered = round_, False
        self.seeds[:round_] = 0
        self.held[:, : round_ - 1] = 0
        return {wire.MASKED: masked}

    def unmask(self, message: Arrays) -> Arrays:
        """One part per client whose parts this client holds: of the self mask of a survivor, else of the round key.

        Raises
        ------
        Refused
            Another round than the one masked last, a second request for it, or survivors that are too few, not of
            this run, or without this client.
        BadMessage
            The message is malformed.
        """
        round_ = int(wire.take(message, wire.ROUND, np.int64, (1,))[0])
        if round_ != self.round or self.answered:
            raise Refused(f"asked to unmask round {round_}, but only round {self.round} may be, and only once")
        survivors = wire.take_clients(message, wire.SURVIVORS)
        self._check_enough(survivors, "survivors")
        if not np.isin(survivors, self.roster).all():
            raise Refused(f"survivors {np.setdiff1d(survivors, self.roster).tolist()} are no clients of this run")
        _, dealers = self.terms.ring(self.client, self.members.tolist())
        parts = [
            self.held[row, round_ - 1, SELF if dealer in survivors else KEY]
            for row, dealer in enumerate(dealers)
            if dealer in self.roster
        ]
        reply = {wire.PARTS: np.stack(parts)}
        self.answered = True
        self.held[:, :round_] = 0
        return reply

    def _own_round_keys(self) -> np.ndarray:
        private = (keys.round_key(pair[KEY].tobytes()) for pair in self.seeds)
        return np.stack([wire.to_array(keys.public_key(key)) for key in private])

    def _seal_key(self, setup: bytes, other: bytes) -> bytes:
        return keys.derive(keys.agree(self.private_key.tobytes(), other), setup, "seal")

    def _check_enough(self, clients: np.ndarray, role: str) -> None:
        least = self.terms.least_survivors
        if not least <= len(clients) <= self.terms.clients:
            raise Refused(f"{len(clients)} {role}; a sum takes {least} to {self.terms.clients} clients")
        if self.client not in clients:
            raise Refused(f"client {self.client} is not among the {role}, and helps no sum without itself")

    def _enrol(self, message: Arrays) -> None:
        """Take the final list of clients, and open the parts of their secrets."""
        if not self.members.size:
            raise Refused("no secrets were shared yet")
        roster = wire.take_clients(message, wire.ROSTER)
        self._check_enough(roster, "clients")
        if not np.isin(roster, self.members).all():
            raise Refused(f"clients {np.setdiff1d(roster, self.members).tolist()} advertised no keys")
        _, dealers = self.terms.ring(self.client, self.members.tolist())
        present = [(row, dealer) for row, dealer in enumerate(dealers) if dealer in roster]
        shape = (len(present), wire.sealed_bytes(self.terms))
        sealed = wire.take(message, wire.SEALED, np.uint8, shape)
        setup = wire.setup_digest(self.terms, self.members, self.public_keys, self.round_keys)
        held = np.zeros((len(dealers), self.terms.rounds, 2, keys.SEED_BYTES), np.uint8)
        for (row, dealer), box in zip(present, sealed, strict=True):
            key = self._seal_key(setup, self.public_keys[self.members == dealer].tobytes())
            content = keys.unseal(key, box.tobytes(), wire.seal_context(setup, dealer, self.client))
            held[row] = wire.to_array(content, *held.shape[1:])
        self.roster, self.held = roster, held

    def _checked(self, vector: np.ndarray) -> np.ndarray:
        largest = self.terms.largest_value
        if vector.ndim != 1 or vector.dtype.kind not in "iu":
            raise DPForestError(
                f"a vector of {vector.dtype} with {vector.ndim} axes cannot be masked; scale and round it to integers"
            )
        if vector.size and (int(vector.max()) > largest or int(vector.min()) < -largest):
            raise DPForestError(
                f"values of {vector.min()} to {vector.max()} exceed the agreed +-{largest}; clip them or agree on more"
            )
        return vector

    def _masked(self, round_: int, vector: np.ndarray) -> np.ndarray:
        setup = wire.setup_digest(self.terms, self.members, self.public_keys, self.round_keys)
        salt = wire.roster_digest(setup, self.roster)
        masked = self.terms.field.encode(vector)
        add = self.terms.field.add_mask
        own = self.seeds[round_ - 1, SELF].tobytes()
        add(masked, wire.self_mask(own, salt, round_, self.client), 1)
        private = keys.round_key(self.seeds[round_ - 1, KEY].tobytes())
        for peer, theirs in zip(self.members.tolist(), self.round_keys[:, round_ - 1], strict=True):
            if peer != self.client and peer in self.roster:
                key = wire.pair_mask(private, theirs.tobytes(), salt, round_, self.client, peer)
                add(masked, key, wire.pair_sign(self.client, peer))
        return masked
