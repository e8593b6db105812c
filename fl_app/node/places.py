"""One node at a time on some data and in a state folder, and one place for the budget of the data.

Two nodes on the same data would each spend a whole budget. So a node that runs holds a lock on its data, and the user's
own state folder remembers in which folder the budget of which data is: another one would begin from nothing.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from dpforest.errors import DPForestError
from dpforest.files import written_whole
from fl_app.engine.node_state import SECRET, state_folder
from fl_app.node.owner_file import OwnerFile
from strategies.node.budget_file import BudgetFile

try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None  # type: ignore[assignment]

_HOMES = "data"


class StateLost(DPForestError):
    """The node's state is not, or not all, where it was: nobody knows what has been spent."""


class NodeRuns(DPForestError):
    """Another node is running on the same data, or with the same state folder."""


def check_state(owner: OwnerFile) -> None:
    """Be sure that what has been spent is known, and keep a new file for it where all is new.

    Raises
    ------
    StateLost
        A part of the state is gone, or the data has its state somewhere else.
    BrokenBudgetFile
        The budget file cannot be read, written or believed.
    """
    budget, secret = Path(owner.node_config["budget-file"]), Path(owner.node_config["state-folder"]) / SECRET
    if secret.exists() and not budget.exists():
        raise StateLost(
            f"{budget} is gone, so nobody knows what this node has spent: put back a copy. To begin anew, remove "
            f"{secret} as well, and lower lifetime-epsilon and lifetime-delta by what has been spent"
        )
    note, data = _home_of(owner)
    home = note.read_text(encoding="utf-8") if note.exists() else None
    if home not in (None, str(budget)):
        raise StateLost(
            f"the budget of {data} is kept in {home}, and not in {budget}: say budget-file={home!r}, or, if it was "
            f"moved, remove {note}"
        )
    if home is not None and not budget.exists():
        raise StateLost(
            f"{budget} is gone, in which the budget of {data} was kept: put back a copy. To begin anew, remove {note}, "
            "and lower lifetime-epsilon and lifetime-delta by what has been spent"
        )
    file = BudgetFile(budget)
    file.make()
    with written_whole(note) as partial:
        partial.write_text(str(budget), encoding="utf-8")
    if file.runs() and not secret.exists():
        raise StateLost(
            f"{secret} is gone, which chose the test rows of earlier runs: put back a copy, or give the node other data"
        )


def _home_of(owner: OwnerFile) -> tuple[Path, str]:
    """The note of the user's that says where the budget of the node's data is, and the data's own place."""
    data = os.path.realpath(owner.node_config.get("data-path", ""))
    known = state_folder({}) / _HOMES
    known.mkdir(exist_ok=True, mode=0o700)
    return known / hashlib.sha256(data.encode()).hexdigest(), data


@contextmanager
def alone(owner: OwnerFile) -> Iterator[None]:
    """Hold the data and the state folder against other nodes of this machine.

    Raises
    ------
    NodeRuns
    """
    with ExitStack() as held:
        for key in ("data-path", "state-folder"):
            if fcntl is not None and key in owner.node_config:
                held.enter_context(_locked(key, owner.node_config[key]))
        yield


@contextmanager
def _locked(key: str, path: str) -> Iterator[None]:
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise DPForestError(f"{key} {path} cannot be read: {error.strerror}") from error
    try:
        _lock(handle, key, path)
        yield
    finally:
        os.close(handle)


def _lock(handle: int, key: str, path: str) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise NodeRuns(
            f"another node is running with {key} {path}: one is enough for the same data, and nodes with other data "
            "have a state-folder each"
        ) from error
