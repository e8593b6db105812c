"""Parsed rows on disk, memory-mapped on reading, and a small memory of recent ones in this process.

An entry is a folder of ``.npy`` files under ``DPFOREST_CACHE`` (else ``$XDG_CACHE_HOME/dpforest``,
else ``~/.cache/dpforest``). It is written under a temporary name and renamed, so that several
processes may build the same entry: one wins, all read whole files. Entries hold rows, so only the
user may read them; a real node's rows are not kept here. Deleting the folder is always safe.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

log = logging.getLogger(__name__)

FORMAT = 2
"""Raise it whenever the meaning of stored rows changes."""

Clipped = Mapping[str, Sequence[int]]
"""Column to its number of cells that were clipped to their bounds, and of all its cells."""
Built = tuple[dict[str, np.ndarray], Clipped]
Item = TypeVar("Item")
_warned: set[str] = set()


class Recent(Generic[Item]):
    """The results that were used last, by key; safe to share between threads.

    Parameters
    ----------
    size : int
        What the kept items may cost together; the newest is always kept.
    cost : callable
        Cost of an item; 1 by default, so that ``size`` is a number of items.
    """

    def __init__(self, size: int, cost: Callable[[Item], int] = lambda item: 1) -> None:
        self._size = size
        self._cost = cost
        self._used = 0
        self._items: OrderedDict[str, Item] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str, build: Callable[[], Item]) -> Item:
        """The item of ``key``, built when it is not there."""
        with self._lock:
            if key in self._items:
                self._items.move_to_end(key)
                return self._items[key]
        item = build()
        with self._lock:
            if key not in self._items:
                self._items[key] = item
                self._used += self._cost(item)
            while self._used > self._size and len(self._items) > 1:
                self._used -= self._cost(self._items.popitem(last=False)[1])
        return item

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._items.clear()
            self._used = 0


memory: Recent = Recent(64)
"""Rows of subjects. They are memory-mapped unless the disk cache could not be written."""


_steady: ContextVar[dict[Path, tuple[str, int, int]] | None] = ContextVar("steady", default=None)


@contextmanager
def steady_files() -> Iterator[None]:
    """Meanwhile, look at each file once only: thousands of clients of one exchange are given rows of the same files."""
    token = _steady.set({} if (known := _steady.get()) is None else known)
    try:
        yield
    finally:
        _steady.reset(token)


def state_of(path: Path) -> tuple[str, int, int]:
    """Place, size and time of change of a file: what parsed content is remembered by."""
    known = _steady.get()
    if known is None:
        return _state_of(path)
    if path not in known:
        known[path] = _state_of(path)
    return known[path]


def _state_of(path: Path) -> tuple[str, int, int]:
    stat = path.stat()
    return str(path.absolute()), stat.st_size, stat.st_mtime_ns


def root() -> Path:
    """The cache folder that the environment asks for."""
    if chosen := os.environ.get("DPFOREST_CACHE"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path("~/.cache").expanduser()) / "dpforest"


def load(dataset: str, key: str, build: Callable[[], Built]) -> Built:
    """The arrays of an entry, and what was clipped of them, built and stored when missing.

    Parameters
    ----------
    dataset : str
        Folder of the entry.
    key : str
        Digest of all that the arrays depend on.
    build : callable
        Makes the arrays and the counts.

    Returns
    -------
    arrays : dict of str to ndarray
        Read-only and memory-mapped, or as built when the cache cannot be written.
    clipped : Clipped
    """
    entry = _entry(dataset, key)
    if (stored := _read(entry)) is not None:
        return stored
    built = build()
    try:
        _write(entry, built)
    except (OSError, RuntimeError) as error:  # RuntimeError: no home folder
        if str(root()) not in _warned:
            _warned.add(str(root()))
            log.warning("rows are not cached: cannot write %s (%s); set DPFOREST_CACHE", root(), error)
        return built
    return _read(entry) or built


def clipped(dataset: str, key: str) -> Clipped:
    """What was clipped of the arrays of an entry; empty where it is not stored."""
    try:
        return _clipped(_described(_entry(dataset, key)))
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _entry(dataset: str, key: str) -> Path:
    return root() / dataset / f"{key}-{FORMAT}"


def _described(entry: Path) -> Any:
    return json.loads((entry / "entry.json").read_text(encoding="utf-8"))


def _clipped(described: Any) -> Clipped:
    return {str(name): (int(cells), int(of)) for name, (cells, of) in dict(described["clipped"]).items()}


def _read(entry: Path) -> Built | None:
    try:
        described = _described(entry)
        arrays = {
            # the base class: a memmap subclass would leak into every later computation
            name: np.asarray(np.load(entry / f"{name}.npy", mmap_mode="r", allow_pickle=False)).view(np.ndarray)
            for name in described["arrays"]
        }
        return arrays, _clipped(described)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        log.warning("rebuilding a damaged cache entry (%s)", error)
        shutil.rmtree(entry, ignore_errors=True)
        return None


def _write(entry: Path, built: Built) -> None:
    arrays, counts = built
    entry.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = Path(tempfile.mkdtemp(prefix=".writing-", dir=entry.parent))  # mode 0700
    try:
        for name, array in arrays.items():
            np.save(temporary / f"{name}.npy", np.ascontiguousarray(array), allow_pickle=False)
        described = {"arrays": list(arrays), "clipped": dict(counts)}
        (temporary / "entry.json").write_text(json.dumps(described), encoding="utf-8")
        os.rename(temporary, entry)
    except OSError:
        if not entry.is_dir():  # otherwise another process was first, and its files are as good
            raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
