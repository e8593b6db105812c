"""What all runs of a node have spent together: an SQLite file that only grows.

Processes of several runs may play a node at once, so what is left is read and what a run spends is written in one
transaction. A file that cannot be believed allows nothing.
"""

from __future__ import annotations

import math
import os
import sqlite3
import stat
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, fields
from pathlib import Path

from dpforest.errors import DPForestError

_VERSION = 1
_APPLICATION = 0x64706275  # "dpbu": marks the file as one of ours
_WAIT = 60.0  # seconds for other processes to finish their entry
_SQLITE = b"SQLite format 3\x00"
_TABLE = f"""
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {_VERSION};
CREATE TABLE runs (
    number INTEGER PRIMARY KEY,
    "when" TEXT NOT NULL,
    run TEXT NOT NULL,
    strategy TEXT NOT NULL,
    epsilon REAL CHECK (epsilon IS NULL OR (typeof(epsilon) = 'real' AND epsilon > 0)),
    delta REAL CHECK (delta IS NULL OR (typeof(delta) = 'real' AND delta >= 0 AND delta < 1)),
    unit TEXT NOT NULL,
    trust TEXT NOT NULL
);
CREATE TRIGGER runs_stay BEFORE DELETE ON runs BEGIN SELECT RAISE(ABORT, 'what was spent stays spent'); END;
CREATE TRIGGER runs_are_final BEFORE UPDATE ON runs BEGIN SELECT RAISE(ABORT, 'what was spent stays spent'); END;
"""


class BrokenBudgetFile(DPForestError):
    """The file cannot be read, written or believed; says why, for the owner alone."""


@dataclass(frozen=True)
class Spent:
    """What one run spends; ``epsilon`` and ``delta`` are None for a method without a budget."""

    when: str
    run: str
    strategy: str
    epsilon: float | None
    delta: float | None
    unit: str
    trust: str


_COLUMNS = ", ".join(f'"{field.name}"' for field in fields(Spent))


class BudgetFile:
    """The file of one node.

    Parameters
    ----------
    path : Path
        Made where nothing is; never followed where it is a link.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def spend(self, run: Spent, epsilon_limit: float, delta_limit: float) -> bool:
        """Write a run down if all runs together then stay within the limits.

        Parameters
        ----------
        run : Spent
        epsilon_limit, delta_limit : float
            Of the sums over all runs, this one included. A run without a budget counts for nothing and is always
            written.

        Returns
        -------
        bool
            Whether it was written; it then is on the disk.

        Raises
        ------
        BrokenBudgetFile
            The file cannot be read, written or believed; nothing is written.
        """
        with self._transaction() as database:
            epsilon, delta = (_sum(database, name) for name in ("epsilon", "delta"))
            if run.epsilon is not None and not math.fsum([epsilon, run.epsilon]) <= epsilon_limit:
                return False
            if run.delta is not None and not math.fsum([delta, run.delta]) <= delta_limit:
                return False
            values = [getattr(run, field.name) for field in fields(Spent)]
            database.execute(f"INSERT INTO runs ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)", values)
        return True

    def runs(self) -> list[Spent]:
        """All runs, the first one first.

        Raises
        ------
        BrokenBudgetFile
        """
        with self._transaction() as database:
            return [Spent(*row) for row in database.execute(f"SELECT {_COLUMNS} FROM runs ORDER BY number")]

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """One at a time, over all processes; on the disk at its end, or not at all."""
        try:
            self._make_if_missing()
            self._check_file()
            uri = f"{self._path.absolute().as_uri()}?mode=rw"
            with closing(sqlite3.connect(uri, timeout=_WAIT, isolation_level=None, uri=True)) as database:
                database.execute("PRAGMA synchronous = FULL")
                database.execute("BEGIN IMMEDIATE")
                _check_content(database)
                yield database
                database.execute("COMMIT")
        except sqlite3.Error as error:
            raise BrokenBudgetFile(f"{self._path}: {error}") from error
        except OSError as error:
            raise BrokenBudgetFile(f"{self._path}: {error.strerror or type(error).__name__}") from error

    def _make_if_missing(self) -> None:
        """Make the file whole or not at all: one that is empty or cut off was damaged, and must not count as new."""
        if os.path.lexists(self._path):
            return
        handle, name = tempfile.mkstemp(prefix=f"{self._path.name}.", suffix=".new", dir=self._path.parent)
        os.close(handle)
        try:
            with closing(sqlite3.connect(name, isolation_level=None)) as database:
                database.executescript(_TABLE)
            with suppress(FileExistsError):  # another process was first
                os.link(name, self._path)
        finally:
            os.unlink(name)

    def _check_file(self) -> None:
        if not stat.S_ISREG(os.lstat(self._path).st_mode):
            raise BrokenBudgetFile(f"{self._path} is no plain file (a link or a folder): name one that is")
        with self._path.open("rb") as file:
            start = file.read(len(_SQLITE))
        if start.lstrip()[:1] == b"[":
            raise BrokenBudgetFile(
                f"{self._path} is a JSON list of an earlier version: name another budget-file, and lower max-epsilon "
                "and max-delta by what the list says was spent"
            )
        if start != _SQLITE:
            raise BrokenBudgetFile(f"{self._path} is no budget-file, or was damaged: restore it, or name another")


def _check_content(database: sqlite3.Connection) -> None:
    kind, version = (database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
    if (kind, version) != (_APPLICATION, _VERSION):
        raise BrokenBudgetFile(f"it is of another program or version ({version}, not {_VERSION}): name another file")
    if database.execute("PRAGMA integrity_check").fetchone()[0] != "ok":  # holds the CHECKs against every entry
        raise BrokenBudgetFile("its entries were damaged or altered: restore it, or name another file")


def _sum(database: sqlite3.Connection, name: str) -> float:
    found = [row[0] for row in database.execute(f"SELECT {name} FROM runs WHERE {name} IS NOT NULL")]
    if not all(isinstance(value, float) and math.isfinite(value) and value >= 0 for value in found):
        raise BrokenBudgetFile(f"one of its entries has a {name} that is no number from 0: restore it")
    return math.fsum(found)
