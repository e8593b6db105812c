"""What a node keeps of each run between messages, so that it can go on after a restart: its ledger above all.

A file a run in the folder ``runs`` of the node's state folder, written whole before an answer leaves. It may hold
numbers that were computed for single rows, and keys, so only the user may read it.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

from flwr.app import RecordDict

from fl_app.engine.node_state import StateError
from strategies.flower_compat import state_from_bytes, state_to_bytes

_FOLDER, _SUFFIX = "runs", ".state"
_DIGEST = hashlib.sha256
_KEPT = 50  # runs; a run whose state is gone cannot go on, which costs nothing


class RunStates:
    """The states of a node's runs, those of this process in memory too.

    Parameters
    ----------
    folder : Path
        The node's state folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / _FOLDER
        self._last: tuple[int, RecordDict] | None = None

    def load(self, run: int) -> RecordDict:
        """The state of a run, empty for a new one.

        Raises
        ------
        StateError
            It is damaged.
        """
        if self._last is not None and self._last[0] == run:
            return self._last[1]
        state = self._read(run)
        self._last = run, state
        return state

    def save(self, run: int, state: RecordDict) -> None:
        """Write a state to the disk.

        Raises
        ------
        StateError
            It cannot be written: then nothing that follows from it may leave.
        """
        self._last = run, state
        data = state_to_bytes(state)
        try:
            self._folder.mkdir(exist_ok=True, mode=0o700)
            handle, partial = tempfile.mkstemp(prefix=".writing-", dir=self._folder)  # mode 0600
            try:
                with open(handle, "wb") as file:
                    file.write(_DIGEST(data).digest() + data)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(partial, self._path(run))
            except OSError:
                os.unlink(partial)
                raise
            self._forget_old()
        except OSError as error:
            raise StateError(f"this node cannot keep its ledger ({type(error).__name__})") from error

    def _read(self, run: int) -> RecordDict:
        try:
            data = self._path(run).read_bytes()
        except FileNotFoundError:
            return RecordDict()
        except OSError as error:
            raise StateError(f"this node cannot read its ledger ({type(error).__name__})") from error
        size = _DIGEST().digest_size
        if _DIGEST(data[size:]).digest() != data[:size]:
            raise StateError("this node's ledger of the run is damaged; start a new run")
        return state_from_bytes(data[size:])

    def _path(self, run: int) -> Path:
        return self._folder / f"{run}{_SUFFIX}"

    def _forget_old(self) -> None:
        states = sorted(self._folder.glob(f"*{_SUFFIX}"), key=lambda path: path.stat().st_mtime)
        for path in states[:-_KEPT]:
            path.unlink(missing_ok=True)
