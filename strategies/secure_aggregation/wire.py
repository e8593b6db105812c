"""What travels: named arrays, checked by the receiver."""

from __future__ import annotations

import hashlib

import numpy as np

from strategies.messages import BadMessage
from strategies.method import Arrays
from strategies.secure_aggregation import keys
from strategies.secure_aggregation.keys import SEAL_BYTES, SEED_BYTES
from strategies.secure_aggregation.terms import Terms

# The prefix lets a method send arrays of its own in the same message.
PUBLIC_KEY, ROUND_KEYS, COMMITMENTS = "secure.public_key", "secure.round_keys", "secure.commitments"
MEMBERS, PUBLIC_KEYS = "secure.members", "secure.public_keys"
ROSTER, SEALED = "secure.roster", "secure.sealed"
ROUND, MASKED, SURVIVORS, PARTS = "secure.round", "secure.masked", "secure.survivors", "secure.parts"

SELF, KEY = 0, 1  # which of a client's two secrets of a round


def sealed_bytes(terms: Terms) -> int:
    """Length of one holder's sealed parts of all rounds."""
    return terms.rounds * 2 * SEED_BYTES + SEAL_BYTES


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
    if (np.diff(clients) <= 0).any():
        raise BadMessage(f"{name!r} must be ascending, each client once")
    return clients


def setup_digest(terms: Terms, members: np.ndarray, public_keys: np.ndarray, round_keys: np.ndarray) -> bytes:
    """Binds every seal to the terms and keys that its sender was shown.

    Parameters
    ----------
    members : ndarray of shape (m,)
    public_keys : ndarray of shape (m, 32)
    round_keys : ndarray of shape (m, rounds, 32)
    """
    digest = hashlib.sha256(repr(terms).encode())
    for array in (members, public_keys, round_keys):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.digest()


def roster_digest(setup: bytes, roster: np.ndarray) -> bytes:
    """Binds every mask to the clients that share masks."""
    return hashlib.sha256(setup + roster.tobytes()).digest()


def seal_context(setup: bytes, dealer: int, holder: int) -> bytes:
    """Which seal this is: whose parts, and for whom."""
    return setup + f"parts of {dealer} for {holder}".encode()


def self_mask(seed: bytes, roster: bytes, round_: int, client: int) -> bytes:
    """Key of a client's own mask of a round."""
    return keys.derive(seed, roster, f"self mask {client} round {round_}")


def pair_mask(private: bytes, public: bytes, roster: bytes, round_: int, one: int, other: int) -> bytes:
    """Key of the mask that two clients share in a round, the same from both sides.

    Parameters
    ----------
    private, public : bytes
        Round keys of the one and of the other client, or the reverse.
    roster : bytes
        Its digest.
    """
    purpose = f"pair mask {min(one, other)} {max(one, other)} round {round_}"
    return keys.derive(keys.agree(private, public), roster, purpose)


def pair_sign(client: int, other: int) -> int:
    """Whether the client adds (1) or subtracts (-1) the mask that it shares with the other."""
    return 1 if client < other else -1


def to_array(content: bytes, *shape: int) -> np.ndarray:
    """Bytes as an array of uint8; one axis if no shape is given."""
    return np.frombuffer(content, np.uint8).reshape(shape or (-1,))
