"""``audit.json``: what an audit has found, for reports and statements to cite."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dpforest import __version__
from dpforest.audit import AuditResult
from dpforest.errors import DPForestError
from dpforest.forest.json_format import write_json
from dpforest.ledger import json_number
from fl_app.engine.experiment import ConfigurationError, Experiment
from fl_app.results.finished import printable_values, read_json
from fl_app.results.shapes import Misshapen, check_audit
from strategies.audit import MethodAudit, Release

AUDIT = "audit.json"
_VERSION = 2


@dataclass(frozen=True)
class KeptAudit:
    """An audit as its file keeps it.

    Parameters
    ----------
    method, guarantee, unit, neighbours : str
        What was audited, and the rows that showed most.
    result : AuditResult
    violated : bool
    claims : bool
        Whether there was anything to hold.
    has_power : bool
        Whether the same with half the noise was caught.
    culprits : tuple of str
        By what it does not hold.
    seconds : float
    created, dpforest : str
        When, and by which version.
    experiment : mapping
        The configuration, whose run this is about.
    """

    method: str
    guarantee: str
    unit: str
    neighbours: str
    result: AuditResult
    violated: bool
    claims: bool
    has_power: bool
    culprits: tuple[str, ...]
    seconds: float
    created: str
    dpforest: str
    experiment: Mapping[str, Any]


def check_free(folder: Path) -> None:
    """Refuse a folder that has an audit already.

    Raises
    ------
    ConfigurationError
    """
    if (folder / AUDIT).exists():
        raise ConfigurationError(f"{folder / AUDIT} is there already: name another folder by output=DIR, or remove it")


def write_audit(found: MethodAudit, experiment: Experiment, folder: Path) -> Path:
    """Write an audit into a folder, which may be that of the run.

    Raises
    ------
    ConfigurationError
        The folder cannot be written, or has an audit already.
    """
    check_free(folder)
    plain = {
        "version": _VERSION,
        "method": found.method,
        "guarantee": found.guarantee,
        "unit": found.unit,
        "neighbours": found.world,
        "claims": found.claims,
        "violated": found.violated,
        "has_power": found.has_power,
        "culprits": list(found.culprits),
        "leaks": list(found.leaks),
        "result": found.result.to_dict(),
        "field": found.field.to_dict() if found.field else None,
        "releases": [_plain(release) for release in found.releases],
        "worlds": [vars(world) for world in found.worlds],
        "seconds": found.seconds,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "dpforest": __version__,
        "experiment": json.loads(experiment.to_json()),
    }
    path = folder / AUDIT
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(plain, path)
    except OSError as error:
        raise ConfigurationError(f"cannot write {path}: {error.strerror}") from error
    return path


def _plain(release: Release) -> dict[str, Any]:
    return {name: value if isinstance(value, str) else json_number(value) for name, value in vars(release).items()}


def read_audit(folder: Path) -> KeptAudit | None:
    """The audit in a folder; None if there is none.

    Raises
    ------
    Misshapen
        The file is damaged, or of a newer version.
    """
    if not (folder / AUDIT).is_file():
        return None
    try:
        plain = read_json(folder / AUDIT)
        if plain.get("version") != _VERSION:
            raise Misshapen(f"{AUDIT} is of version {plain.get('version')!r}, and this dpforest reads {_VERSION}")
        check_audit(plain)
        return _kept(printable_values(plain))
    except (OSError, ValueError, DPForestError) as error:
        raise Misshapen(f"{folder / AUDIT} is no audit of this version: {error}") from error


def _kept(plain: dict[str, Any]) -> KeptAudit:
    names = (field.name for field in fields(KeptAudit) if field.name not in ("result", "culprits"))
    result = AuditResult.from_dict(plain["result"])
    return KeptAudit(**{name: plain[name] for name in names}, result=result, culprits=tuple(plain["culprits"]))
