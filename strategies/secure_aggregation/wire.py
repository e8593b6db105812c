"""What travels: named arrays, checked by the receiver."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from strategies.messages import BadMessage
from strategies.method import Arrays
from strategies.secure_aggregation import keys
from strategies.secure_aggregation.keys import SEAL_BYTES, SEED_BYTES
from strategies.secure_aggregation.terms import Terms

# The prefix lets a method send arrays of its own in the same message.
CHALLENGE, POSSESSION = "secure.challenge", "secure.possession"
PUBLIC_KEY, ROUND_KEYS, COMMITMENTS = "secure.public_key", "secure.round_keys", "secure.commitments"
MEMBERS, PUBLIC_KEYS = "secure.members", "secure.public_keys"
KNOWN, KEY_HASHES = "secure.known", "secure.key_hashes"
ROSTER, SEALED = "secure.roster", "secure.sealed"
PART_HASHES, OPENED = "secure.part_hashes", "secure.opened"
ROUND, MASKED, SURVIVORS, PARTS = "secure.round", "secure.masked", "secure.survivors", "secure.parts"
# What clients with identities add (`strategies.secure_aggregation.fellows`): their own, and those of several members.
IDENTITY, ABOUT, SIGNATURE = "secure.identity", "secure.about", "secure.signature"
IDENTITIES, SIGNATURES, SIGNERS = "secure.identities", "secure.signatures", "secure.signers"

SELF, KEY = 0, 1  # which of a client's two secrets of a round


def survivors_parts(setup: bytes, attempt: Attempt, roster: np.ndarray, survivors: np.ndarray) -> tuple[bytes, ...]:
    """What a client signs of the survivors of an attempt."""
    return setup, attempt.to_array().tobytes(), roster.tobytes(), survivors.tobytes()


def can_confirm(terms: Terms, identities: np.ndarray) -> bool:
    """Whether the survivors of each sum are signed: some may be missing, and members enough can sign."""
    return terms.dropouts > 0 and int(identities.any(axis=1).sum()) >= terms.quorum


def sealed_bytes(terms: Terms) -> int:
    """Length of one holder's sealed parts of all rounds."""
    return terms.secrets * 2 * SEED_BYTES + SEAL_BYTES


@dataclass(frozen=True)
class Attempt:
    """Which vectors are masked, and by which secrets.

    Parameters
    ----------
    round : int
        The sum that the vectors are for, 1-based.
    again : int
        1 if they are masked again, else 0.
    """

    round: int = 0
    again: int = 0

    def secret(self, terms: Terms) -> int:
        """Number of the pair of secrets of each client, 0-based; no two attempts share one."""
        return (self.round - 1) * terms.attempts + self.again

    def to_array(self) -> np.ndarray:
        """As it travels."""
        return np.array([self.round, self.again], np.int64)


def take_attempt(arrays: Arrays) -> Attempt:
    """The attempt that a message is about.

    Raises
    ------
    BadMessage
        It says none.
    """
    return Attempt(*take(arrays, ROUND, np.int64, (2,)).tolist())


def take(arrays: Arrays, name: str, dtype: np.dtype | type, shape: tuple[int, ...]) -> np.ndarray:
    """An array of a message.

    Raises
    ------
    BadMessage
        It is missing or has another type or shape; -1 in ``shape`` allows any length.
    """
    array = arrays.get(name)
    if array is None:
        raise BadMessage(f"the message has no array {name!r}")
    fits = array.ndim == len(shape) and all(want in (-1, have) for want, have in zip(shape, array.shape, strict=True))
    if array.dtype != dtype or not fits:
        raise BadMessage(f"{name!r} is {array.dtype} of shape {array.shape}; expected {np.dtype(dtype)} of {shape}")
    return array


def take_clients(arrays: Arrays, name: str) -> np.ndarray:
    """Client numbers in ascending order, none twice.

    Raises
    ------
    BadMessage
        They are not.
    """
    clients = take(arrays, name, np.int64, (-1,))
    if (clients[1:] <= clients[:-1]).any():  # differences could wrap around
        raise BadMessage(f"{name!r} must be ascending, each client once")
    return clients


