"""Integers mod 2^k: signed vectors in, uniform masks on top, signed sums out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpforest.errors import DPForestError
from strategies.secure_aggregation.keys import keystream

_BYTES_AT_ONCE = 1 << 18  # small enough to stay in the cache between the cipher and the addition


@dataclass(frozen=True)
class Field:
    """The integers mod 2^bits, with -2^(bits-1) .. 2^(bits-1) - 1 as their signed reading.

    Parameters
    ----------
    bits : {32, 64}
    """

    bits: int

    @classmethod
    def for_sums(cls, largest_sum: int) -> Field:
        """The smaller field in which sums of up to ``largest_sum`` in absolute value do not wrap around.

        Raises
        ------
        DPForestError
            It does not fit 64 bits.
        """
        for bits in (32, 64):
            if largest_sum < 1 << (bits - 1):
                return cls(bits)
        raise DPForestError(
            f"sums of up to {largest_sum} do not fit 64 bits; scale the values down to at most {2**63 - 1} in sum"
        )

    @property
    def dtype(self) -> np.dtype:
        """Of vectors of the field."""
        return np.dtype(f"<u{self.bits // 8}")

    def encode(self, vector: np.ndarray) -> np.ndarray:
        """Signed integers of shape (n,) as elements of the field; a new array."""
        return vector.astype(np.int64).astype(self.dtype)

    def decode(self, vector: np.ndarray) -> np.ndarray:
        """Elements of the field of shape (n,) as int64."""
        return vector.view(f"<i{self.bits // 8}").astype(np.int64)

    def add_mask(self, vector: np.ndarray, key: bytes, sign: int) -> None:
        """Add or subtract the mask of a key, in place.

        Parameters
        ----------
        vector : ndarray of shape (n,)
            Of the field.
        key : bytes of length 32
            For one mask only.
        sign : {1, -1}
        """
        stream = keystream(key)
        step = _BYTES_AT_ONCE // self.dtype.itemsize
        combine = np.add if sign > 0 else np.subtract
        for start in range(0, len(vector), step):
            part = vector[start : start + step]
            combine(part, np.frombuffer(stream(part.nbytes), self.dtype), out=part)
