"""What a real node keeps for itself from run to run: a folder of its owner's, and a secret in it that never leaves.

The folder is ``state-folder`` of the node configuration, else ``$XDG_STATE_HOME/dpforest``, else
``~/.local/state/dpforest``.
"""

from __future__ import annotations

import os
import secrets
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from strategies.node.answer import Sayable

SECRET = "secret"
_BYTES = 32


class StateError(Sayable):
    """The node cannot keep its state; the text names no path and may be sent."""


def state_folder(node_config: Mapping[str, Any]) -> Path:
    """The folder of a node's state, made if it is not there; only the user may look into a new one.

    Raises
    ------
    StateError
        It is no folder and cannot be made.
    """
    chosen, base = node_config.get("state-folder"), os.environ.get("XDG_STATE_HOME")
    try:
        if chosen is not None:
            if not isinstance(chosen, str) or not chosen:
                raise ValueError(f"state-folder {chosen!r} is no path")
            folder = Path(chosen).expanduser()
        else:
            folder = (Path(base) if base else Path("~/.local/state").expanduser()) / "dpforest"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: no home folder
        raise _cannot_keep(error) from error
    return folder


def node_secret(node_config: Mapping[str, Any]) -> bytes:
    """The node's secret, made at first use: 32 random bytes in a file that only its owner can read.

    It decides which records are test records. Another secret would decide anew, and records that were shown as test
    records would be trained on, so nothing ever replaces one that is there.

    Raises
    ------
    StateError
        It cannot be made, is damaged, or others could have read or written it.
    """
    path = state_folder(node_config) / SECRET
    try:
        if not os.path.lexists(path):
            _make(path)
        with open(os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)), "rb") as file:
            kind, secret = os.fstat(file.fileno()), file.read(_BYTES + 1)
    except OSError as error:
        raise _cannot_keep(error) from error
    if os.name == "posix" and (kind.st_mode & 0o077 or kind.st_uid != os.geteuid()):
        raise StateError("the file of this node's secret is open to others: only its owner may have any rights to it")
    if not stat.S_ISREG(kind.st_mode) or len(secret) != _BYTES:
        raise StateError(
            "the file of this node's secret is damaged: its owner puts back a copy, or names another state-folder and "
            "gives the node other data"
        )
    return secret


def _make(path: Path) -> None:
    """Write a secret whole under another name first: of several processes one wins, and all read the winner's."""
    handle, partial = tempfile.mkstemp(prefix=".writing-", dir=path.parent)  # mode 0600
    try:
        with open(handle, "wb") as file:
            file.write(secrets.token_bytes(_BYTES))
            file.flush()
            os.fsync(file.fileno())
        os.link(partial, path)
    except FileExistsError:
        pass
    finally:
        os.unlink(partial)


def _cannot_keep(error: Exception) -> StateError:
    return StateError(
        f"this node cannot keep its state ({type(error).__name__}): its owner sets state-folder in the node "
        "configuration to a folder that lasts and that only they can write"
    )
