"""What attacks on a run found: ``attack.json`` in its folder, and the words of its table of membership."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fl_app.results.run_folder import PARTIAL

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
    partial = path.with_name(f"{PARTIAL}{path.name}-{os.getpid()}")
    try:
        partial.write_text(json.dumps(found, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


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
