"""Plain-text tables for the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dpforest.ledger import rounded_up
from fl_app.terminal.tables import columns
from strategies.metrics import COVERAGE, metrics_of, primary_metric


def run_table(metrics: Mapping[str, Any], privacy: Mapping[str, Any], width: int | None = None) -> str:
    """What one run reached, what it cost and what it guarantees; within the width of a terminal."""
    scores = {metric.name: metric.label for metric in metrics_of()} | {"worst_client": "worst client"}
    rows = [
        (label, f"{metrics[name]:.4f}{_interval(name, metrics)}") for name, label in scores.items() if name in metrics
    ]
    rows += [
        ("test rows", f"{metrics['test_rows']:,}" if "test_rows" in metrics else "none: no test metrics came"),
        ("clients", clients_in_words(metrics)),
        ("bytes down", human_bytes(metrics["bytes_down"])),
        ("bytes up", human_bytes(metrics["bytes_up"])),
        *([("raw rows instead", human_bytes(metrics["bytes_of_rows"]))] if "bytes_of_rows" in metrics else []),
        ("seconds", f"{metrics['seconds']:.1f}"),
        ("privacy", str(privacy["guarantee"])),
        ("record", str(privacy["record"])),
    ]
    if privacy.get("note"):
        rows.append(("note", str(privacy["note"])))
    if "ended_early" in metrics:
        rows.append(("ended early", str(metrics["ended_early"])))
    return fact_lines(rows, width, "  ")


def fact_lines(facts: Sequence[tuple[str, str]], width: int | None = None, indent: str = "") -> str:
    """Names and what is said of each, side by side; what is wider than ``width`` goes on in the next line."""
    column = max(len(name) for name, _ in facts)
    lines = []
    for name, words in facts:
        start = f"{indent}{name:<{column}}  "
        room = max(20, width - len(start)) if width else len(words) + 1
        lines.append(start + f"\n{' ' * len(start)}".join(textwrap.wrap(words, room) or [""]))
    return "\n".join(lines)


def _interval(name: str, metrics: Mapping[str, Any]) -> str:
    if name not in metrics.get("intervals", {}):
        return ""
    low, high = metrics["intervals"][name]
    return f"  (noised; exact: {low:.4f} to {high:.4f} in {100 * COVERAGE:g} % of such runs)"


def clients_in_words(metrics: Mapping[str, Any]) -> str:
    """How many clients trained of how many, and which were left out and why; runs of older versions say less."""
    clients, left_out = metrics["clients"], metrics.get("left_out", {})
    if not left_out:
        return str(clients)
    by_reason: dict[str, list[str]] = {}
    for client, why in left_out.items():
        by_reason.setdefault(why, []).append(client)
    words = "; ".join(
        f"client{'s' if len(those) > 1 else ''} {', '.join(those)} left out ({why})" for why, those in by_reason.items()
    )
    return f"{metrics.get('trained', clients - len(left_out))} of {clients} trained all through: {words}"


# What all methods have of a client; of their metrics, the table shows the one that they are compared by.
_USUAL = {"client", "trains", "test_rows", "bytes_down", "bytes_up", "failures"}


def client_table(clients: Sequence[Mapping[str, Any]], width: int | None = None) -> str:
    """What only this method has of each client, with means where clients have types; empty if there is nothing."""
    usual = _USUAL | {metric.name for metric in metrics_of() if not metric.is_primary}
    names = [key for key in dict.fromkeys(key for row in clients for key in row) if key not in usual]
    if set(names) <= {primary_metric(names).name, "type"}:
        return ""
    lines = [[str(row["client"]), *(_cell(row.get(name)) for name in names)] for row in clients]
    types = sorted({row["type"] for row in clients if "type" in row})
    for kind in [*types, "all"]:
        group = [row for row in clients if kind in (row.get("type"), "all")]
        means = [_mean(row.get(name) for row in group) for name in names]
        lines.append(["mean", *(kind if name == "type" else mean for name, mean in zip(names, means, strict=True))])
    return columns(["client", *names], lines, width)


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _mean(values: Iterable[Any]) -> str:
    numbers = [value for value in values if isinstance(value, int | float)]
    return f"{sum(numbers) / len(numbers):.4g}" if numbers else ""


def decimals(value: float) -> str:
    """Three decimals; the R^2 of a model that diverged may have hundreds of digits before them."""
    return f"{value:z.3f}" if abs(value) < 1000 else f"{value:.3g}"


def short_delta(delta: float) -> str:
    """The delta of a guarantee, or that it needs none."""
    return f"delta {rounded_up(delta)}" if delta else "pure"


def human_bytes(size: float) -> str:
    """A size with its unit."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(size) < 1000 or unit == "GB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError
