"""Making a matplotlib SVG part of a page: unique ids, and the page's own colours for paper and ink."""

from __future__ import annotations

import re
from itertools import count

_numbers = count(1)
_INK = re.compile(r"#000000\b", re.IGNORECASE)
_PAPER = re.compile(r"#ffffff\b|(?<=: )white(?=[;\"])", re.IGNORECASE)
_COLOUR = re.compile(r"(?<=: )#[0-9a-f]{6}(?=[;\"])", re.IGNORECASE)
_DARK = 0.16  # luminance below which a colour is hard to see on dark paper
_ID = re.compile(r'\bid="([^"]+)"')
_REFERENCE = re.compile(r'(href="#|url\(#)([^")]+)')
_SIZE = re.compile(r'(<svg\b[^>]*?) height="[\d.]+pt"([^>]*?) width="([\d.]+)pt"')
_HEAD = re.compile(r"^.*?(?=<svg\b)", re.DOTALL)
_METADATA = re.compile(r"<metadata>.*?</metadata>", re.DOTALL)


def inline(svg: str, label: str) -> str:
    """The ``svg`` element of a figure for a page.

    Parameters
    ----------
    svg : str
        A file that matplotlib wrote with ``svg.fonttype = none``.
    label : str
        What a screen reader says instead of the figure; already escaped for an attribute.
    """
    prefix = f"f{next(_numbers)}-"
    text = _METADATA.sub("", _HEAD.sub("", svg, count=1))
    text = _ID.sub(lambda found: f'id="{prefix}{found[1]}"', text)
    text = _REFERENCE.sub(lambda found: f"{found[1]}{prefix}{found[2]}", text)
    text = _SIZE.sub(lambda found: f'{found[1]}{found[2]} style="width:{found[3]}pt"', text, count=1)
    text = _PAPER.sub("var(--paper)", _INK.sub("currentColor", text))
    text = _COLOUR.sub(lambda found: _seen_on_both(found[0]), text)
    return text.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1).strip()


def _seen_on_both(colour: str) -> str:
    """A colour for CSS; a dark one is mixed with as much ink as the page says, which is none on white paper."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]  # WCAG 2.2, relative luminance
    return f"color-mix(in srgb, {colour}, var(--ink) var(--lift))" if luminance < _DARK else colour
