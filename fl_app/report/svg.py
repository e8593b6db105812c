"""Making a matplotlib SVG part of a page: unique ids, and the page's own colours for paper and ink."""

from __future__ import annotations

import re
from itertools import count

_numbers = count(1)
_INK = re.compile(r"#000000\b", re.IGNORECASE)
_PAPER = re.compile(r"#ffffff\b|(?<=: )white(?=[;\"])", re.IGNORECASE)
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
    return text.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1).strip()