def key_hashes(public_keys: np.ndarray, round_keys: np.ndarray) -> np.ndarray:
    """Hash of each client's public keys, shape (m, 32).

    Parameters
    ----------
    public_keys : ndarray of shape (m, 32)
    round_keys : ndarray of shape (m, secrets, 32)
    """
    hashes = [
        hashlib.sha256(own.tobytes() + np.ascontiguousarray(others).tobytes()).digest()
        for own, others in zip(public_keys, round_keys, strict=True)
    ]
    return to_array(b"".join(hashes), len(hashes), 32)


def setup_digest(terms: Terms, members: np.ndarray, hashes: np.ndarray, identities: np.ndarray) -> bytes:
    """Binds every seal to the terms and keys that its sender was shown.

    Parameters
    ----------
    members : ndarray of shape (m,)
    hashes : ndarray of shape (m, 32)
        `key_hashes` of theirs.
    identities : ndarray of shape (m, 160) or (0, 160)
        Of all, or none where nobody has one.
    """
    digest = hashlib.sha256(repr(terms).encode())
    for array in (members, hashes, identities):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.digest()


def arranged(terms: Terms, members: Sequence[int], setup: bytes) -> list[int]:
    """The members in the order in which they share: ascending, or where they are on a circle, as a hash of all says."""
    if terms.circle is None:
        return list(members)
    return sorted(members, key=lambda member: hashlib.sha256(setup + f"place of {member}".encode()).digest())


def release_digest(what: str) -> np.ndarray:
    """Hash of the ledger line under which a client releases its vector, shape (32,)."""
    return to_array(hashlib.sha256(what.encode()).digest())


def mask_salt(setup: bytes, roster: np.ndarray, attempt: Attempt, release: np.ndarray) -> bytes:
    """Binds every mask to the clients that share masks, and to what is masked.

    Parameters
    ----------
    release : ndarray of shape (32,)
        `release_digest`.
    """
    return hashlib.sha256(setup + attempt.to_array().tobytes() + roster.tobytes() + release.tobytes()).digest()


def seal_context(setup: bytes, dealer: int, holder: int) -> bytes:
    """Which seal this is: whose parts, and for whom."""
    return setup + f"parts of {dealer} for {holder}".encode()


def possession_place(client: int, at: int) -> str:
    """Which key of a client is shown to be its own: 0 for that of the seals, then those of the masks."""
    return f"of key {at} by {client}"


def part_hash(part: bytes, dealer: int, holder: int, secret: int, kind: int) -> bytes:
    """Hash of one part."""
    return keys.part_hash(part, f"of {dealer} for {holder} secret {secret} kind {kind}")


def part_hashes(parts: np.ndarray, dealer: int, holder: int) -> np.ndarray:
    """Hashes of all parts of a dealer for a holder, both of shape (secrets, 2, 16)."""
    hashes = [
        part_hash(parts[secret, kind].tobytes(), dealer, holder, secret, kind)
        for secret, kind in np.ndindex(parts.shape[:2])
    ]
    return to_array(b"".join(hashes), *parts.shape)


def opened_digest(hashes: np.ndarray) -> np.ndarray:
    """What a holder says of the parts that it found in a seal, from their hashes of shape (secrets, 2, 16)."""
    return to_array(hashlib.sha256(np.ascontiguousarray(hashes).tobytes()).digest())


def self_mask(seed: bytes, salt: bytes, client: int) -> bytes:
    """Key of a client's own mask."""
    return keys.derive(seed, salt, f"self mask {client}")


def pair_mask(private: bytes, public: bytes, salt: bytes, one: int, other: int) -> bytes:
    """Key of the mask that two clients share, the same from both sides.

    Parameters
    ----------
    private, public : bytes
        Round keys of the one and of the other client, or the reverse.
    salt : bytes
        `mask_salt`.
    """
    purpose = f"pair mask {min(one, other)} {max(one, other)}"
    return keys.derive(keys.agree(private, public), salt, purpose)


def pair_sign(client: int, other: int) -> int:
    """Whether the client adds (1) or subtracts (-1) the mask that it shares with the other."""
    return 1 if client < other else -1


def to_array(content: bytes, *shape: int) -> np.ndarray:
    """Bytes as an array of uint8; one axis if no shape is given."""
    return np.frombuffer(content, np.uint8).reshape(shape or (-1,))
