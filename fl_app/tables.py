"""Plain-text tables for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_NAMES = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "macro_f1": "macro F1",
    "precision": "precision",
    "recall": "recall",
    "f1": "F1",
    "roc_auc": "ROC-AUC",
    "log_loss": "log loss",
    "mse": "MSE",
    "mae": "MAE",
    "r2": "R^2",
    "pearson": "Pearson",
    "worst_client": "worst client",
}


def run_table(metrics: Mapping[str, Any], privacy: Mapping[str, Any]) -> str:
    """What one run reached, what it cost and what it guarantees."""
    rows = [(label, f"{metrics[name]:.4f}") for name, label in _NAMES.items() if name in metrics]
    rows += [
        ("test rows", f"{metrics.get('test_rows', 0):,}"),
        ("clients", str(metrics["clients"])),
        ("bytes down", human_bytes(metrics["bytes_down"])),
        ("bytes up", human_bytes(metrics["bytes_up"])),
        *([("raw rows instead", human_bytes(metrics["bytes_of_rows"]))] if "bytes_of_rows" in metrics else []),
        ("seconds", f"{metrics['seconds']:.1f}"),
        ("privacy", str(privacy["guarantee"])),
        ("record", str(privacy["record"])),
    ]
    if privacy.get("note"):
        rows.append(("note", str(privacy["note"])))
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"  {name:<{width}}  {value}" for name, value in rows)


def human_bytes(size: float) -> str:
    """A size with its unit."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(size) < 1000 or unit == "GB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError


def columns(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligned columns under a header."""
    widths = [max(len(str(row[i])) for row in (header, *rows)) for i in range(len(header))]
    lines = [
        "  ".join(str(cell).ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in (header, *rows)
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])
