"""A client's side: it answers the server only as far as its vector stays secret."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence

import numpy as np

from dpforest.errors import DPForestError
from strategies.messages import Declined
from strategies.method import Arrays
from strategies.secure_aggregation import fellows, keys, wire
from strategies.secure_aggregation.fellows import Identity
from strategies.secure_aggregation.terms import Terms
from strategies.secure_aggregation.wire import KEY, SELF, Attempt

_ARRAYS = (
    "private_key", "seeds", "members", "known", "setup", "public_keys", "round_keys", "roster", "held", "opened",
    "vector", "release", "identities", "accepted", "signed",
)  # fmt: skip


class Refused(Declined):
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
    identity : Identity, optional
        To sign with, and whom to accept; without it the server is trusted to follow the protocol.
    """

    def __init__(self, client: int, terms: Terms, identity: Identity | None = None) -> None:
        self.client = client
        self.terms = terms
        self.identity = identity
        self.attempt = Attempt()  # masked last
        self.answered = True  # whether it may no longer be unmasked
        self.private_key = wire.to_array(os.urandom(keys.KEY_BYTES))
        self.seeds = wire.to_array(
            os.urandom(terms.secrets * 2 * keys.SEED_BYTES), terms.secrets, 2, keys.SEED_BYTES
        ).copy()
        self.members = np.zeros(0, np.int64)
        self.known = np.zeros(0, np.int64)  # whose keys these are: all members, or those on its part of the circle
        self.setup = np.zeros(0, np.uint8)
        self.public_keys = np.zeros((0, keys.KEY_BYTES), np.uint8)
        self.round_keys = np.zeros((0, terms.secrets, keys.KEY_BYTES), np.uint8)
        self.roster = np.zeros(0, np.int64)
        self.held = np.zeros((0, terms.secrets, 2, keys.SEED_BYTES), np.uint8)
        self.opened = np.zeros((0, keys.KEY_BYTES), np.uint8)  # what was found in each seal; zeros: it did not open
        self.vector = np.zeros(0, np.int64)  # that may have to be masked anew
        self.release = wire.release_digest("")  # what that is
        self.identities = np.zeros((0, fellows.PUBLIC_BYTES), np.uint8)  # of all members, where any has one
        self.accepted = np.zeros(0, np.bool_)  # which members are fellows whose keys are known to be theirs
        self.signed = np.zeros(0, np.int64)  # survivors of the attempt that it has signed

    def to_bytes(self) -> bytes:
        """The whole state, secrets included; for the client's own keeping."""
        file = io.BytesIO()
        counters = np.array([self.client, self.attempt.round, self.attempt.again, self.answered], np.int64)
        np.savez(file, counters=counters, **{name: getattr(self, name) for name in _ARRAYS})
        return file.getvalue()

    @classmethod
    def from_bytes(cls, state: bytes, terms: Terms, identity: Identity | None = None) -> SecureSummer:
        """The client as it was when `to_bytes` was called."""
        with np.load(io.BytesIO(state), allow_pickle=False) as saved:
            client, round_, again, answered = saved["counters"].tolist()
            summer = cls(client, terms, identity)
            summer.attempt, summer.answered = Attempt(round_, again), bool(answered)
            for name in _ARRAYS:
                setattr(summer, name, saved[name])
        return summer

    def advertise(self, message: Arrays) -> Arrays:
        """First exchange: public keys, proofs that they are its own, and commitments to the seeds of the self masks.

        Raises
        ------
        BadMessage
            The message is malformed.
        BadKey
            The key in it has small order.
        """
        challenge = wire.take(message, wire.CHALLENGE, np.uint8, (keys.KEY_BYTES,)).tobytes()
        private = [self.private_key.tobytes(), *self._private_round_keys()]
        proofs = [
            keys.possession(key, challenge, wire.possession_place(self.client, at)) for at, key in enumerate(private)
        ]
        advert: dict[str, np.ndarray] = {
            wire.PUBLIC_KEY: wire.to_array(keys.public_key(self.private_key.tobytes())),
            wire.ROUND_KEYS: self.own_round_keys(),
            wire.POSSESSION: wire.to_array(b"".join(proofs), len(proofs), -1),
            wire.COMMITMENTS: np.stack([wire.to_array(keys.commitment(pair[SELF].tobytes())) for pair in self.seeds]),
        }
        if self.identity is None:
            return advert
        of_keys = wire.key_hashes(advert[wire.PUBLIC_KEY][None], advert[wire.ROUND_KEYS][None])
        return advert | {
            wire.IDENTITY: self.identity.public,
            wire.ABOUT: wire.to_array(self.identity.about),
            wire.SIGNATURE: self.identity.sign(fellows.KEYS, self.client, of_keys),
        }

    def share(self, message: Arrays) -> Arrays:
        """Second exchange: sealed parts of all secrets, one row for each holder, and the hashes of these parts.

        Raises
        ------
        Refused
            Second request; own keys replaced, a key given twice, too few clients, or too few that its owner knows.
        BadMessage
            The message is malformed.
        BadKey
            A public key is unusable.
        """
        if self.members.size:
            raise Refused("the secrets were shared already; start the run anew to share new ones")
        members = wire.take_clients(message, wire.MEMBERS)
        known = members if self.terms.circle is None else wire.take_clients(message, wire.KNOWN)
        m, secrets = len(known), self.terms.secrets
        public_keys = wire.take(message, wire.PUBLIC_KEYS, np.uint8, (m, keys.KEY_BYTES))
        round_keys = wire.take(message, wire.ROUND_KEYS, np.uint8, (m, secrets, keys.KEY_BYTES))
        self._check_enough(members, "members")
        own = known == self.client
        if (
            public_keys[own].tobytes() != keys.public_key(self.private_key.tobytes())
            or round_keys[own].tobytes() != self.own_round_keys().tobytes()
        ):
            raise Refused(f"the keys given out for client {self.client} are not its own; someone replaced them")
        if len(np.unique(public_keys, axis=0)) < m:
            raise Refused("two clients have the same public key; one of them repeats the other's message")

        of_keys = wire.key_hashes(public_keys, round_keys)
        if self.terms.circle is not None:
            of_keys = self._checked_hashes(message, members, known, of_keys)
        identities = self._checked_identities(message, members, of_keys)
        setup = wire.setup_digest(self.terms, members, of_keys, identities)
        arranged = wire.arranged(self.terms, members.tolist(), setup)
        if known.tolist() != sorted([self.client, *self.terms.partners(self.client, arranged)]):
            raise Refused("the keys given out are not those of the clients that it shares masks with")
        holders, _ = self.terms.ring(self.client, arranged)
        parts = np.empty((len(holders), secrets, 2, keys.SEED_BYTES), np.uint8)
        for r in range(secrets):
            for kind in (SELF, KEY):
                split = keys.split(self.seeds[r, kind].tobytes(), self.terms.threshold, len(holders))
                parts[:, r, kind] = wire.to_array(b"".join(split), len(holders), keys.SEED_BYTES)
        sealed = [
            keys.seal(
                self._seal_key(setup, public_keys[known == holder].tobytes()),
                part.tobytes(),
                wire.seal_context(setup, self.client, holder),
            )
            for holder, part in zip(holders, parts, strict=True)
        ]
        self.members, self.known, self.setup = members, known, wire.to_array(setup)
        self.public_keys, self.round_keys = public_keys, round_keys
        hashes = [wire.part_hashes(part, self.client, holder) for holder, part in zip(holders, parts, strict=True)]
        reply = {wire.SEALED: wire.to_array(b"".join(sealed), len(holders), -1), wire.PART_HASHES: np.stack(hashes)}
        if self.identity is None:
            return reply
        return {**reply, wire.SIGNATURE: self.identity.sign(fellows.SETUP, self.client, setup)}

    def admit(self, message: Arrays) -> Attempt:
        """See that a mask request may be answered, before a vector is made for it; raises as `mask`."""
        attempt = wire.take_attempt(message)
        if attempt.again or not self.attempt.round < attempt.round <= self.terms.rounds:
            raise Refused(
                f"asked to mask round {attempt.round} after round {self.attempt.round} of {self.terms.rounds}; "
                "each is masked once"
            )
        self._take_roster(message)
        return attempt

    def mask(self, message: Arrays, vector: np.ndarray, what: str = "") -> Arrays:
        """The vector of a round, masked.

        Parameters
        ----------
        message : mapping of str to ndarray
        vector : ndarray of int of shape (n,)
            At most ``terms.largest_value`` in absolute value; any length, the same for all clients.
        what : str
            Ledger line under which the vector was noised: masks cancel among vectors of the same alone.

        Raises
        ------
        Refused
            A round that is over or not foreseen, clients that were not of the run before, too few of them, or too few
            that its owner knows.
        BadKey
            The seals of more clients do not open than may lie.
        DPForestError
            The vector is not of integers, or a value exceeds the bound.
        BadMessage
            The message is malformed.
        """
        attempt = self.admit(message)
        vector, self.release = self._checked(vector), wire.release_digest(what)
        reply = {wire.MASKED: self._masked(attempt, vector)}
        return {**reply, wire.OPENED: self.opened} if wire.SEALED in message else reply

    def mask_again(self, message: Arrays) -> Arrays:
        """The vector that was masked last, under fresh masks, since a client whose masks could not go has to go.

        Raises
        ------
        Refused
            Its first masks may be off already, or nobody has gone.
        BadMessage
            The message is malformed.
        """
        attempt = wire.take_attempt(message)
        if attempt != Attempt(self.attempt.round, 1) or self.attempt.again or self.answered or not self.terms.dropouts:
            raise Refused(
                f"asked to mask round {attempt.round} again, but only round {self.attempt.round} may be, and only once"
            )
        before = len(self.roster)
        self._take_roster(message)
        if len(self.roster) == before:
            raise Refused("asked to mask again for the same clients")
        return {wire.MASKED: self._masked(attempt, self.vector)}

    def confirm(self, message: Arrays) -> Arrays:
        """A signature on the survivors, once an attempt; raises as `unmask`."""
        attempt, survivors = self._taken_survivors(message)
        if self.identity is None:
            raise Refused("this client has no key to sign survivors with")
        if self.signed.size:
            raise Refused(f"the survivors of round {attempt.round} were signed already, and are once")
        self.signed = survivors
        return {wire.SIGNATURE: self.identity.sign(fellows.SURVIVORS, self.client, *self._of_survivors(attempt))}

    def unmask(self, message: Arrays) -> Arrays:
        """One part per client whose parts this client holds: of the self mask of a survivor, else of the round key.

        Raises
        ------
        Refused
            Another attempt than the one masked last, a second request for it, or survivors that are too few, not of
            this run, without this client, or not those that clients enough have signed.
        BadMessage
            The message is malformed.
        """
        attempt, survivors = self._taken_survivors(message)
        if self.identity is not None and wire.can_confirm(self.terms, self.identities):
            self._check_confirmed(message, attempt, survivors)
        _, dealers = self.terms.ring(self.client, self._arranged())
        parts = [
            self.held[row, attempt.secret(self.terms), SELF if dealer in survivors else KEY]
            for row, dealer in enumerate(dealers)
            if dealer in self.roster
        ]
        reply = {wire.PARTS: np.stack(parts)}
        self.answered = True
        done = attempt.round * self.terms.attempts
        self.seeds[:done] = 0
        self.held[:, :done] = 0
        self.vector = np.zeros(0, np.int64)
        return reply

    def _taken_survivors(self, message: Arrays) -> tuple[Attempt, np.ndarray]:
        attempt = wire.take_attempt(message)
        if attempt != self.attempt or self.answered:
            raise Refused(
                f"asked to unmask round {attempt.round}, but only round {self.attempt.round} may be, and only once"
            )
        survivors = wire.take_clients(message, wire.SURVIVORS)
        self._check_enough(survivors, "survivors")
        if not np.isin(survivors, self.roster).all():
            raise Refused(f"survivors {np.setdiff1d(survivors, self.roster).tolist()} are no clients of this run")
        self._check_fellows(survivors)
        if self.terms.circle is not None:
            _, dealers = self.terms.ring(self.client, self._arranged())
            present = np.intersect1d(dealers, self.roster)
            if len(np.setdiff1d(present, survivors)) > self.terms.most_failing:
                raise Refused("the survivors lack so many of its neighbours that their sum could not be unmasked")
        return attempt, survivors

    def _of_survivors(self, attempt: Attempt) -> tuple[bytes, ...]:
        return wire.survivors_parts(self.setup.tobytes(), attempt, self.roster, self.signed)

    def _check_confirmed(self, message: Arrays, attempt: Attempt, survivors: np.ndarray) -> None:
        """Return parts only for survivors that too many clients have signed for any other to be signed as well."""
        assert self.identity is not None
        if not np.array_equal(survivors, self.signed):
            raise Refused("the survivors are not those that this client has signed")
        signers = wire.take_clients(message, wire.SIGNERS)
        shape = (len(signers), fellows.SIGNATURE_BYTES)
        signatures, parts = wire.take(message, wire.SIGNATURES, np.uint8, shape), self._of_survivors(attempt)
        identity_of = dict(zip(self.members.tolist(), self.identities, strict=True))
        sound = 0
        for signer, signature in zip(signers.tolist(), signatures, strict=True):
            said = fellows.statement(fellows.SURVIVORS, signer, self.identity.about, *parts)
            sound += fellows.is_signed(identity_of.get(signer, fellows.NOBODY), signature, said)
            if sound >= self.terms.quorum:
                return
        raise Refused(f"{sound} clients have signed these survivors; {self.terms.quorum} are needed")

    def _checked_identities(self, message: Arrays, members: np.ndarray, hashes: np.ndarray) -> np.ndarray:
        """Identities of all members, none where nobody has one; takes which of them are accepted."""
        if wire.IDENTITIES not in message:
            identities = np.zeros((0, fellows.PUBLIC_BYTES), np.uint8)
        else:
            identities = wire.take(message, wire.IDENTITIES, np.uint8, (len(members), fellows.PUBLIC_BYTES))
            if fellows.one_signs_twice(identities):
                raise Refused("two clients sign with the same key; each owner makes a key of its own")
        if self.identity is None:
            return identities
        if not len(identities) or not np.array_equal(identities[members == self.client][0], self.identity.public):
            raise Refused(f"the identity given out for client {self.client} is not its own; someone replaced it")
        self.identities = identities
        if self.identity.accepted is None:
            return identities
        signatures = wire.take(message, wire.SIGNATURES, np.uint8, (len(members), fellows.SIGNATURE_BYTES))
        signed = self._signed_by(members, signatures, fellows.KEYS, list(hashes))
        self.accepted = np.array([self.identity.accepts(key) for key in identities]) & signed
        self.check_terms()
        self._check_fellows(members, members)
        return identities

    def _signed_by(
        self, members: np.ndarray, signatures: np.ndarray, what: str, of_each: Sequence[bytes | np.ndarray]
    ) -> np.ndarray:
        """Which of all members have signed what is said of each."""
        assert self.identity is not None
        about = self.identity.about
        signed = [
            fellows.is_signed(key, signature, fellows.statement(what, member, about, said))
            for member, key, signature, said in zip(members.tolist(), self.identities, signatures, of_each, strict=True)
        ]
        return np.array(signed, np.bool_)

    def check_terms(self) -> None:
        """Refuse terms under which a server that deviates could learn more than one that does not."""
        terms = self.terms
        if terms.dropouts and not wire.can_confirm(terms, self.identities):
            raise Refused(f"too few clients have keys to sign survivors with: {terms.quorum} are needed")
        if terms.circle is not None and terms.dropouts + terms.colluders >= terms.circle.neighbours:
            raise Refused(
                f"with {terms.dropouts} dropouts and {terms.colluders} colluders a server could cut the circle of "
                f"clients, in which each has {terms.circle.neighbours} neighbours: allow fewer"
            )

    def _check_fellows(self, clients: np.ndarray, members: np.ndarray | None = None) -> None:
        """Refuse clients of which too many, or too few, are those that its owner knows."""
        if self.identity is None or self.identity.accepted is None:
            return
        members = self.members if members is None else members
        known = int((np.isin(members, clients) & self.accepted & (members != self.client)).sum())
        unknown = len(clients) - 1 - known
        if unknown > self.terms.colluders:
            raise Refused(
                f"this node does not know {unknown} of the other {len(clients) - 1} clients by their keys: its owner "
                f"can list them in fellows, and strategy.colluders says how many may be unknown"
            )
        if known < self.identity.least:
            raise Refused(
                f"this node knows {known} of the other {len(clients) - 1} clients by their keys, and its owner wants "
                f"min-fellows {self.identity.least}"
            )

    def _arranged(self) -> list[int]:
        return wire.arranged(self.terms, self.members.tolist(), self.setup.tobytes())

    def _checked_hashes(
        self, message: Arrays, members: np.ndarray, known: np.ndarray, hashes: np.ndarray
    ) -> np.ndarray:
        """Hashes of all members' keys, of which it was shown but some, ``known`` with those ``hashes``."""
        of_all = wire.take(message, wire.KEY_HASHES, np.uint8, (len(members), keys.KEY_BYTES))
        at = np.flatnonzero(np.isin(members, known))
        if len(at) < len(known) or not np.array_equal(of_all[at], hashes):
            raise Refused("the keys given out are not those of the hashes of all members' keys")
        return of_all

    def _private_round_keys(self) -> list[bytes]:
        return [keys.round_key(pair[KEY].tobytes()) for pair in self.seeds]

    def own_round_keys(self) -> np.ndarray:
        return np.stack([wire.to_array(keys.public_key(key)) for key in self._private_round_keys()])

    def _seal_key(self, setup: bytes, other: bytes) -> bytes:
        return keys.derive(keys.agree(self.private_key.tobytes(), other), setup, "seal")

    def _check_enough(self, clients: np.ndarray, role: str) -> None:
        least = self.terms.least_survivors
        if not least <= len(clients) <= self.terms.clients:
            raise Refused(f"{len(clients)} {role}; a sum takes {least} to {self.terms.clients} clients")
        if self.client not in clients:
            raise Refused(f"client {self.client} is not among the {role}, and helps no sum without itself")

    def _take_roster(self, message: Arrays) -> None:
        """Take the clients that share masks; the first time, also open the parts of their secrets."""
        if self.roster.size and wire.ROSTER not in message:
            return
        if not self.members.size:
            raise Refused("no secrets were shared yet")
        roster = wire.take_clients(message, wire.ROSTER)
        self._check_enough(roster, "clients")
        known = self.roster if self.roster.size else self.members
        if not np.isin(roster, known).all():
            raise Refused(f"clients {np.setdiff1d(roster, known).tolist()} gave no keys, or are out of the run")
        if not self.roster.size:
            self._take_agreements(message, roster)
        self._check_fellows(roster)
        if not self.roster.size:
            self._open_seals(message, roster)
        self.roster = roster

    def _take_agreements(self, message: Arrays, roster: np.ndarray) -> None:
        """See which fellows have this client's own setup: only such are any."""
        if self.identity is None or self.identity.accepted is None:
            return
        signatures = np.zeros((len(self.members), fellows.SIGNATURE_BYTES), np.uint8)
        shape = (len(roster), fellows.SIGNATURE_BYTES)
        signatures[np.isin(self.members, roster)] = wire.take(message, wire.SIGNATURES, np.uint8, shape)
        setups = [self.setup.tobytes()] * len(self.members)
        self.accepted = self.accepted & self._signed_by(self.members, signatures, fellows.SETUP, setups)

    def _open_seals(self, message: Arrays, roster: np.ndarray) -> None:
        _, dealers = self.terms.ring(self.client, self._arranged())
        present = [(row, dealer) for row, dealer in enumerate(dealers) if dealer in roster]
        shape = (len(present), wire.sealed_bytes(self.terms))
        sealed = wire.take(message, wire.SEALED, np.uint8, shape)
        setup = self.setup.tobytes()
        held = np.zeros((len(dealers), self.terms.secrets, 2, keys.SEED_BYTES), np.uint8)
        opened = np.zeros((len(dealers), keys.KEY_BYTES), np.uint8)
        errors = []
        for (row, dealer), box in zip(present, sealed, strict=True):
            try:
                key = self._seal_key(setup, self.public_keys[self.known == dealer].tobytes())
                content = keys.unseal(key, box.tobytes(), wire.seal_context(setup, dealer, self.client))
            except keys.BadKey as error:
                errors.append(error)
                continue
            held[row] = wire.to_array(content, *held.shape[1:])
            opened[row] = wire.opened_digest(wire.part_hashes(held[row], dealer, self.client))
        # So many clients cannot lie: the server or this client has other keys or terms than the rest.
        if len(errors) > self.terms.most_failing:
            raise errors[0]
        self.held, self.opened = held, opened

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

    def _masked(self, attempt: Attempt, vector: np.ndarray) -> np.ndarray:
        salt = wire.mask_salt(self.setup.tobytes(), self.roster, attempt, self.release)
        masked = self.terms.field.encode(vector)
        add = self.terms.field.add_mask
        own = self.seeds[attempt.secret(self.terms), SELF].tobytes()
        add(masked, wire.self_mask(own, salt, self.client), 1)
        private = keys.round_key(self.seeds[attempt.secret(self.terms), KEY].tobytes())
        for peer, theirs in zip(self.known.tolist(), self.round_keys[:, attempt.secret(self.terms)], strict=True):
            if peer != self.client and peer in self.roster:
                key = wire.pair_mask(private, theirs.tobytes(), salt, self.client, peer)
                add(masked, key, wire.pair_sign(self.client, peer))
        self.attempt, self.answered = attempt, False
        self.signed = np.zeros(0, np.int64)
        self.seeds[: attempt.secret(self.terms) + 1] = 0
        self.held[:, : attempt.secret(self.terms)] = 0
        if self.terms.dropouts:  # else nobody can go
            self.vector = vector
        return masked
