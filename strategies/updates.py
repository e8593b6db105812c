"""What a client may send: values under a word for what protects them. A bare array is none of these.

`Released` needs a release under the client's ledger in the same message, `Unprotected` writes its own lines, and
`Entrusted` needs its line to have been charged; so what goes out by mistake is refused before it leaves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from dpforest.errors import DPForestError
from dpforest.ledger import Entry, Ledger

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Released:
    """Values that follow from what mechanisms have released in this message, and from public facts, alone.

    Raises
    ------
    DPForestError
        No mechanism has released anything under the ledger.
    """

    ledger: Ledger
    arrays: Arrays
    metrics: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.ledger.releases:
            raise DPForestError(
                f"{_names(self)} are said to be released, but no mechanism has released anything: "
                "release them by a mechanism, or send them as Public or Unprotected"
            )


@dataclass(frozen=True)
class Public:
    """Values that do not follow from rows: keys, public settings, times agreed on."""

    arrays: Arrays
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Unprotected:
    """Values that no mechanism protects; the ledger names them, once a run, and then guarantees nothing.

    Parameters
    ----------
    ledger : Ledger
    facts : mapping of str to str
        What goes out, as in `ServerSide.unprotected`, and why; not empty.
    """

    ledger: Ledger
    facts: Mapping[str, str]
    arrays: Arrays
    metrics: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.facts:
            raise DPForestError(f"{_names(self)} are unprotected: say what they are and why")
        known = {entry.what for entry in self.ledger.entries if not entry.protected}
        for what, why in self.facts.items():
            if what not in known:
                self.ledger.unprotected(what, why)


@dataclass(frozen=True)
class Entrusted:
    """Values for a server that is trusted to noise them, under a line that the client has charged.

    Raises
    ------
    DPForestError
        It has not.
    """

    ledger: Ledger
    entry: Entry
    arrays: Arrays
    metrics: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if all(self.entry.single != charged.single for charged in self.ledger.entries):
            raise DPForestError(f"{_names(self)} are sent for {self.entry.what!r}, which has not been charged")


Part = Released | Public | Unprotected | Entrusted


class Update:
    """What a client sends back, in parts; its ledger is added by the app.

    Raises
    ------
    DPForestError
        A part is a bare value, or two parts send values of one name.
    """

    def __init__(self, *parts: Part) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self.metrics: dict[str, float] = {}
        for part in parts:
            if not isinstance(part, Part):
                raise DPForestError(
                    f"an update holds a bare {type(part).__name__}: "
                    "send it as Released, Public, Unprotected or Entrusted"
                )
            if twice := sorted(part.arrays.keys() & self.arrays.keys() | part.metrics.keys() & self.metrics.keys()):
                raise DPForestError(f"two parts of an update are called {', '.join(twice)}")
            self.arrays.update(part.arrays)
            self.metrics.update(part.metrics)


def _names(part: Part) -> str:
    return ", ".join([*part.arrays, *part.metrics]) or "values"
