"""``statement.html``: what one run guarantees and what it does not, for who answers for the data."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from dpforest import __version__
from dpforest.errors import DPForestError
from dpforest.files import written_whole
from dpforest.guarantee import PrivacyUnit, Trust, TrustModel
from dpforest.ledger import ROUNDING, Entry, rounded_up, total_epsilon
from dpforest.ledger.groups import epsilon_curve, group_guarantee
from fl_app.report.curve import curve_svg
from fl_app.report.ledgers import Release, releases_of
from fl_app.report.protection import percent, protections, worst_entries
from fl_app.report.statement_template import TEMPLATE
from fl_app.results.attack import THIS
from fl_app.results.evidence import Evidence, evidence_of
from fl_app.results.finished import OPEN, FinishedRun, read_run
from fl_app.results.run_folder import STATEMENT

_DELTAS = tuple(10.0**-power for power in range(12, 3, -1))
_LIBRARIES = ("numpy", "scipy", "flwr", "opendp", "dp-accounting", "cryptography")
_MOST_LEDGERS, _MOST_LINES = 5, 60


# A ledger, and the clients that have it.
WhoseLedger = tuple[Mapping[str, Any], list[str]]


@dataclass(frozen=True)
class Clients:
    """Clients with the same ledger, and what left each of them."""

    names: str
    number: int
    releases: list[Release]
    more: int


def write_statement(folder: Path, name: str = "") -> Path:
    """Write the statement of a finished run into its folder, whole or not at all.

    Parameters
    ----------
    folder : Path
        Where the files of the run are.
    name : str, optional
        What the run is called, if not as the folder.

    Raises
    ------
    DPForestError
        The run is damaged, or its ledgers do not bear out what it claims.
    OSError
        The file cannot be written.
    """
    run = read_run(folder)
    ledgers = _by_ledger(run)
    _check_claim(run, ledgers)
    page = _page(run, ledgers, evidence_of(run), name or folder.absolute().name)
    with written_whole(folder / STATEMENT) as place:
        place.write_text(page, encoding="utf-8")
    return folder / STATEMENT


def _check_claim(run: FinishedRun, by_ledger: Sequence[WhoseLedger]) -> None:
    """Refuse a claim that the ledgers of the run do not bear out; totals are computed anew and never believed."""
    if not run.guarantee.holds:
        return
    delta, most = run.guarantee.delta, run.guarantee.epsilon * (1 + ROUNDING)
    ledgers = [[Entry.from_dict(entry) for entry in ledger["entries"]] for ledger, _ in by_ledger]
    bare = any(not entry.is_noised for entries in ledgers for entry in entries)
    # The costliest first; `dpforest ledger` counts them all.
    if bare or any(total_epsilon(entries, delta) > most for entries in ledgers[:_MOST_LEDGERS]):
        raise DPForestError(
            f"the ledgers in {run.folder / 'privacy.json'} cost more than the run claims (see dpforest ledger): a "
            "statement would say what is not so"
        )


def _page(run: FinishedRun, ledgers: Sequence[WhoseLedger], evidence: Evidence, name: str) -> str:
    """The page as text."""
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"rounded_up": rounded_up, "percent": percent}
    guarantee = run.guarantee
    holds = guarantee.holds
    entries = worst_entries(run) if holds else []
    points = [(delta, epsilon) for delta, epsilon in epsilon_curve(guarantee, entries, _DELTAS) if epsilon < math.inf]
    return environment.from_string(TEMPLATE).render(
        run=run,
        name=name,
        holds=holds,
        is_open=run.state == OPEN,
        is_simulated="seeded" in str(run.privacy.get("noise", "")),
        is_client_unit=guarantee.unit.kind == PrivacyUnit.CLIENT,
        nothing_left=not any(ledger["entries"] for ledger in run.privacy["clients"].values()),
        one=group_guarantee(guarantee, entries, 1) if holds else None,
        seen=_seen(guarantee.trust),
        factor=_factor(guarantee.epsilon),
        lines=protections(run),
        curve=Markup(curve_svg(points, guarantee.delta)) if len(points) > 2 else "",
        points=points,
        clients=_clients(ledgers[:_MOST_LEDGERS]),
        more_ledgers=max(0, len(ledgers) - _MOST_LEDGERS),
        audit=evidence.audit,
        attack=evidence.attack,
        attack_lines=[line for line in (evidence.attack or {}).get("membership", []) if line["of"] == THIS],
        remarks=evidence.remarks,
        versions=_versions(),
        made=datetime.now().strftime("%Y-%m-%d %H:%M"),
        made_by=__version__,
    )


def _by_ledger(run: FinishedRun) -> list[WhoseLedger]:
    """Different ledgers with the clients that have them; what protects worst comes first."""
    found: dict[str, tuple[Mapping[str, Any], list[str]]] = {}
    for client, ledger in run.privacy["clients"].items():
        found.setdefault(repr(ledger["entries"]), (ledger, []))[1].append(client)
    return sorted(found.values(), key=lambda each: -float(each[0]["epsilon"]))


def _clients(ledgers: Sequence[WhoseLedger]) -> list[Clients]:
    found = []
    for ledger, names in ledgers:
        releases = releases_of(ledger)
        listed = releases[:_MOST_LINES]
        found.append(Clients(_ranges(names), len(names), listed, len(releases) - len(listed)))
    return found


def _ranges(names: Sequence[str]) -> str:
    """Names of clients in short: 0 to 4, 7, 9."""
    if not all(name.isdecimal() and len(name) < 10 for name in names):
        return ", ".join(names)
    runs: list[list[int]] = []
    for number in sorted(map(int, names)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first} to {last}" for first, last in runs)


def _seen(trust: Trust) -> str:
    """What an attacker may see."""
    if trust.kind == TrustModel.CENTRAL or trust.model == "server trusted":
        return "see all that the server publishes after the noise"
    if trust.kind == TrustModel.SHARED or "secure aggregation" in trust:
        return "see the sums that secure aggregation lets out"
    return "see all that a client sends"


def _factor(epsilon: float) -> str:
    """How much likelier anything can become, rounded up."""
    if epsilon > 20:
        return "more than 480 million"
    factor = math.exp(epsilon)
    return rounded_up(factor, 3) if factor < 100 else f"{math.ceil(factor):,}"


def _versions() -> list[tuple[str, str]]:
    found = [("Python", platform.python_version())]
    for library in _LIBRARIES:
        try:
            found.append((library, version(library)))
        except PackageNotFoundError:
            continue
    return found
