"""Names of the runs of a sweep: their number, and what differs among them."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path

_SHORT = {"privacy.epsilon": "eps", "evaluation.fold": "fold"}
_BARE = ("strategy", "dataset", "experiment", "case")  # whose value says enough
_LONGEST = 100  # characters of a name
_NUMBERED = re.compile(r"(\d+)(_.*)?", re.DOTALL)


def run_names(runs: Sequence[Sequence[str]]) -> list[str]:
    """Names such as ``03_boost_eps-1_seed-0`` of the runs of a sweep, as people count them.

    Parameters
    ----------
    runs : sequence of sequence of str
        The overrides of each.
    """
    width = max(2, len(str(len(runs))))
    given = [dict(text.partition("=")[::2] for text in run) for run in runs]
    keys = dict.fromkeys(key for each in given for key in each)
    differing = [key for key in keys if len({each.get(key) for each in given}) > 1]
    differing.sort(key=lambda key: (key not in _BARE, key == "seed"))  # who first, the seed last
    return [
        "_".join([f"{number:0{width}}", *(_part(key, each[key]) for key in differing if key in each)])[:_LONGEST]
        for number, each in enumerate(given, 1)
    ]


def _part(key: str, value: str) -> str:
    words = re.sub(r"[^\w.+-]+", "-", value.strip("'\"")).lstrip(".").rstrip("-.")
    return words if key in _BARE else f"{_SHORT.get(key, key.rpartition('.')[2].lstrip('+~'))}-{words}"


def free_place(output: Path, reserved: Collection[Path] = ()) -> Path:
    """A run's own folder, or that of the next number that neither a folder with files has, nor a reserved one.

    Folders of earlier versions have numbers alone.
    """
    named = _NUMBERED.fullmatch(output.name)
    if named is None:
        return output
    parent = output.parent
    filled = [path for path in parent.iterdir() if path.is_dir() and any(path.iterdir())] if parent.is_dir() else []
    taken = {int(found[1]) for path in (*filled, *reserved) if (found := _NUMBERED.fullmatch(path.name))}
    number, width = int(named[1]), len(named[1])
    while number in taken:
        number += 1
    return output.with_name(f"{number:0{width}}{named[2] or ''}")
