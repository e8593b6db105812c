"""What a node was asked, what it answered, and what all its runs have spent together: an SQLite file that only grows.

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
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Literal

from dpforest.errors import DPForestError

_VERSION = 2
_APPLICATION = 0x64706275  # "dpbu": marks the file as one of ours
_WAIT = 60.0  # seconds for other processes to finish their entry
_TABLES = ("runs", "requests", "answers")
_LONGEST = 500  # characters of what a server says that are kept


def _final(table: str) -> str:
    """The rules that let a table grow only."""
    refuse = "BEGIN SELECT RAISE(ABORT, 'what was spent stays spent'); END;"
    return "".join(
        f"CREATE TRIGGER {table}_{name} BEFORE {change} ON {table} {refuse}\n"
        for name, change in (("stay", "DELETE"), ("are_final", "UPDATE"))
    )


_SQLITE = b"SQLite format 3\x00"
_CONTENT = f"""
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
CREATE TABLE requests (
    number INTEGER PRIMARY KEY,
    "when" TEXT NOT NULL,
    run TEXT NOT NULL,
    kind TEXT NOT NULL,
    strategy TEXT NOT NULL,
    epsilon REAL,
    delta REAL
);
CREATE TABLE answers (
    request INTEGER PRIMARY KEY REFERENCES requests (number),
    "when" TEXT NOT NULL,
    outcome TEXT NOT NULL CHECK (outcome IN ('answered', 'refused', 'failed')),
    words TEXT NOT NULL
);
{"".join(map(_final, _TABLES))}"""
_SUMMARY = """
SELECT all_of.run, began, all_of.strategy, asked, answered, refused, failed, runs.epsilon, runs.delta,
    COALESCE(words, '')
FROM (
    SELECT run, MIN(requests."when") AS began, MAX(strategy) AS strategy, COUNT(*) AS asked, MIN(number) AS first,
        SUM(outcome IS 'answered') AS answered, SUM(outcome IS 'refused') AS refused,
        SUM(outcome IS 'failed') AS failed, MAX(CASE WHEN outcome != 'answered' THEN number END) AS last
    FROM requests LEFT JOIN answers ON request = number GROUP BY run
) AS all_of LEFT JOIN answers ON request = last LEFT JOIN runs ON runs.run = all_of.run
ORDER BY first
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


@dataclass(frozen=True)
class Request:
    """One message as it came in; ``epsilon`` and ``delta`` are those of the run that it asks for, if it says any."""

    when: str
    run: str
    kind: str
    strategy: str
    epsilon: float | None
    delta: float | None


Outcome = Literal["answered", "refused", "failed"]


@dataclass(frozen=True)
class RunSummary:
    """What became of all messages of a run.

    Attributes
    ----------
    run, began, strategy : str
    asked, answered, refused, failed : int
        Messages. One that is none of the three was never answered: the node ended, or is at it.
    epsilon, delta : float or None
        What the run is charged with; None where it has spent nothing, or its method has no budget.
    last_words : str
        Why the last message without an answer had none.
    """

    run: str
    began: str
    strategy: str
    asked: int
    answered: int
    refused: int
    failed: int
    epsilon: float | None
    delta: float | None
    last_words: str


