"""The curve of epsilon over delta as a small SVG in the colours of its page."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpforest.ledger import rounded_up

_WIDTH, _HEIGHT = 480, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 16, 22, 46


def curve_svg(points: Sequence[tuple[float, float]], own: float) -> str:
    """A curve through points of (delta, epsilon), with a mark at one delta.

    Parameters
    ----------
    points : sequence of (float, float)
        At least two different deltas, sorted.
    own : float
        The delta of the mark, one of them.
    """
    first, last = math.log10(points[0][0]), math.log10(points[-1][0])
    most = max(epsilon for _, epsilon in points) or 1.0
    step = _step(most)
    top = step * math.ceil(most / step + 1e-9)

    def x(delta: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (math.log10(delta) - first) / (last - first)

    def y(epsilon: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * epsilon / top

    parts = []
    for number in range(round(top / step) + 1):
        height = y(number * step)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{height:.1f}" y2="{height:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{height + 4:.1f}" text-anchor="end">{number * step:g}</text>')
    for power in range(math.ceil(first), math.floor(last) + 1, 2):
        parts.append(f'<text x="{x(10.0**power):.1f}" y="{_HEIGHT - 27}" text-anchor="middle">1e{power}</text>')
    line = " ".join(f"{x(delta):.1f},{y(epsilon):.1f}" for delta, epsilon in points)
    mark = next(epsilon for delta, epsilon in points if delta == own)
    words = f"epsilon {rounded_up(mark, 4)} at delta {rounded_up(own)}"
    # The curve falls: below it and to the left there is room, or above it and to the right.
    anchor, place = ("end", y(mark) + 22) if x(own) > _WIDTH / 2 else ("start", y(mark) - 10)
    parts += [
        f'<polyline class="curve" points="{line}"/>',
        f'<circle class="mark" cx="{x(own):.1f}" cy="{y(mark):.1f}" r="4.5"/>',
        f'<text class="words" x="{x(own):.1f}" y="{place:.1f}" text-anchor="{anchor}">{words}</text>',
        f'<text x="{(_LEFT + _WIDTH - _RIGHT) / 2:.0f}" y="{_HEIGHT - 8}" text-anchor="middle">delta</text>',
        f'<text x="4" y="{_TOP - 8}">epsilon</text>',
    ]
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="Epsilon over delta: {words}">'
        f"{''.join(parts)}</svg>"
    )


def _step(most: float) -> float:
    """A round step of which three to six reach the largest value."""
    power = 10.0 ** math.floor(math.log10(most))
    return next(size * power for size in (0.2, 0.5, 1, 2, 5) if most / (size * power) <= 6)
