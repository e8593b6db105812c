"""``audit.json``: what an audit has found, for reports and statements to cite."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dpforest import __version__
from dpforest.audit import AuditResult
from dpforest.errors import DPForestError
from dpforest.forest.json_format import write_json
from dpforest.ledger import json_number
from dpforest.texts import BadText, parse_json
from fl_app.engine.experiment import ConfigurationError, Experiment
from fl_app.results.shapes import Misshapen
from strategies.audit import MethodAudit

AUDIT = "audit.json"
_VERSION = 1
_TEXTS = ("method", "guarantee", "unit", "neighbours", "created", "dpforest")
_LISTS = ("culprits", "leaks", "releases", "worlds")


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
        "culprits": list(found.culprits),
        "leaks": list(found.leaks),
        "result": found.result.to_dict(),
        "field": found.field.to_dict() if found.field else None,
        "releases": [vars(release) | {"claim": json_number(release.claim)} for release in found.releases],
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


def read_audit(folder: Path) -> KeptAudit | None:
    """The audit in a folder; None if there is none.

    Raises
    ------
    Misshapen
        The file is damaged, or of a newer version.
    """
    path = folder / AUDIT
    if not path.is_file():
        return None
    try:
        plain = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, BadText) as error:
        raise Misshapen(f"{path} cannot be read: {error}") from error
    try:
        return _kept(plain)
    except (KeyError, TypeError, ValueError, DPForestError) as error:
        raise Misshapen(f"{path} is no audit of this version: {error}") from error


def _kept(plain: Any) -> KeptAudit:
    if not isinstance(plain, dict) or plain.get("version") != _VERSION:
        raise ValueError(f"expected version {_VERSION}")
    for name in _TEXTS:
        if not isinstance(plain[name], str):
            raise TypeError(f"{name} must be text")
    for name in ("violated", "claims"):
        if not isinstance(plain[name], bool):
            raise TypeError(f"{name} must be true or false")
    for name in _LISTS:
        if not isinstance(plain[name], list):
            raise TypeError(f"{name} must be a list")
    if not isinstance(plain["experiment"], dict):
        raise TypeError("experiment must be a configuration")
    return KeptAudit(
        **{name: plain[name] for name in (*_TEXTS, "violated", "claims", "experiment")},
        result=AuditResult.from_dict(plain["result"]),
        culprits=tuple(map(str, plain["culprits"])),
        seconds=float(plain["seconds"]),
    )
