"""What attacks on a run found: ``attack.json`` in its folder, and the words of its table of membership."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpforest.files import written_whole

ATTACK = "attack.json"
# What was attacked, and on what it was measured.
THIS, WITHOUT_NOISE = "this method", "without noise"
MODELS_LIKE_IT, THIS_MODEL = "models like it", "this model"
# What is known to the attacker.
OUTPUTS, FILE, INFORMED = "outputs", "file", "all other rows"
LEVELS = (OUTPUTS, FILE, INFORMED)

Found = Mapping[str, Any]


def write_attack(found: Found, path: Path) -> None:
    """Write what attacks found, whole or not at all.

    Raises
    ------
    OSError
    """
    with written_whole(path) as place:
        place.write_text(json.dumps(found, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def own_lines(found: Found) -> list[dict[str, Any]]:
    """Lines of membership about the attacked method, over many models like the attacked one, or by exact tests."""
    return [
        line
        for line in found["membership"]
        if line["of"] == THIS and (line["whose"] == MODELS_LIKE_IT or line["level"] == INFORMED)
    ]


def strongest(found: Found, level: str) -> dict[str, Any] | None:
    """The line with the largest area of those at a level of knowledge, or below it: who knows more can do less."""
    below = LEVELS[: LEVELS.index(level) + 1]
    return max(
        (line for line in own_lines(found) if line["level"] in below), key=lambda line: line["area"][0], default=None
    )
