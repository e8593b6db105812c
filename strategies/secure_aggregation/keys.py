"""Keys, seals and shared secrets, all from ``cryptography`` and ``pycryptodome``."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping

from Crypto.Protocol.SecretSharing import Shamir
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from dpforest.errors import DPForestError

KEY_BYTES = 32
SEED_BYTES = 16  # what Shamir's scheme over GF(2^128) takes
_NONCE_BYTES, _TAG_BYTES = 12, 16
SEAL_BYTES = _NONCE_BYTES + _TAG_BYTES  # what a seal adds


class BadKey(DPForestError):
    """A public key, a seal or a restored secret is not what it should be."""


def derive(secret: bytes, salt: bytes, purpose: str) -> bytes:
    """A key of 32 bytes for one purpose (HKDF-SHA256, RFC 5869)."""
    return HKDF(SHA256(), KEY_BYTES, salt, purpose.encode()).derive(secret)


def round_key(seed: bytes) -> bytes:
    """The private X25519 key that a shared seed of 16 bytes stands for."""
    return derive(seed, b"", "round key")


def public_key(private: bytes) -> bytes:
    """The public X25519 key of a private one."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def agree(private: bytes, public: bytes) -> bytes:
    """The secret of a pair of X25519 keys (RFC 7748).

    Raises
    ------
    BadKey
        The public key has small order, so that the secret would be no secret.
    """
    try:
        return X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError as error:
        raise BadKey("a public key has small order; its client must make a new one") from error


def possession(private: bytes, public: bytes, holder: str) -> bytes:
    """What shows the owner of a public key that its holder has the private one; the same from both sides.

    Parameters
    ----------
    private, public : bytes
        Of the one who shows it and of the one who asks for it, or the reverse.
    holder : str
        Who shows it for which key: what one has shown, nobody else can show.

    Raises
    ------
    BadKey
        The public key has small order.
    """
    return derive(agree(private, public), b"", f"possession {holder}")


def keystream(key: bytes) -> Callable[[int], bytes]:
    """The next n bytes of AES-256 in counter mode, from counter 0; for keys that are used once."""
    encryptor = Cipher(AES256(key), CTR(bytes(16))).encryptor()
    return lambda n: encryptor.update(bytes(n))


def seal(key: bytes, content: bytes, context: bytes) -> bytes:
    """Encrypt and authenticate (AES-256-GCM); ``context`` is authenticated only."""
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, content, context)


def unseal(key: bytes, sealed: bytes, context: bytes) -> bytes:
    """What `seal` sealed.

    Raises
    ------
    BadKey
        The content, the context or the key is another.
    """
    try:
        return AESGCM(key).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], context)
    except InvalidTag as error:
        raise BadKey("a sealed share was altered on its way, or was meant for another client") from error


def commitment(seed: bytes) -> bytes:
    """What shows later that a restored seed is the right one, and tells nothing before (SHA-256)."""
    return hashlib.sha256(b"commitment" + seed).digest()


def part_hash(part: bytes, place: str) -> bytes:
    """What shows later that a part of a seed is the one that was shared (SHA-256, cut to the length of a seed).

    Parameters
    ----------
    part : bytes of length 16
    place : str
        Whose part of which secret it is, for whom.
    """
    return hashlib.sha256(f"part {place} ".encode() + part).digest()[:SEED_BYTES]


def split(seed: bytes, threshold: int, holders: int) -> list[bytes]:
    """Parts of a seed, for the holders 1, 2, ...; any ``threshold`` of them restore it (Shamir 1979)."""
    return [part for _, part in Shamir.split(threshold, holders, seed, ssss=False)]


def restore(parts: Mapping[int, bytes], threshold: int) -> bytes:
    """The seed from ``threshold`` or more parts by holder."""
    return Shamir.combine(sorted(parts.items())[:threshold], ssss=False)
