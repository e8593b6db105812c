"""Sound inputs, a little or very damaged; the same for the same generator."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

DEEP = 20_000
_TOKENS = [
    b"[",
    b"{",
    b"]",
    b"}",
    b'"',
    b"'",
    b",",
    b";",
    b"\t",
    b"|",
    b":",
    b": ",
    b"- ",
    b"\n",
    b"\r\n",
    b"\r",
    b"\0",
    b"\xff",
    b"\xfe",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"&a",
    b"*a",
    b"!!int x",
    b"!!bool x",
    b"!!timestamp x",
    b"!!binary =",
    b"<<: 3",
    b"? ",
    b"%",
    b"#",
    b"=",
    b"NaN",
    b"Infinity",
    b"-1",
    b"0",
    b"1e999",
    b"-1e39",
    b"1e-320",
    b"null",
    b"true",
    b"1_0",
    b"2020-13-45",
    b"1:1:1",
    b"0x",
    b'"\\ud800"',
    b"\x1b[2J",
    b"$\\bad{$",
    "\u202e".encode(),
    b"9" * 400,
    b"9" * 5000,
    b"[" * DEEP,
    b"{" * DEEP,
    b"- " * DEEP,
    b'{"a":' * DEEP,
    b"x," * DEEP,
    b"x" * 140_000,
]
_ODD: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1,
    2,
    2**31,
    -(2**63),
    2**64,
    10**18,
    10**400,
    0.5,
    -0.0,
    1e-320,
    1e39,
    -1e39,
    1e300,
    1.7e308,
    float("nan"),
    float("inf"),
    -float("inf"),
    "",
    "x",
    "inf",
    "nan",
    "1",
    "\0",
    "\ud800",
    "\x1b[2J",
    "$\\bad{$",
    "all",
    "x" * 100_000,
    [],
    {},
    [[]],
    {"a": 1},
    [1, 2],
    ["x"],
    [None],
    {"name": "x"},
]


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    """Bytes with a few places cut, doubled, changed, or with tokens of its and other languages put in."""
    for _ in range(rng.integers(1, 4)):
        at = int(rng.integers(len(content) + 1))
        length = int(rng.integers(1, 1 + max(1, len(content) // int(rng.choice([1, 4, 50])))))
        kind = rng.integers(6)
        if kind == 0:
            content = content[:at]
        elif kind == 1:
            content = content[:at] + content[at + length :]
        elif kind == 2:
            content = content[:at] + content[at : at + length] * int(rng.choice([2, 3, 50])) + content[at + length :]
        elif kind == 3:
            content = content[:at] + rng.bytes(int(rng.integers(1, 5))) + content[at + 1 :]
        else:
            token = _TOKENS[rng.integers(len(_TOKENS))]
            content = content[:at] + token + content[at + int(rng.integers(2)) :]
    return content


def damaged_plain(plain: Any, rng: np.random.Generator) -> Any:
    """Plain data with a few values lost, doubled, swapped or replaced."""
    plain = copy.deepcopy(plain)
    for _ in range(rng.integers(1, 4)):
        holder, key = _place(plain, rng)
        if holder is None:
            return odd(rng)
        kind = rng.integers(8)
        if kind == 0:
            del holder[key]
        elif kind == 1 and isinstance(holder, list):
            holder += [copy.deepcopy(holder[key]) for _ in range(int(rng.choice([1, 2, 1000])))]
        elif kind == 1:
            holder[str(odd(rng))[:50]] = odd(rng)
        elif kind == 2:
            other, its = _place(plain, rng)
            if other is not None:
                holder[key] = copy.deepcopy(other[its])
        else:
            holder[key] = odd(rng)
    return plain


def odd(rng: np.random.Generator) -> Any:
    """A value that few expect."""
    chosen = int(rng.integers(len(_ODD) + 1))
    if chosen < len(_ODD):
        return copy.deepcopy(_ODD[chosen])
    nested: Any = 1
    for _ in range(int(rng.choice([30, 100, 400]))):
        nested = [nested] if rng.integers(2) else {"a": nested}
    return nested


def _place(plain: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    """A value inside of plain data, by what holds it and its key there."""
    holder, key, value = None, None, plain
    while isinstance(value, dict | list) and value and (holder is None or rng.random() < 0.75):
        keys = list(value) if isinstance(value, dict) else range(len(value))
        holder, key = value, keys[int(rng.integers(len(keys)))]
        value = holder[key]
    return holder, key
