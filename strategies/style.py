"""How figures show a method: a colour-blind safe colour, a mark and a line, the same in every figure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
# What settings of one method may look like: a published one and its variants have dashes, and no other has.
_DASHED, _OTHERS = (("s", "P", "X", "D"), ("--",)), (("o", "^", "v", "D"), ("-", ":", "-."))
_SHADES = (0.0, -0.45, 0.35, -0.7)
# Okabe and Ito's colours, without yellow (too light on white), then darker ones of Tol's.
_PALETTE = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#882255", "#857A00", "#AA4499", "#332288",
    "#661100", "#6B6B6B",
)  # fmt: skip


@dataclass(frozen=True)
class Style:
    """Colour, mark and line of a method.

    No two methods of the project share all three, and colours that a colour-blind reader would confuse come with
    different marks.
    """

    colour: str
    marker: str = "o"
    line: str = "-"

    def variant(self, number: int) -> Style:
        """The style of a method's next setting: a lighter or darker shade of its colour, another mark and line.

        A published setting stays one for the eye: no variant takes the marks and dashes of the other kind.
        """
        if not number:
            return self
        markers, lines = _DASHED if self.line == "--" else _OTHERS
        return Style(
            _shade(self.colour, _SHADES[number % len(_SHADES)]),
            _after(markers, self.marker, number),
            _after(lines, self.line, number),
        )

    def at_level(self, number: int, of: int) -> Style:
        """The style at one of several epsilons: the smaller it is, the lighter; each has a mark of its own."""
        if of < 2:
            return self
        marker = _MARKERS[(_MARKERS.index(self.marker) + 1 + number) % len(_MARKERS)]
        return replace(self, colour=_shade(self.colour, 0.45 - 0.9 * number / (of - 1)), marker=marker)


def published_or(tight: Style, published: Style) -> Callable[[Mapping[str, Any]], Style]:
    """The style of a method with a published setting; that one has its colour, squares or crosses, and dashes."""
    return lambda settings: published if settings.get("accounting") == "published" else tight


def shared_or(alone: Style, shared: Style) -> Callable[[Mapping[str, Any]], Style]:
    """The style of a method that may share its noise by secure aggregation, where it looks like one of its own."""
    return lambda settings: shared if settings.get("trust") == "shared" else alone


def palette_style(name: str) -> Style:
    """A style that always is the same for a method that brings none."""
    first, second = hashlib.sha256(name.encode()).digest()[:2]
    return Style(_PALETTE[first % len(_PALETTE)], _MARKERS[second % len(_MARKERS)], ":")


def _after(words: Sequence[str], word: str, number: int) -> str:
    """The word so many places behind another one, or behind the first where that is not among them."""
    start = words.index(word) if word in words else 0
    return words[(start + number) % len(words)]


def _shade(colour: str, amount: float) -> str:
    """A colour mixed with white (above 0) or black (below)."""
    towards = 255 if amount > 0 else 0
    parts = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(part + abs(amount) * (towards - part)):02X}" for part in parts)
