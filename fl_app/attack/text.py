"""What attacks found, as tables for the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from fl_app.terminal.tables import aligned

_MEMBERSHIP = ("of", "level", "attack", "measured on", "AUC", "balanced acc.", "TPR at 1 %", "TPR at 0.1 %")
_WIDTH = 120


def attack_table(found: Mapping[str, Any]) -> str:
    """All tables, and what follows from them."""
    parts = [
        f"{found['method']}, epsilon {found['epsilon']}: {found['records']} records, {found['models']} shadow models, "
        f"{found['seconds']:.0f} s. In brackets: 95 % intervals.",
        "Who was in? (a coin has AUC and balanced accuracy 0.5, and as many true as false positives)",
        _table(_MEMBERSHIP, [*_allowed(found), *map(_membership, found["membership"])]),
    ]
    if influence := found["influence"]:
        parts.append(
            f"By exact distributions, a record moved the release by {influence['kind']} {influence['largest']:.3g} at "
            f"most and {influence['mean']:.3g} in the mean; {influence['paid']:.3g} was paid for each."
        )
    rebuilt, inferred = found["reconstruction"], found["attributes"]
    if rebuilt["lines"]:
        header = ("of", "guess", "cells right", "rows right")
        lines = [(each["of"], each["attack"], _three(each["cells"]), _three(each["rows"])) for each in rebuilt["lines"]]
        parts += ["Training rows rebuilt (in brackets: lowest and highest of three seeds)", _table(header, lines)]
    parts.append(rebuilt["note"])
    if inferred["lines"]:
        header = ("of", "guess", "whose records", "cells right")
        lines = [
            (each["of"] or "no model", each["attack"], each["whose"], _three(each["cells"]))
            for each in inferred["lines"]
        ]
        parts += ["One cell of a record inferred from all others", _table(header, lines)]
    parts.append(inferred["note"])
    return "\n\n".join(part if "\n" in part else textwrap.fill(part, _WIDTH) for part in [*parts, *found["words"]])


def _allowed(found: Mapping[str, Any]) -> list[Sequence[str]]:
    most = found["allowed"]
    if most is None:
        return [("", "", "allowed: anything, nothing is guaranteed", "", "1", "1", "1", "1")]
    rates = (f"{value:.4f}" for value in most["true_positives"].values())
    return [("", "", "the most that epsilon allows", "", f"{most['area']:.3f}", f"{most['balanced_accuracy']:.3f}",
             *rates)]  # fmt: skip


def _membership(each: Mapping[str, Any]) -> Sequence[str]:
    rates = (_three(value, 4) for value in each["true_positives"].values())
    return (each["of"], each["level"], each["attack"], each["whose"], _three(each["area"]),
            _three(each["balanced_accuracy"]), *rates)  # fmt: skip


def _three(values: Sequence[float] | None, digits: int = 3) -> str:
    if values is None:
        return "too few"
    value, low, high = values
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def _table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    return "\n".join(aligned([header, *lines]))
