"""What each method reveals, for the person who answers for the data: one plain table a method."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dpforest.errors import DPForestError
from dpforest.ledger import TEST_ROWS, rounded_up
from fl_app.report.protection import Protection, protections
from fl_app.report.sections import Section, nearest_to_one
from fl_app.results.finished import OPEN, PRIVATE, UNPROVEN, FinishedRun
from fl_app.results.run_folder import STATEMENT
from strategies.method import Scope
from strategies.metrics import COVERAGE, metrics_of
from strategies.registry import scope_of


@dataclass(frozen=True)
class Release:
    """One line: what leaves a client, how it is protected, and how much of the budget it takes."""

    what: str
    protection: str
    times: str
    cost: str
    share: str
    note: str
    protected: bool


@dataclass(frozen=True)
class Disclosure:
    """What one setting guarantees at one epsilon, and the releases of its worst-protected client.

    ``stays`` says that nothing leaves a client, so that nothing needs a guarantee.
    """

    setting: str
    epsilon: float
    state: str
    stays: bool
    facts: list[tuple[str, str]]
    releases: list[Release]
    others: str
    statement: Path | None


def disclosures(section: Section) -> list[Disclosure]:
    """One table a setting, at the epsilon nearest to 1; the others that were run are named."""
    found = []
    for _, runs in section.frame.groupby("setting"):
        epsilons = sorted({float(epsilon) for epsilon in runs["epsilon"]})
        chosen = nearest_to_one(epsilons) or math.inf
        first = section.runs[runs.index[runs["epsilon"] == chosen][0]]
        others = ", ".join(rounded_up(epsilon) for epsilon in epsilons if math.isfinite(epsilon) and epsilon != chosen)
        found.append(_disclosure(first, others))
    order = (PRIVATE, UNPROVEN, OPEN)
    return sorted(found, key=lambda each: (order.index(each.state), each.setting))


def _disclosure(run: FinishedRun, others: str) -> Disclosure:
    privacy, state = run.privacy, run.state
    clients = privacy["clients"]
    stays = state == OPEN and scope_of(run.method) is Scope.ALONE
    worst = max(clients.values(), key=lambda ledger: float(ledger["epsilon"]))
    answers = {PRIVATE: "yes", OPEN: "no: nothing is protected"}
    unit = str(run.guarantee.unit)
    protected = {PRIVATE: unit, UNPROVEN: f"nothing for sure; claimed: {unit}", OPEN: "nothing"}
    if stays:
        answers[OPEN], protected[OPEN] = "none is needed: nothing but test metrics leaves a client", "nothing is sent"
    facts = [
        (
            "Does a guarantee hold?",
            answers.get(state, "no: there is noise, but it does not give what is claimed"),
        ),
        ("In words", str(run.guarantee)),
        ("What is protected", protected[state]),
        ("A record is", str(privacy["record"])),
        ("Who is trusted", str(run.guarantee.trust)),
        ("Clients with a ledger", str(len(clients))),
        ("Noise", str(privacy.get("noise", ""))),
        ("Not covered" if "intervals" not in run.metrics else "Test metrics", str(privacy.get("evaluation", ""))),
    ]
    if intervals := run.metrics.get("intervals"):
        facts.append(("Metrics with noise", _metrics_with_noise(run, intervals)))
    if privacy.get("note"):
        facts.append(("Mind", str(privacy["note"])))
    with suppress(DPForestError):  # ledgers of another version
        facts += [(each.what, _protected_by(each)) for each in protections(run)[1:]]
    statement = run.folder / STATEMENT
    link = statement if statement.is_file() else None
    return Disclosure(run.setting, run.epsilon, state, stays, facts, releases_of(worst), others, link)


def _metrics_with_noise(run: FinishedRun, intervals: dict[str, list[float]]) -> str:
    labels = {metric.name: metric.label for metric in metrics_of()}
    parts = [
        f"{labels[name]} {run.metrics[name]:.4g} [{low:.4g}, {high:.4g}]" for name, (low, high) in intervals.items()
    ]
    return f"{', '.join(parts)}: the exact ones lie there in {100 * COVERAGE:g} % of such runs"


def _protected_by(protection: Protection) -> str:
    group = protection.group
    if group is None:
        return protection.unknown
    if not group.is_useful:
        return "nothing useful"
    return f"epsilon {rounded_up(group.epsilon, 4)}, delta {rounded_up(group.delta, 3)}"


def releases_of(ledger: Mapping[str, Any]) -> list[Release]:
    """The lines of a ledger, in words; equal ones once."""
    budget = float(ledger["budget"]["epsilon"])
    # The squares of mu add up, where no release is drawn with a probability or has an epsilon of its own.
    trained = [entry for entry in ledger["entries"] if entry["rows"] != TEST_ROWS]
    squares = sum(entry["times"] * float(entry["mu"]) ** 2 for entry in trained)
    only_mu = all(float(entry["mu"]) and entry["sampling"] == 1 for entry in trained if entry["protected"])
    lines = []
    for entry in ledger["entries"]:
        each, mu = float(entry["epsilon"]), float(entry["mu"])
        if not entry["protected"]:
            protection, cost, share = "nothing", "not bounded", ""
        elif math.isinf(each) or math.isinf(mu):
            protection, cost, share = f"{entry['mechanism']} without noise", "not bounded", ""
        elif mu:
            protection, cost = entry["mechanism"], f"mu = {rounded_up(mu, 4)}"
            share = f"{100 * entry['times'] * mu**2 / squares:.0f} %" if only_mu and math.isfinite(squares) else ""
        else:
            protection, cost = entry["mechanism"], f"epsilon = {rounded_up(each, 4)}"
            share = f"{100 * each * entry['times'] / budget:.0f} %" if math.isfinite(budget) else ""
        if entry["protected"] and entry.get("scale"):
            protection += f", scale {entry['scale']:.6g} for a sensitivity of {entry['sensitivity']:.6g}"
        if entry["sampling"] < 1:
            cost += f", drawn with probability {entry['sampling']:.3g}"
        note = entry["note"] + ("" if entry["rows"] == "all" else f" (rows: {entry['rows']})")
        lines.append(Release(entry["what"], protection, str(entry["times"]), cost, share, note, entry["protected"]))
    return _merged(lines)


def _merged(lines: list[Release]) -> list[Release]:
    """Equal lines of different parts of the rows, one after another, are shown once with their number."""
    found: dict[tuple[str, str, str, str], list[Release]] = {}
    for line in lines:
        found.setdefault((line.what, line.protection, line.times, line.cost), []).append(line)
    merged = []
    for same in found.values():
        first = same[0]
        if len(same) > 1:
            first = replace(first, note=f"{len(same)} such lines in the ledger; first: {first.note}")
        merged.append(first)
    return merged
