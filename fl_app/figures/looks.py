"""How each method looks in every figure: a colour-blind safe colour, a mark and a line."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

_LINES, _MARKERS = ("-", "--", ":", "-."), ("o", "s", "^", "D", "v", "P", "X")
_SHADES = (0.0, -0.45, 0.35, -0.7)
# Sources' own numbers: grey crosses, whatever the method.
PUBLISHED = "0.45"


@dataclass(frozen=True)
class Look:
    """Colour, mark and line of a method."""

    colour: str
    marker: str = "o"
    line: str = "-"

    def variant(self, number: int) -> Look:
        """The look of a method's next setting: a lighter or darker shade of its colour, another mark and line."""
        if not number:
            return self
        return Look(
            _shade(self.colour, _SHADES[number % len(_SHADES)]),
            _MARKERS[(_MARKERS.index(self.marker) + number) % len(_MARKERS)],
            _LINES[(_LINES.index(self.line) + number) % len(_LINES)],
        )

    def at_level(self, number: int, of: int) -> Look:
        """The look at one of several epsilons: the smaller it is, the lighter; each has a mark of its own."""
        if of < 2:
            return self
        marker = _MARKERS[(_MARKERS.index(self.marker) + 1 + number) % len(_MARKERS)]
        return replace(self, colour=_shade(self.colour, 0.45 - 0.9 * number / (of - 1)), marker=marker)


# Okabe and Ito's colours, without yellow (too light on white), then darker ones of Tol's. A published setting has the
# colour of its tight one, squares and dashes. No two methods share all three, and colours that a colour-blind reader
# would confuse come with different marks (tests/fl_app/figures/test_looks.py).
_LOOKS = {
    "one_shot": Look("#0072B2"),
    "one_shot_published": Look("#0072B2", "s", "--"),
    "boost": Look("#D55E00"),
    "boost_distributed": Look("#882255", "^"),
    "fext": Look("#009E73"),
    "fext_published": Look("#009E73", "s", "--"),
    "ldp_bagging": Look("#857A00", "^"),
    "ldp_bagging_published": Look("#857A00", "s", "--"),
    "pp_fprf": Look("#AA4499", "D"),
    "pp_fprf_published": Look("#AA4499", "P", "--"),
    "pp_fgrf": Look("#332288", "D", "-."),
    "pp_fgrf_published": Look("#332288", "P", "--"),
    "lrf": Look("#661100", "D", ":"),
    "dp_sgd": Look("#CC79A7", "v"),
    "dp_fedavg": Look("#E69F00", "v"),
    "dp_fedavg_published": Look("#E69F00", "s", "--"),
    "fedavg": Look("#56B4E9", "v"),
    "fedavg_published": Look("#56B4E9", "s", "--"),
    "centralized": Look("#000000", "P"),
    "centralized_mlp": Look("#000000", "X", "--"),
    "standalone": Look("#6B6B6B", "P"),
    "standalone_mlp": Look("#6B6B6B", "X", "--"),
}


def _shade(colour: str, amount: float) -> str:
    """A colour mixed with white (above 0) or black (below)."""
    towards = 255 if amount > 0 else 0
    parts = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(part + abs(amount) * (towards - part)):02X}" for part in parts)


def known_looks() -> Mapping[str, Look]:
    """The methods that have a look of their own."""
    return _LOOKS


def look_of(row: Mapping[Any, Any]) -> Look:
    """The look of a run's method; boosting with secure aggregation and published settings have their own."""
    strategy = str(row["strategy"])
    for setting in ("noise", "accounting"):
        if look := _LOOKS.get(f"{strategy}_{row.get(f'strategy.{setting}')}"):
            return look
    return _LOOKS.get(strategy) or _unknown(strategy)


def colour_of(strategy: str) -> str:
    """The colour of a method, the same in every figure."""
    return look_of({"strategy": strategy}).colour


def _unknown(strategy: str) -> Look:
    """A look that always is the same for a method that is not in the table."""
    first, second = hashlib.sha256(strategy.encode()).digest()[:2]
    colours = sorted({look.colour for look in _LOOKS.values()})
    return Look(colours[first % len(colours)], _MARKERS[second % len(_MARKERS)], ":")
