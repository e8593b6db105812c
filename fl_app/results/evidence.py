"""What was measured about a run: the attack in its folder, and an audit there or in the folder above.

An attack is on one run, an audit about a configuration, whose runs may stand in one folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpforest.errors import one_line
from fl_app.results.attack import ATTACK
from fl_app.results.audit_file import AUDIT, KeptAudit, read_audit
from fl_app.results.finished import FinishedRun
from fl_app.results.shapes import Misshapen


@dataclass(frozen=True)
class Evidence:
    """Audit and attack of one run.

    Parameters
    ----------
    audit : KeptAudit or None
        None if there is none of this run's method, options and budget.
    attack : mapping or None
        As in ``attack.json``; None if there is none of this run.
    remarks : tuple of str
        Files that are there and are not cited, and why.
    """

    audit: KeptAudit | None
    attack: Mapping[str, Any] | None
    remarks: tuple[str, ...] = ()


def evidence_of(run: FinishedRun) -> Evidence:
    """Read what was measured about a run."""
    remarks: list[str] = []
    attack = run.attack
    if attack is not None and not _is_attack_on(attack, run):
        attack = None
        remarks.append(_of_another(ATTACK))
    return Evidence(_find_audit(run, remarks), attack, tuple(remarks))


def _find_audit(run: FinishedRun, remarks: list[str]) -> KeptAudit | None:
    for folder in (run.folder, run.folder.parent):
        try:
            audit = read_audit(folder)
        except Misshapen as error:
            remarks.append(f"{AUDIT} is not cited: {one_line(str(error), 300)}")
            continue
        if audit is not None and _is_audit_of(audit, run):
            return audit
        if audit is not None:
            remarks.append(_of_another(AUDIT))
    return None


def _of_another(name: str) -> str:
    return f"{name} is not cited, as it is about another configuration than this run's"


def _is_audit_of(audit: KeptAudit, run: FinishedRun) -> bool:
    """Whether an audit is of the method of this run, with its options and its budget; of whatever rows."""
    theirs, ours = audit.experiment, run.config
    try:
        budgets = [(float(each["privacy"]["epsilon"]), float(each["privacy"]["delta"])) for each in (theirs, ours)]
    except (KeyError, TypeError, ValueError):
        return False
    return bool(theirs.get("strategy") == ours["strategy"] and budgets[0] == budgets[1])


def _is_attack_on(attack: Mapping[str, Any], run: FinishedRun) -> bool:
    return attack["method"] == run.method and float(attack["epsilon"]) == run.epsilon
