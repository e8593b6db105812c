"""The server's side: passes messages on, and unmasks the sum."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum

import numpy as np

from dpforest.errors import DPForestError
from strategies.messages import BadMessage
from strategies.method import Arrays, TooFewClients
from strategies.secure_aggregation import fellows, keys, wire
from strategies.secure_aggregation.terms import Terms
from strategies.secure_aggregation.wire import KEY, SELF, Attempt

# Exchanges in a row without a sum after which a run ends: what is missing does not come back, and every sum that is
# asked for in vain has its price.
PATIENCE = 3


class Phase(Enum):
    """What the next exchange is for."""

    ADVERTISE = "advertise"
    SHARE = "share"
    MASK = "mask"
    MASK_AGAIN = "mask again"
    CONFIRM = "confirm"
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
    round_keys: np.ndarray  # (secrets, 32)
    commitments: np.ndarray  # (secrets, 32)
    identity: np.ndarray | None = None  # (160,), where the client signs, and then also:
    about: bytes = b""
    signature: np.ndarray | None = None  # (144,)

    @classmethod
    def of(cls, reply: Arrays, secrets: int) -> _Advert:
        """Read it; raises `BadMessage`."""
        size = keys.KEY_BYTES
        advert = (
            wire.take(reply, wire.PUBLIC_KEY, np.uint8, (size,)),
            wire.take(reply, wire.ROUND_KEYS, np.uint8, (secrets, size)),
            wire.take(reply, wire.COMMITMENTS, np.uint8, (secrets, size)),
        )
        if wire.IDENTITY not in reply:
            return cls(*advert)
        return cls(
            *advert,
            wire.take(reply, wire.IDENTITY, np.uint8, (fellows.PUBLIC_BYTES,)),
            wire.take(reply, wire.ABOUT, np.uint8, (fellows.ABOUT_BYTES,)).tobytes(),
            wire.take(reply, wire.SIGNATURE, np.uint8, (fellows.SIGNATURE_BYTES,)),
        )

    def has_signed(self, signature: np.ndarray, what: str, client: int, *parts: bytes | np.ndarray) -> bool:
        """Whether the client, which says that it signs, has signed a statement."""
        assert self.identity is not None
        return fellows.is_signed(self.identity, signature, fellows.statement(what, client, self.about, *parts))

    @property
    def keys(self) -> list[bytes]:
        return [self.public_key.tobytes(), *(key.tobytes() for key in self.round_keys)]


class SumCollector:
    """Leads clients through the exchanges of a run.

    For each exchange, send `message` to all `participants`, and hand the replies that pass `check` to `receive`. After
    an exchange in which fewer clients answered than a sum needs, and where fewer are available, no vectors are asked
    for: the next exchange only asks who is there (`Phase.PRESENT`). After `PATIENCE` exchanges in vain the run ends.
    A client whose lie is found takes no part in any exchange that begins later.

    Parameters
    ----------
    terms : Terms
    length : int
        Of the vectors; may be set anew before each round.
    what : str
        Ledger line under which clients noise their vectors; likewise.

    Attributes
    ----------
    phase : Phase
        What the next exchange is for.
    round : int
        That the next exchange belongs to, 1-based.
    ended : str or None
        Why the run ended before its last round; None if it did not.
    liars : dict of int to str
        What each client lied about, by all that honest clients can send (`strategies.secure_aggregation`).
    """

    def __init__(self, terms: Terms, length: int, what: str = "") -> None:
        self.terms = terms
        self.length = length
        self.what = what
        self.phase = Phase.ADVERTISE
        self.round = 1
        self.ended: str | None = None
        self.liars: dict[int, str] = {}
        self._again = 0  # whether vectors of this round are masked again
        self._challenge = os.urandom(keys.KEY_BYTES)
        self._in_vain = 0
        self._more_exchanges = 0
        self.adverts: dict[int, _Advert] = {}
        self._sealed: dict[int, dict[int, np.ndarray]] = {}  # by dealer and holder
        self._part_hashes: dict[int, dict[int, np.ndarray]] = {}  # by dealer and holder
        self._complaints: dict[int, set[int]] = {}  # by dealer: holders that found other parts in their seals
        self._key_hashes = np.zeros((0, keys.KEY_BYTES), np.uint8)
        self._identities = np.zeros((0, fellows.PUBLIC_BYTES), np.uint8)  # of all members, where any has one
        self._agreements: dict[int, np.ndarray] = {}  # signatures of the setup
        self._confirmations: dict[int, np.ndarray] = {}  # signatures of the survivors
        self._confirms = False  # whether there is an exchange for them
        self.setup = b""
        self.arranged: list[int] = []  # members in the order in which they share
        self._roster: list[int] = []
        self._known_roster: dict[int, list[int]] = {}  # by client that has the parts that it holds
        self._survivors: list[int] = []
        self._masked_sum = np.zeros(0, terms.field.dtype)

    @property
    def exchanges(self) -> int:
        """Of the whole run, as far as is known.

        Two to agree on keys, two for each sum, or three where survivors are signed, and those that clients cost.
        """
        return 2 + 2 * self.terms.rounds + self._more_exchanges

    def is_enough(self, clients: Collection[int]) -> bool:
        """Whether the next exchange with these clients alone would not be in vain."""
        return self.phase in (Phase.MASK_AGAIN, Phase.CONFIRM, Phase.UNMASK, Phase.DONE) or (
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
        if self.phase is Phase.ADVERTISE:
            return {wire.CHALLENGE: wire.to_array(keys.public_key(self._challenge))}
        if self.phase is Phase.SHARE:
            return self._keys_for(client)
        if self.phase in (Phase.MASK, Phase.MASK_AGAIN):
            content: dict[str, np.ndarray] = {wire.ROUND: self.attempt.to_array()}
            if self._known_roster.get(client) != self._roster:
                content[wire.ROSTER] = np.array(self._roster, np.int64)
            if client not in self._known_roster:
                content[wire.SEALED] = np.stack([self._sealed[dealer][client] for dealer in self._held_by(client)])
                if self._signs(client):
                    content[wire.SIGNATURES] = fellows.stacked(
                        map(self._agreements.get, self._roster), fellows.SIGNATURE_BYTES
                    )
            return content
        if self.phase in (Phase.CONFIRM, Phase.UNMASK):
            content = {wire.ROUND: self.attempt.to_array(), wire.SURVIVORS: np.array(self._survivors, np.int64)}
            if self.phase is Phase.UNMASK and self._confirms and self._signs(client):
                content[wire.SIGNERS] = np.array(sorted(self._confirmations), np.int64)
                content[wire.SIGNATURES] = np.stack([each for _, each in sorted(self._confirmations.items())])
            return content
        return {}

    def check(self, client: int, reply: Arrays) -> None:
        """Raise unless a reply has the form that this exchange needs, and tells no lie that shows by itself.

        Raises
        ------
        BadMessage
            It has not, or does, or its sender takes no part in this exchange.
        """
        if not self._takes_part(client):
            raise BadMessage(f"client {client} takes no part in this exchange")
        secrets = self.terms.secrets
        if self.phase is Phase.ADVERTISE:
            self._check_advert(client, reply)
        elif self.phase is Phase.SHARE:
            holders, _ = self.terms.ring(client, self.arranged)
            wire.take(reply, wire.SEALED, np.uint8, (len(holders), wire.sealed_bytes(self.terms)))
            wire.take(reply, wire.PART_HASHES, np.uint8, (len(holders), secrets, 2, keys.SEED_BYTES))
            if self._signs(client):
                self._check_signature(client, reply, fellows.SETUP, self.setup)
        elif self.phase in (Phase.MASK, Phase.MASK_AGAIN):
            wire.take(reply, wire.MASKED, self.terms.field.dtype, (self.length,))
            if client not in self._known_roster:
                _, dealers = self.terms.ring(client, self.arranged)
                wire.take(reply, wire.OPENED, np.uint8, (len(dealers), keys.KEY_BYTES))
        elif self.phase is Phase.CONFIRM:
            self._check_signature(client, reply, fellows.SURVIVORS, *self._of_survivors())
        elif self.phase is Phase.UNMASK:
            self._check_parts(client, reply)

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
            The sum is wrong, because a client shared other secrets than it promised, or sent values out of bounds;
            given up as well.
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
            return client not in self.liars
        if self.phase is Phase.SHARE:
            return client in self.adverts
        if self.phase in (Phase.MASK_AGAIN, Phase.CONFIRM, Phase.UNMASK):
            return client in self._survivors and (self.phase is not Phase.CONFIRM or self._signs(client))
        return client in self._roster and self.phase is not Phase.DONE

    def _signs(self, client: int) -> bool:
        return self.adverts[client].identity is not None

    def _of_survivors(self) -> tuple[bytes, ...]:
        roster, survivors = (np.array(clients, np.int64) for clients in (self._roster, self._survivors))
        return wire.survivors_parts(self.setup, self.attempt, roster, survivors)

    def _check_signature(self, client: int, reply: Arrays, what: str, *parts: bytes) -> None:
        signature = wire.take(reply, wire.SIGNATURE, np.uint8, (fellows.SIGNATURE_BYTES,))
        if not self.adverts[client].has_signed(signature, what, client, *parts):
            raise BadMessage(f"its signature of the {what} is not one by its key")

    @property
    def attempt(self) -> Attempt:
        return Attempt(self.round, self._again)

    @property
    def _members(self) -> list[int]:
        return list(self.adverts)

    def _held_by(self, client: int) -> list[int]:
        """Clients of the roster whose parts a client holds, in the order in which it returns them."""
        _, dealers = self.terms.ring(client, self.arranged)
        roster = set(self._roster)
        return [dealer for dealer in dealers if dealer in roster]

    def _keys_for(self, client: int) -> Arrays:
        """The keys of those that a client shares masks with, and its own."""
        known = sorted([client, *self.terms.partners(client, self.arranged)])
        content = {
            wire.MEMBERS: np.array(self._members, np.int64),
            wire.PUBLIC_KEYS: np.stack([self.adverts[member].public_key for member in known]),
            wire.ROUND_KEYS: np.stack([self.adverts[member].round_keys for member in known]),
        }
        if len(self._identities):
            content[wire.IDENTITIES] = self._identities
            signatures = (advert.signature for advert in self.adverts.values())
            content[wire.SIGNATURES] = fellows.stacked(signatures, fellows.SIGNATURE_BYTES)
        if self.terms.circle is None:
            return content
        return {**content, wire.KNOWN: np.array(known, np.int64), wire.KEY_HASHES: self._key_hashes}

    def _kind(self, client: int) -> int:
        """Which of its two secrets is to be restored."""
        return SELF if client in self._survivors else KEY

    def _check_advert(self, client: int, reply: Arrays) -> None:
        secrets = self.terms.secrets
        advert = _Advert.of(reply, secrets)
        proofs = wire.take(reply, wire.POSSESSION, np.uint8, (secrets + 1, keys.KEY_BYTES))
        if len(set(advert.keys)) <= secrets:
            raise BadMessage("two of its public keys are the same")
        for at, (key, proof) in enumerate(zip(advert.keys, proofs, strict=True)):
            if keys.possession(self._challenge, key, wire.possession_place(client, at)) != proof.tobytes():
                raise BadMessage("a public key is not its own, or is another's")
        if advert.signature is not None:
            of_keys = wire.key_hashes(advert.public_key[None], advert.round_keys[None])
            if not advert.has_signed(advert.signature, fellows.KEYS, client, of_keys):
                raise BadMessage("its keys are not signed by the key that it says is its own")

    def _check_parts(self, client: int, reply: Arrays) -> None:
        held, at = self._held_by(client), self.attempt.secret(self.terms)
        parts = wire.take(reply, wire.PARTS, np.uint8, (len(held), keys.SEED_BYTES))
        for dealer, part in zip(held, parts, strict=True):
            kind = self._kind(dealer)
            expected = self._part_hashes[dealer][client][at, kind].tobytes()
            if wire.part_hash(part.tobytes(), dealer, client, at, kind) == expected:
                continue
            if client not in self._complaints.get(dealer, ()):
                self.liars[client] = f"returned a wrong part of a secret of client {dealer}"
                raise BadMessage(f"it {self.liars[client]}")

    def _take_adverts(self, replies: Mapping[int, Arrays]) -> None:
        adverts = {client: _Advert.of(reply, self.terms.secrets) for client, reply in sorted(replies.items())}
        if len(adverts) > self.terms.clients:
            raise DPForestError(f"{len(adverts)} clients take part, but {self.terms.clients} are agreed on")
        owners: dict[bytes, list[int]] = {}
        for client, advert in adverts.items():
            for key in [*advert.keys, *([] if advert.identity is None else [fellows.unpadded(advert.identity)])]:
                owners.setdefault(key, []).append(client)
        for sharing in owners.values():
            if len(sharing) > 1:  # each has shown that it has the private key, which honest clients give to nobody
                words = " and ".join(map(str, sharing))
                self.liars.update(dict.fromkeys(sharing, f"has a public key in common: clients {words}"))
        # Honest clients, which are more, sign for one run and plan.
        plans = Counter(advert.about for advert in adverts.values() if advert.identity is not None)
        for client, advert in adverts.items():
            if advert.identity is not None and advert.about != plans.most_common(1)[0][0]:
                self.liars[client] = "signs for another run, or another plan, than the others"
        self.adverts = {client: advert for client, advert in adverts.items() if client not in self.liars}
        self._require(len(self.adverts))
        self._key_hashes = wire.key_hashes(
            np.stack([advert.public_key for advert in self.adverts.values()]),
            np.stack([advert.round_keys for advert in self.adverts.values()]),
        )
        if any(map(self._signs, self._members)):
            identities = (advert.identity for advert in self.adverts.values())
            self._identities = fellows.stacked(identities, fellows.PUBLIC_BYTES)
            self._confirms = wire.can_confirm(self.terms, self._identities)
            self._more_exchanges += self.terms.rounds * self._confirms
        members = np.array(self._members, np.int64)
        self.setup = wire.setup_digest(self.terms, members, self._key_hashes, self._identities)
        self.arranged = wire.arranged(self.terms, self._members, self.setup)
        self.phase = Phase.SHARE

    def _take_shares(self, replies: Mapping[int, Arrays]) -> None:
        self._require(len(replies))
        for client, reply in sorted(replies.items()):
            holders, _ = self.terms.ring(client, self.arranged)
            self._sealed[client] = dict(zip(holders, reply[wire.SEALED], strict=True))
            self._part_hashes[client] = dict(zip(holders, reply[wire.PART_HASHES], strict=True))
            if self._signs(client):
                self._agreements[client] = reply[wire.SIGNATURE]
        self._roster = list(self._sealed)
        self.phase = Phase.MASK

    def _go_on(self, replies: Mapping[int, Arrays]) -> Total | None:
        """One step of a sum."""
        if self.phase is Phase.UNMASK:
            try:
                return self._unmasked(replies)
            finally:
                self._next_round(len(replies))
        if self.phase is Phase.PRESENT:
            if len(replies) < self.terms.least_survivors:
                self._look_for_clients()
            self._require(len(replies))
            self.phase = Phase.MASK
            return None
        if self.phase is Phase.CONFIRM:
            self._take_confirmations(replies)
            return None
        self._note_complaints(replies)
        self._known_roster.update(dict.fromkeys(replies, self._roster))
        self._survivors = [client for client in sorted(replies) if client not in self.liars]
        if len(self._survivors) < self.terms.least_survivors:
            self._more_exchanges -= 1 + self._confirms  # nothing to unmask
            self._next_round(len(self._survivors))
        self._require(len(self._survivors))
        if not self.liars.keys().isdisjoint(self._roster):
            # Before anything is unmasked: their masks might not go, as nobody may have the right parts for them.
            self._leave_out_liars()
            self._again = 1
            self._more_exchanges += 1
            self.phase = Phase.MASK_AGAIN
            return None
        self._masked_sum = np.zeros(self.length, self.terms.field.dtype)
        for reply in replies.values():
            self._masked_sum += reply[wire.MASKED]
        self.phase = Phase.CONFIRM if self._confirms else Phase.UNMASK
        return None

    def _take_confirmations(self, replies: Mapping[int, Arrays]) -> None:
        if len(replies) < self.terms.quorum:
            self._more_exchanges -= 1  # nothing to unmask
            self._next_round(len(replies))
            raise TooFewClients(
                f"{len(replies)} clients signed who is in the sum, and {self.terms.quorum} have to"
                f"{self._words_of_liars()}"
            )
        self._confirmations = {client: reply[wire.SIGNATURE] for client, reply in replies.items()}
        self.phase = Phase.UNMASK

    def _note_complaints(self, replies: Mapping[int, Arrays]) -> None:
        """Take what new holders found in their seals, and see who must have lied if no more fail than may."""
        complaining: dict[int, set[int]] = {}
        for holder, reply in replies.items():
            if holder in self._known_roster:
                continue
            _, dealers = self.terms.ring(holder, self.arranged)
            for dealer, opened in zip(dealers, reply[wire.OPENED], strict=True):
                if dealer not in self._roster:
                    continue
                if not np.array_equal(opened, wire.opened_digest(self._part_hashes[dealer][holder])):
                    self._complaints.setdefault(dealer, set()).add(holder)
                    complaining.setdefault(holder, set()).add(dealer)
        if not self._may_explain(len(replies)):
            return
        for holder, accused in complaining.items():
            if len(accused) > self.terms.most_failing:
                self.liars[holder] = f"says that the seals of {len(accused)} clients hold no sound parts"
        for dealer, holders in self._complaints.items():
            sound = set(replies) - holders - set(self.liars) - {dealer}
            if self.terms.circle is not None:
                too_few = len(sound.intersection(self.terms.partners(dealer, self.arranged))) < self.terms.threshold
            else:
                too_few = len(sound) + 1 < self.terms.least_survivors
            if too_few:
                self._blame_for_seals(dealer)

    def _may_explain(self, answered: int) -> bool:
        """Whether who fails can be distinguished from who does not: at most `dropouts` do, if that many may at all."""
        return 0 < self.terms.dropouts >= self.terms.clients - answered

    def _blame_for_seals(self, dealer: int) -> None:
        words = f"sealed other parts than it promised for {len(self._complaints[dealer])} clients"
        self.liars.setdefault(dealer, words)

    def _require(self, clients: int) -> None:
        least = self.terms.least_survivors
        if clients < least:
            raise TooFewClients(
                f"{clients} clients answered; a secure sum over {self.terms.clients} with at most "
                f"{self.terms.dropouts} dropouts needs {least}{self._words_of_liars()}"
            )

    def _words_of_liars(self) -> str:
        return "".join(f"; client {client} {lie}" for client, lie in sorted(self.liars.items()))

    def _leave_out_liars(self) -> None:
        self._roster = [client for client in self._roster if client not in self.liars]

    def _next_round(self, answered: int) -> None:
        self.round, self._again = self.round + 1, 0
        self._leave_out_liars()
        self.phase = Phase.MASK if self.round <= self.terms.rounds else Phase.DONE
        if self.phase is Phase.DONE:
            return
        if len(self._roster) < self.terms.least_survivors:
            self.phase = Phase.DONE
            self.ended = f"{len(self._roster)} clients are left of the {self.terms.least_survivors} that a sum needs"
            self.ended += self._words_of_liars()
        elif answered < self.terms.least_survivors:
            self._look_for_clients()

    def _look_for_clients(self) -> None:
        self.phase = Phase.PRESENT
        self._more_exchanges += 1

    def _unmasked(self, replies: Mapping[int, Arrays]) -> Total:
        seeds = self._restored(replies)
        release = wire.release_digest(self.what)
        salt = wire.mask_salt(self.setup, np.array(self._roster, np.int64), self.attempt, release)
        total, add = self._masked_sum, self.terms.field.add_mask
        for client, seed in seeds.items():
            if self._kind(client) == SELF:
                add(total, wire.self_mask(seed, salt, client), -1)
                continue
            private = keys.round_key(seed)
            for peer in set(self.terms.partners(client, self.arranged)).intersection(self._survivors):
                theirs = self.adverts[peer].round_keys[self.attempt.secret(self.terms)].tobytes()
                add(total, wire.pair_mask(private, theirs, salt, peer, client), -wire.pair_sign(peer, client))
        values = self.terms.field.decode(total)
        bound = self.terms.largest_value * len(self._survivors)
        if values.size and (int(values.max()) > bound or int(values.min()) < -bound):
            raise DPForestError(
                f"the sum of round {self.round} exceeds +-{bound}; a client, and which one does not show, sent values "
                f"beyond the agreed +-{self.terms.largest_value} or masks of its own"
            )
        return Total(values, tuple(self._survivors))

    def _restored(self, replies: Mapping[int, Arrays]) -> dict[int, bytes]:
        """The seed of each client of the roster: of its self mask if it survived, else of its round key."""
        parts: dict[int, dict[int, bytes]] = {client: {} for client in self._roster}
        for holder, reply in replies.items():
            for dealer, part in zip(self._held_by(holder), reply[wire.PARTS], strict=True):
                if holder not in self._complaints.get(dealer, ()):
                    holders, _ = self.terms.ring(dealer, self.arranged)
                    parts[dealer][holders.index(holder) + 1] = part.tobytes()
        seeds, wrong = {}, []
        for client, known in parts.items():
            if len(known) < self.terms.threshold:
                wrong.append(self._too_few_parts(client, len(known), len(replies)))
                continue
            seeds[client] = keys.restore(known, self.terms.threshold)
            if not self._is_right(client, seeds[client]):
                self.liars[client] = "shared the parts of another secret than it promised"
                wrong.append(DPForestError(f"client {client} {self.liars[client]}; the sum is lost"))
        if wrong:
            raise wrong[0]
        return seeds

    def _too_few_parts(self, client: int, known: int, answered: int) -> Exception:
        """Why a secret cannot be restored: its owner is to blame if what the others may fail does not explain it."""
        complaints = self._complaints.get(client, set())
        if complaints and self._may_explain(answered):
            self._blame_for_seals(client)
            return DPForestError(f"client {client} {self.liars[client]}; the sum is lost")
        words = "".join(
            f"; client {holder} says that its part is not the promised one" for holder in sorted(complaints)
        )
        return TooFewClients(
            f"{answered} clients helped to unmask, and {known} of them hold parts for client {client}; "
            f"{self.terms.threshold} are needed{words}{self._words_of_liars()}"
        )

    def _is_right(self, client: int, seed: bytes) -> bool:
        advert, at = self.adverts[client], self.attempt.secret(self.terms)
        if self._kind(client) == SELF:
            return keys.commitment(seed) == advert.commitments[at].tobytes()
        return keys.public_key(keys.round_key(seed)) == advert.round_keys[at].tobytes()
