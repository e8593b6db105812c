"""What was measured about a run: ``attack.json`` in its folder, and ``audit.json`` there or in the folder above.

An attack is on one run, an audit about a configuration, whose runs may stand in one folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpforest.errors import one_line
from fl_app.results.finished import FinishedRun, read_json
from fl_app.results.shapes import check_cited_attack, check_cited_audit

AUDIT, ATTACK = "audit.json", "attack.json"


@dataclass(frozen=True)
class Evidence:
    """Audit and attack of one run.

    Parameters
    ----------
    audit, attack : mapping or None
        As in their files, of which the keys that statements cite are checked; None if there is none of this run.
    remarks : tuple of str
        Files that are there and are not cited, and why.
    """

    audit: Mapping[str, Any] | None
    attack: Mapping[str, Any] | None
    remarks: tuple[str, ...] = ()


def evidence_of(run: FinishedRun) -> Evidence:
    """Read what was measured about a run."""
    remarks: list[str] = []
    folder = run.folder
    audit = _find((folder, folder.parent), AUDIT, check_cited_audit, lambda found: _is_audit_of(found, run), remarks)
    attack = _find((folder,), ATTACK, check_cited_attack, lambda found: _is_attack_on(found, run), remarks)
    return Evidence(audit, attack, tuple(remarks))


def _find(
    folders: Sequence[Path],
    name: str,
    check: Callable[[Mapping[str, Any]], None],
    is_of_run: Callable[[Mapping[str, Any]], bool],
    remarks: list[str],
) -> Mapping[str, Any] | None:
    for path in (folder / name for folder in folders):
        if not path.is_file():
            continue
        try:
            found = read_json(path)
            check(found)
        except (OSError, ValueError) as error:
            remarks.append(f"{name} is not cited, as it cannot be read: {one_line(str(error), 300)}")
            continue
        if is_of_run(found):
            return found
        remarks.append(f"{name} is not cited, as it is about another configuration than this run's")
    return None


def _is_audit_of(audit: Mapping[str, Any], run: FinishedRun) -> bool:
    """Whether an audit is of the method of this run, with its options and its budget; of whatever rows."""
    theirs, ours = audit["experiment"], run.config
    try:
        budgets = [(float(each["privacy"]["epsilon"]), float(each["privacy"]["delta"])) for each in (theirs, ours)]
    except (KeyError, TypeError, ValueError):
        return False
    return bool(theirs.get("strategy") == ours["strategy"] and budgets[0] == budgets[1])


def _is_attack_on(attack: Mapping[str, Any], run: FinishedRun) -> bool:
    return attack["method"] == run.method and float(attack["epsilon"]) == run.epsilon
