"""Known fellows: clients sign their keys and what they hold for true, and accept one another by lists of their owners.

Without this the server has to follow the protocol: it passes on all keys, so it could play the other clients, or name
other survivors to each. A client with an `Identity` signs, by a key that it keeps from run to run, three statements:

- *keys*: its number, the run's plan, and all keys of its advert. Sent with the advert.
- *setup*: the hash of the terms and of the keys and identities of all members, its own among them, as it was shown
  them. Sent with its sealed parts, and passed on with the first mask request.
- *survivors*: attempt, roster and survivors of a sum, as it was shown them. With dropouts, one more exchange before
  that of parts (Bonawitz et al. 2017, figure 4, "consistency check"); once an attempt.

Nobody who signs returns parts before it has seen q = (n + c) / 2 + 1 (rounded down) signatures of members on the
survivors that it has signed itself. Where nobody may be missing there is but one list that clients accept, and no such
exchange. A client whose owner lists public keys (`Identity.accepted`) takes part in a sum only where all but c of its
clients are on the list, and have signed their keys and the very setup that it has itself; it sees to that before its
vector is made.

Proof. Let A be a client with such a list. Of the n clients at most c collude with the server, and all that are not on
A's list count among them: A has seen that these are no more. So every other client of A's roster is an honest one of
its owner's list, and has signed A's setup.

1. *Keys are those of these clients.* A setup has the hashes of all keys, and an honest client signs none in which its
   own are not its own. A's are in it too, and new: no signature of another run, or from before, is one on this setup.
   So keys swapped, clients made up (beyond c) and signatures replayed end at A's refusal, and it has sent no vector.
   The plan is in each statement, so that nobody else was given a plan in which its noise is less; and masks are bound
   to the ledger line under which a vector was noised, so that those of who was asked for another release of the plan,
   whose noise may be less, cancel none of A's.
2. *All that return parts agree.* An honest client has one setup, and signs one list an attempt. Two lists, or one under
   two setups, with q signatures each take 2 q > n + c of n clients, of which no more than c sign both: impossible. The
   roster is a part of what is signed. So in each attempt all honest clients that return parts name the same survivors
   under A's setup; parts under another setup are of no use, since A's are sealed under its own. To them all such a
   server does in this attempt what one that follows the protocol does, and what the package proves of that one holds:
   A's vector shows in a sum over all survivors only, at least n - d, of which at least n - d - c are honest, as many as
   the noise is made for. Both attempts at a sum never come out, as there (4).
3. *On a circle* (`strategies.secure_aggregation.circle`) a server could choose who is missing when it knows the order.
   Pieces that share no mask need k places gone, so a client with a list takes part only where d + c < k: then nobody
   can cut the circle. Who colludes is fixed before the order is, as there.

It says nothing for a client without a list; such a one signs too, so that others can count on it. A server can still
end any run by passing nothing on, and see who takes part. Owners exchange keys by a way in which the server has no
hand, and give no two nodes the same key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_der_public_key,
    load_ssh_private_key,
    load_ssh_public_key,
)

from dpforest.errors import DPForestError

SigningKey = ec.EllipticCurvePrivateKey | Ed25519PrivateKey
# Of the longest: elliptic curves of 521 bits, with a byte that says how long.
PUBLIC_BYTES, SIGNATURE_BYTES, ABOUT_BYTES = 160, 144, 32
KEYS, SETUP, SURVIVORS = "keys", "setup", "survivors"  # what is signed
NOBODY = np.zeros(PUBLIC_BYTES, np.uint8)  # in the place of a member's identity: it has none


@dataclass(frozen=True)
class Identity:
    """A client's key to sign with, and whom it accepts.

    Parameters
    ----------
    key : private key
    about : bytes of length 32
        Hash of all that the run's clients have to agree on apart from keys: which run, and its plan.
    accepted : frozenset of bytes, optional
        Public keys of its owner's list, as `public_bytes` has them; None: it has no list, and trusts the server.
    least : int
        How many of them must be in a sum, itself not counted.
    """

    key: SigningKey = field(repr=False)
    about: bytes
    accepted: frozenset[bytes] | None = None
    least: int = 1

    @property
    def public(self) -> np.ndarray:
        """Its public key, as it travels: uint8 of shape (160,)."""
        return _padded(public_bytes(self.key.public_key()), PUBLIC_BYTES)

    def sign(self, what: str, client: int, *parts: bytes | np.ndarray) -> np.ndarray:
        """A signature as it travels: uint8 of shape (144,)."""
        said = statement(what, client, self.about, *parts)
        signed = self.key.sign(said) if isinstance(self.key, Ed25519PrivateKey) else self.key.sign(said, _ECDSA)
        return _padded(signed, SIGNATURE_BYTES)

    def accepts(self, public: np.ndarray) -> bool:
        """Whether a member's key is on its owner's list."""
        return self.accepted is not None and unpadded(public) in self.accepted


_ECDSA = ec.ECDSA(SHA384())


def statement(what: str, client: int, about: bytes, *parts: bytes | np.ndarray) -> bytes:
    """What is signed: no two statements of any kinds are the same bytes."""
    digest = hashlib.sha384()
    for part in parts:
        plain = part if isinstance(part, bytes) else np.ascontiguousarray(part).tobytes()
        digest.update(len(plain).to_bytes(8, "big") + plain)
    return f"dpforest secure sum: {what} of client {client}\n".encode() + about + digest.digest()


def is_signed(public: np.ndarray, signature: np.ndarray, said: bytes) -> bool:
    """Whether a signature is that of the owner of a public key; False for what is no key."""
    try:
        key, signed = load_der_public_key(unpadded(public)), unpadded(signature)
        if isinstance(key, Ed25519PublicKey):
            key.verify(signed, said)
        elif isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(signed, said, _ECDSA)
        else:
            return False
    except (InvalidSignature, UnsupportedAlgorithm, ValueError):
        return False
    return True


def one_signs_twice(identities: np.ndarray) -> bool:
    """Whether two members have one public key, whatever follows it in their rows."""
    given = [unpadded(row) for row in identities if row.any()]
    return len(set(given)) < len(given)


def public_bytes(key: ec.EllipticCurvePublicKey | Ed25519PublicKey) -> bytes:
    """A public key in the one form in which keys are compared."""
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def read_signing_key(content: bytes) -> SigningKey:
    """A private key as ``ssh-keygen -t ecdsa`` or ``-t ed25519`` makes it, without a passphrase.

    Raises
    ------
    DPForestError
    """
    try:
        key = load_ssh_private_key(content, None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise DPForestError(f"cannot be read ({error})") from error
    if not isinstance(key, SigningKey):
        raise DPForestError("is no key of an elliptic curve (ssh-keygen -t ecdsa -b 384)")
    return key


def read_public_keys(content: str) -> frozenset[bytes]:
    """Public keys, one a line, as ``ssh-keygen`` writes them into ``.pub`` files.

    Raises
    ------
    DPForestError
        A line is no such key, or there is none.
    """
    lines = [(number, line.strip()) for number, line in enumerate(content.splitlines(), 1)]
    found = frozenset(_public(number, line) for number, line in lines if line and not line.startswith("#"))
    if not found:
        raise DPForestError("has no public keys: one a line, as in the .pub files of ssh-keygen")
    return found


def _public(number: int, line: str) -> bytes:
    try:
        key = load_ssh_public_key(line.encode())
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, ec.EllipticCurvePublicKey | Ed25519PublicKey):
        raise DPForestError(f"has no public key in line {number}: each is as in the .pub files of ssh-keygen -t ecdsa")
    return public_bytes(key)


def stacked(rows: Iterable[np.ndarray | None], width: int) -> np.ndarray:
    """Keys or signatures of several members, zeros for who has none: uint8 of shape (m, width)."""
    return np.stack([np.zeros(width, np.uint8) if row is None else row for row in rows])


def _padded(content: bytes, size: int) -> np.ndarray:
    return np.frombuffer(bytes([len(content)]) + content.ljust(size - 1, b"\0"), np.uint8)


def unpadded(array: np.ndarray) -> bytes:
    """A key or a signature that has travelled; what follows it in its row says nothing."""
    content = np.ascontiguousarray(array).tobytes()
    return content[1 : 1 + content[0]]
