"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written_whole(path: str | Path) -> Iterator[Path]:
    """Where to write a file, which takes its name when all is written; after an error nothing is left of it.

    A link stays, and the file that it leads to is replaced. What is no file, such as a pipe or ``/dev/null``, is
    written to as it stands: another file in its place would end it for all programs.

    Raises
    ------
    OSError
        It cannot be written, or is a folder.
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.exists() and not path.is_file():
        yield path
        return
    path = Path(os.path.realpath(path))
    partial = path.with_name(f"{path.name}-{os.getpid()}.partial")
    try:
        yield partial
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
