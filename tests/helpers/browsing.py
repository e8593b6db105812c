"""What the tests in a real browser share."""

from __future__ import annotations

import shutil

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), ""
)
# It runs as root in CI, and must ask nothing of a network.
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-sync")  # fmt: skip
PATIENCE = 300_000  # milliseconds, of a busy machine
PHONE, DESK = {"width": 390, "height": 844}, {"width": 1280, "height": 900}


def brightness(colour: str) -> float:
    """Of a colour as a browser writes it, from 0 to 765."""
    return sum(map(int, colour[colour.index("(") + 1 : -1].split(",")[:3]))
