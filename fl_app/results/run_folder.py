"""Run folders: written whole or not at all."""

from __future__ import annotations

import csv
import errno
import glob
import hashlib
import json
import logging
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from dpforest import __version__
from dpforest.errors import DPForestError, NothingToLearn, one_line
from dpforest.files import written_whole
from dpforest.forest.json_format import write_json

if TYPE_CHECKING:
    from fl_app.engine.experiment import Experiment
    from fl_app.engine.run import Run

FAILED = "FAILED.txt"
FOREST = "forest.json"
STATEMENT = "statement.html"
OVERRIDES = "overrides.yaml"  # of a run that failed before it had a configuration
_IN_PROVENANCE = ("guarantee", "epsilon", "delta", "unit", "record", "trust", "noise")
PARTIAL = ".partial-"
CONFIG = "config.yaml"
LOG = "run.log"
_LONGEST_REASON = 2000  # characters
# Clients whose ledgers people may want to read.
_READABLE = 200
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_own: set[Path] = set()  # hidden folders that runs of this process are writing
_CLIENTS_OWN = ("strategies.node", "fl_app.engine.node", "fl_app.data")
log = logging.getLogger(__name__)


class OutputError(DPForestError):
    """The output folder cannot be written."""


class RunFolder:
    """Collects a run's files under a hidden name and shows them only when they are complete.

    Parameters
    ----------
    path : Path
        Where the finished folder will stand; it must not hold anything yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._partial = self.path.with_name(f"{PARTIAL}{self.path.name}-{os.getpid()}")

    @contextmanager
    def recording(self, experiment: Experiment, overrides: Sequence[str] = ()) -> Iterator[RunFolder]:
        """Log into the folder; on an error leave a folder that says that and why the run failed.

        Raises
        ------
        OutputError
            The folder cannot be written, holds files already, or another run is writing it.
        """
        with self._claimed():
            try:
                with self._written():
                    plain = experiment.to_dict() | {"overrides": list(overrides)}
                    (self._partial / CONFIG).write_text(yaml.safe_dump(plain, sort_keys=False), encoding="utf-8")
                    log_file = _LogFile(self._partial / LOG)
            except BaseException:
                self._remove()
                raise
            try:
                with log_file.attached():
                    yield self
                with self._written():
                    log_file.raise_if_failed()
            except BaseException as error:
                self._fail(error)
                raise
            self._show()

    def write(self, run: Run) -> None:
        """Write the results of a finished run.

        Raises
        ------
        OutputError
            They cannot be written.
        """
        folder = self._partial
        with self._written():
            # Laid out for people, unless there are too many ledgers for that; the layout takes most of the time.
            indent = 1 if len(run.clients) <= _READABLE else None
            (folder / "privacy.json").write_text(json.dumps(run.privacy, indent=indent), encoding="utf-8")
            write_table(folder / "rounds.csv", run.rounds)
            write_table(folder / "clients.csv", run.clients)
            (folder / "model").mkdir()
            run.side.save(folder / "model")
            if (folder / "model" / FOREST).is_file():
                write_provenance(run, folder / "model" / FOREST)
            # Last, as it makes the run a finished one.
            (folder / "metrics.json").write_text(json.dumps(run.metrics, indent=1, allow_nan=False), encoding="utf-8")

    def add(self, write: Callable[[Path], object]) -> None:
        """Let somebody write more files into the folder before it is shown, knowing what is there already.

        Raises
        ------
        OutputError
            They cannot be written.
        """
        with self._written():
            write(self._partial)

    @contextmanager
    def _claimed(self) -> Iterator[None]:
        """Own the hidden folder, which tells other runs that this one will stand here."""
        with self._written():
            if self.path.exists() and any(self.path.iterdir()):
                raise OutputError(f"{self.path} holds files already: choose another output folder")
            self._sweep_up()
            self._partial.mkdir(parents=True)
        _own.add(self._partial)
        try:
            try:
                self._sweep_up(but=self._partial)  # again: of two that begin at once, one at least sees the other
            except OutputError:
                self._remove()
                raise
            yield
        finally:
            _own.discard(self._partial)

    @contextmanager
    def _written(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            room = "make room there, or " if error.errno in _FULL else ""
            raise OutputError(
                f"cannot write {self.path}: {error.strerror or error}; {room}choose another folder with output=FOLDER"
            ) from error

    def _sweep_up(self, but: Path | None = None) -> None:
        """Remove what killed runs into this folder left behind."""
        for left in _begun(self.path):
            if left == but:
                continue
            if _is_in_use(left):
                raise OutputError(
                    f"process {_process(left)} is writing a run to {self.path}: choose another output folder (or, if "
                    f"that process is no run, remove {left})"
                )
            self._remove(left)

    def _remove(self, left: Path | None = None) -> None:
        shutil.rmtree(left or self._partial, ignore_errors=True)

    def _fail(self, error: BaseException) -> None:
        """Show why the run failed and its log, without half of its results; nothing where that cannot be written."""
        reason = "interrupted" if isinstance(error, KeyboardInterrupt) else _reason(error)
        try:
            for part in self._partial.iterdir():
                if part.is_dir():
                    self._remove(part)
                elif part.name not in (CONFIG, LOG):
                    part.unlink()
            (self._partial / FAILED).write_text(f"{reason}\n", encoding="utf-8")
            os.replace(self._partial, self.path)
        except OSError:
            self._remove()

    def _show(self) -> None:
        try:
            # Hydra may have made an empty folder of this name; renaming over an empty folder is atomic.
            os.replace(self._partial, self.path)
        except OSError as error:
            raise OutputError(
                f"cannot move the finished run to {self.path}: {error.strerror}; it is in {self._partial}"
            ) from error


class _LogFile(logging.FileHandler):
    """The log of a run. A line that cannot be written ends the run at its end, and no client's training before."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, encoding="utf-8")
        self._error: OSError | None = None
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        # What a client says to itself stays with it, also where clients run in this process.
        self.addFilter(lambda record: not record.name.startswith(_CLIENTS_OWN))

    def handleError(self, record: logging.LogRecord) -> None:
        error = sys.exc_info()[1]
        if isinstance(error, OSError):
            self._error = error
        else:
            super().handleError(record)

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Take what is logged meanwhile."""
        root = logging.getLogger()
        root.addHandler(self)
        try:
            yield
        finally:
            root.removeHandler(self)
            try:
                self.close()
            except OSError as error:
                self._error = error

    def raise_if_failed(self) -> None:
        """Raise what kept a line from being written."""
        if self._error is not None:
            raise self._error


def write_provenance(run: Run, path: Path) -> None:
    """Write into a run's forest where it comes from: method, data set, summary of the ledgers, clients as opaque names.

    The names are the same for the same simulated experiment; with secure noise they are drawn anew.
    """
    plain = json.loads(path.read_text(encoding="utf-8"))
    trains = [row["client"] for row in run.clients if row["trains"]]
    named = client_names(run.experiment, run.privacy["noise"], trains)
    names = {str(client): name for client, name in named.items()}
    trees = dict.fromkeys(names.values(), 0)
    for tree in plain["trees"]:
        tree["owner"] = names.get(tree["owner"], "")
        if tree["owner"]:
            trees[tree["owner"]] += 1
    plain["provenance"] |= {
        "method": run.experiment.method.name,
        "dataset": run.experiment.source.name,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "dpforest": __version__,
        "privacy": {name: run.privacy[name] for name in _IN_PROVENANCE},
        "clients": [{"id": name, "trees": count} for name, count in sorted(trees.items())],
    }
    write_json(plain, path)


def client_names(experiment: Experiment, noise: str, clients: Iterable[int]) -> dict[int, str]:
    """Opaque names of clients: always the same of a simulated experiment; drawn anew where noise is secure."""
    secret = experiment.to_json() if "seeded" in noise else secrets.token_hex(16)
    return {client: hashlib.sha256(f"{secret} {client}".encode()).hexdigest()[:8] for client in clients}


def is_being_written(path: Path) -> bool:
    """Whether a run that is not finished yet will stand in this folder."""
    return any(_is_in_use(left) for left in _begun(path.absolute()))


def _begun(path: Path) -> list[Path]:
    hidden = PARTIAL + path.name
    # By the whole name: that of a run "a" is also how the one of a run "a-2" begins.
    return [left for left in path.parent.glob(f"{glob.escape(hidden)}-*") if left.name.rpartition("-")[0] == hidden]


def _process(partial: Path) -> str:
    return partial.name.rpartition("-")[2]


def _is_in_use(partial: Path) -> bool:
    process = _process(partial)
    return partial in _own or (process.isdecimal() and _is_alive(int(process)))


def _is_alive(process: int) -> bool:
    if process == os.getpid():
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def write_table(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write mappings as CSV, whole or not at all; the columns are all keys in order of first appearance."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    with written_whole(path) as place, place.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)


def is_finished(folder: Path) -> bool:
    """Whether a folder holds a run that came to its end."""
    return (folder / "metrics.json").is_file() and not (folder / FAILED).exists()


def find_runs(folders: Sequence[Path]) -> list[Path]:
    """Finished run folders at or below the given folders, sorted by path; unfinished ones are left out."""
    return sorted(run for run in _holding("metrics.json", folders) if is_finished(run))


def find_failed(folders: Sequence[Path]) -> list[Path]:
    """Folders of failed runs at or below the given folders, sorted by path."""
    return sorted(_holding(FAILED, folders))


def find_cut(folders: Sequence[Path]) -> list[Path]:
    """Folders with the beginning of a run that neither finished nor failed, and are no longer being written."""
    begun = _holding(CONFIG, folders)
    return sorted(run for run in begun if not (run / "metrics.json").is_file() and not (run / FAILED).exists())


def _holding(name: str, folders: Sequence[Path]) -> Iterator[Path]:
    """Folders at or below the given ones that hold a file of this name, each once; links to folders are followed."""
    seen: set[str] = set()
    for folder in folders:
        for place, inner, files in os.walk(folder, followlinks=True):
            if (real := os.path.realpath(place)) in seen:
                inner.clear()
                continue
            seen.add(real)
            if name in files and not is_partial(Path(place)):
                yield Path(place)


def is_partial(folder: Path) -> bool:
    """Whether this is, or is inside, a run folder that is still being written or whose process was killed."""
    return any(part.startswith(PARTIAL) for part in folder.parts)


def failure_of(folder: Path) -> str:
    """Why a run failed, in one line."""
    try:
        with (folder / FAILED).open(encoding="utf-8", errors="replace") as file:
            return one_line(file.read(_LONGEST_REASON), _LONGEST_REASON)
    except OSError as error:
        return f"{FAILED} cannot be read: {error.strerror}"


def is_refused(why: str) -> bool:
    """Whether a run failed, by `failure_of`, since nothing can be learned under its settings, at any other try too."""
    return why.startswith(_reason(NothingToLearn("")))


def _reason(error: BaseException) -> str:
    """What a failed run's file says: the kind of the error, and its words."""
    return f"{type(error).__name__}: {error}"


def write_failure(folder: Path, overrides: Sequence[str], error: Exception) -> None:
    """Leave a folder that says that a run failed before it could write anything.

    Raises
    ------
    OSError
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / OVERRIDES).write_text(yaml.safe_dump(list(overrides)), encoding="utf-8")
    (folder / FAILED).write_text(f"{_reason(error)}\n", encoding="utf-8")


def is_failed_try(folder: Path) -> bool:
    """Whether a failed run was written right here: not a link to a folder, nor one that only holds such a file."""
    begun = any((folder / name).is_file() for name in (CONFIG, OVERRIDES))
    return begun and (folder / FAILED).is_file() and not folder.is_symlink()