class SpentAlready(DPForestError):
    """The run has been charged before, and what it has released since is not known any more."""


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
        SpentAlready
            This run has been here: whoever lost its ledger must not begin another one, nor may a second node.
        BrokenBudgetFile
            The file cannot be read, written or believed; nothing is written.
        """
        with self._transaction() as database:
            if database.execute("SELECT 1 FROM runs WHERE run = ?", [run.run]).fetchone():
                raise SpentAlready(f"run {run.run} has spent its budget already")
            epsilon, delta = (_sum(database, name) for name in ("epsilon", "delta"))
            if run.epsilon is not None and not math.fsum([epsilon, run.epsilon]) <= epsilon_limit:
                return False
            if run.delta is not None and not math.fsum([delta, run.delta]) <= delta_limit:
                return False
            values = [getattr(run, field.name) for field in fields(Spent)]
            database.execute(f"INSERT INTO runs ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)", values)
        return True

    def ask(self, request: Request) -> int:
        """Write down that a message has come; its number.

        Raises
        ------
        BrokenBudgetFile
        """
        with self._transaction(adds_up=False) as database:
            values = [value[:_LONGEST] if isinstance(value, str) else value for value in astuple(request)]
            columns = ", ".join(f'"{field.name}"' for field in fields(Request))
            added = database.execute(f"INSERT INTO requests ({columns}) VALUES (?, ?, ?, ?, ?, ?)", values)
            assert added.lastrowid is not None
            return added.lastrowid

    def answer(self, request: int, when: str, outcome: Outcome, words: str = "") -> None:
        """Write down what a message is about to be answered.

        Raises
        ------
        BrokenBudgetFile
        """
        with self._transaction(adds_up=False) as database:
            database.execute("INSERT INTO answers VALUES (?, ?, ?, ?)", [request, when, outcome, words[:_LONGEST]])

    def summaries(self) -> list[RunSummary]:
        """What became of each run, the first one first.

        Raises
        ------
        BrokenBudgetFile
        """
        with self._transaction() as database:
            return [RunSummary(*row) for row in database.execute(_SUMMARY)]

    def spent(self) -> tuple[float, float]:
        """Epsilon and delta of all runs together.

        Raises
        ------
        BrokenBudgetFile
        """
        with self._transaction() as database:
            return _sum(database, "epsilon"), _sum(database, "delta")

    def make(self) -> None:
        """Make the file if there is none, and believe it.

        Raises
        ------
        BrokenBudgetFile
        """
        with self._transaction():
            pass

    def runs(self) -> list[Spent]:
        """All runs, the first one first.

        Raises
        ------
        BrokenBudgetFile
        """
        with self._transaction() as database:
            return [Spent(*row) for row in database.execute(f"SELECT {_COLUMNS} FROM runs ORDER BY number")]

    @contextmanager
    def _transaction(self, adds_up: bool = True) -> Iterator[sqlite3.Connection]:
        """One at a time, over all processes; on the disk at its end, or not at all.

        Before entries are added up, all are held against the rules, which takes longer the more there are.
        """
        try:
            self._make_if_missing()
            self._check_file()
            uri = f"{self._path.absolute().as_uri()}?mode=rw"
            with closing(sqlite3.connect(uri, timeout=_WAIT, isolation_level=None, uri=True)) as database:
                database.execute("PRAGMA synchronous = FULL")
                database.execute("BEGIN IMMEDIATE")
                _check_version(database)
                if adds_up:
                    _check_entries(database)
                yield database
                database.execute("COMMIT")
        except sqlite3.Error as error:
            damaged = not isinstance(error, sqlite3.OperationalError)
            advice = "it was damaged: restore it, or name another file" if damaged else "the file stays as it was"
            raise BrokenBudgetFile(f"{self._path}: {error}; {advice}") from error
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
                database.executescript(_CONTENT)
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


def _check_version(database: sqlite3.Connection) -> None:
    kind, version = (database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
    if (kind, version) != (_APPLICATION, _VERSION):
        raise BrokenBudgetFile(
            f"the budget-file is of another program or version ({version}, not {_VERSION}): name another file, and "
            "lower the limits by what has been spent"
        )


def _check_entries(database: sqlite3.Connection) -> None:
    if database.execute("PRAGMA integrity_check").fetchone()[0] != "ok":  # holds the CHECKs against every entry
        raise BrokenBudgetFile("entries of the budget-file were damaged or altered: restore it, or name another file")


def _sum(database: sqlite3.Connection, name: str) -> float:
    found = [row[0] for row in database.execute(f"SELECT {name} FROM runs WHERE {name} IS NOT NULL")]
    if not all(isinstance(value, float) and math.isfinite(value) and value >= 0 for value in found):
        raise BrokenBudgetFile(f"an entry of the budget-file has a {name} that is no number from 0: restore it")
    return math.fsum(found)
