"""Get a data set from where its authors or the UCI repository publish it.

``python -m fl_app.data.download NAME --to FOLDER`` puts the files that the data set reads into
``FOLDER/NAME``. A broken download goes on where it stopped when the same command is run again.
"""

from __future__ import annotations

import errno
import hashlib
import http.client
import os
import re
import shutil
import sys
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from fl_app.data.source import DataError, check_choice
from fl_app.data.sources import appliances, german_credit, hapt, hugadb, wisdm

UCI = "https://archive.ics.uci.edu/static/public"
CHUNK = 1 << 20
PATIENCE = 60.0  # seconds without a byte


@dataclass(frozen=True)
class Published:
    """Where a data set is published, as a zip archive, and what is in it.

    Parameters
    ----------
    url : str
    pattern : re.Pattern
        The base names of the files to keep.
    count : int
        How many these are.
    digest : str or None
        Their `digest`, where it is known for certain.
    """

    url: str
    pattern: re.Pattern[str]
    count: int
    digest: str | None


CATALOGUE: dict[str, Published] = {
    "hapt": Published(
        f"{UCI}/341/smartphone+based+recognition+of+human+activities+and+postural+transitions.zip",
        re.compile(f"{hapt.TEXT.pattern}|{re.escape(hapt.LABELS)}"),
        123,
        "3ed8b36b0203f661062614c481cd2a722718be7deb2ac3d86a96dfc5174667c6",
    ),
    "wisdm": Published(
        f"{UCI}/507/wisdm+smartphone+and+smartwatch+activity+and+biometrics+dataset.zip",
        re.compile(r"data_\d{4}_(accel|gyro)_(phone|watch)\.arff"),
        len(wisdm.SENSORS) * len(wisdm.SUBJECTS),
        None,
    ),
    "german_credit": Published(
        f"{UCI}/144/statlog+german+credit+data.zip",
        re.compile(re.escape(german_credit.FILE)),
        1,
        "cd47f5b3e10b9cc9c19a93e4a181ce84f8ee927565993bef6c3d0f494ad9d7e3",
    ),
    "appliances": Published(
        f"{UCI}/374/appliances+energy+prediction.zip",
        re.compile(re.escape(appliances.FILE)),
        1,
        "b5486e1f5e6a9748dfa06c9899c19d80a7be29c802a15703504e3b304914e476",
    ),
    # version 1, from the storage that the authors' page https://github.com/romanchereshnev/HuGaDB links to
    "hugadb": Published("https://www.dropbox.com/s/7nb9g650i5m9k6c/HuGaDB.zip?dl=1", hugadb.TEXT, 364, None),
}


def digest(files: Sequence[Path]) -> str:
    """SHA-256 over the names and contents of files, whose line ends may be those of any system."""
    total = hashlib.sha256()
    for path in sorted(files, key=lambda path: path.name):
        content = hashlib.sha256(path.read_bytes().replace(b"\r\n", b"\n")).hexdigest()
        total.update(f"{path.name} {content}\n".encode())
    return total.hexdigest()


def download(name: str, folder: Path, url: str | None = None) -> str:
    """Fetch a data set, unless its files are there, and check them.

    Parameters
    ----------
    name : str
        A key of `CATALOGUE`.
    folder : Path
        The files go into its subfolder ``name``, which is made.
    url : str or None
        Another place of the same archive.

    Returns
    -------
    str
        What is where now, and whether it was verified.

    Raises
    ------
    DataError
        Nothing was found, the connection broke, the disk is full, or the content is wrong.
    """
    check_choice("data set", name, CATALOGUE)
    published, target = CATALOGUE[name], folder.expanduser() / name
    try:
        target.mkdir(parents=True, exist_ok=True)
        files = _kept(published, target)
        if len(files) < published.count:
            archive = target / f"{name}.zip"
            fetch(url or published.url, archive)
            try:
                _unpack(published, archive, target)
            except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
                archive.unlink()
                raise DataError(
                    f"{url or published.url} gave no intact zip archive ({error}); it was removed: run the same "
                    "command again, or give another address with --url"
                ) from error
            archive.unlink()
            files = _kept(published, target)
            if len(files) < published.count:
                raise DataError(
                    f"{url or published.url} holds {len(files)} of the {published.count} files of {name}: "
                    "give the address of the whole archive with --url"
                )
        if published.digest is not None and digest(files) != published.digest:
            for path in files:
                path.unlink()
            raise DataError(
                f"the files of {name} have a wrong checksum and were removed: run the same command again, or give "
                "another address with --url"
            )
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise DataError(f"the disk of {target} is full: free space and run the same command again") from error
        raise DataError(f"cannot write {target} ({error.strerror or error}): give another folder with --to") from error
    if published.digest is None:
        checked = "not verified: no checksum of them is known for certain"
    else:
        checked = f"verified, SHA-256 {published.digest[:12]}..."
    return f"{name}: {len(files)} files in {target} ({checked})"


def fetch(url: str, path: Path) -> None:
    """Download one file; what a broken attempt left is used when the server's file is still the same.

    Parameters
    ----------
    url : str
    path : Path
        Written as ``<path>.part`` and renamed when whole; an existing file is kept.

    Raises
    ------
    DataError
        The server cannot be reached, refuses, or breaks off; or the disk has too little room.
    """
    if path.exists():
        return
    part, version = path.with_name(path.name + ".part"), path.with_name(path.name + ".version")
    known = version.read_text(encoding="utf-8") if version.exists() and part.exists() else ""
    start = part.stat().st_size if known else 0
    headers = {"User-Agent": "dpforest"}
    if start:
        headers |= {"Range": f"bytes={start}-", "If-Range": known}
    try:
        request = urllib.request.Request(url, headers=headers)
        response = urllib.request.urlopen(request, timeout=PATIENCE)
    except urllib.error.HTTPError as error:
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE and start:
            part.unlink()
            return fetch(url, path)
        raise DataError(f"{url} answers {error.code} {error.reason}: give another address with --url") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise DataError(
            f"cannot reach {url} ({reason}): check the network, or give another address with --url"
        ) from error
    with response:
        if response.status != http.client.PARTIAL_CONTENT:
            start = 0
        length = response.headers.get("Content-Length")
        total = start + int(length) if length else None
        free = shutil.disk_usage(path.parent).free
        if total is not None and free < total - start:
            raise DataError(
                f"the disk of {path.parent} has {_megabytes(free)} MB, and {_megabytes(total - start)} MB are to come: "
                "free space and run the same command again"
            )
        etag = response.headers.get("ETag", "")
        # a weak ETag does not guarantee equal bytes
        same = etag if etag and not etag.startswith("W/") else response.headers.get("Last-Modified", "")
        version.write_text(same, encoding="utf-8")
        done = start
        with part.open("ab" if start else "wb") as file:
            while True:
                try:
                    chunk = response.read(CHUNK)
                except (OSError, http.client.HTTPException) as error:
                    raise _broken(url, done, total) from error
                if not chunk:
                    break
                file.write(chunk)
                done += len(chunk)
                _show_progress(path.name, done, total)
    if total is not None and done != total:
        raise _broken(url, done, total)
    os.replace(part, path)
    version.unlink()


def _broken(url: str, done: int, total: int | None) -> DataError:
    whole = f" of {_megabytes(total)}" if total is not None else ""
    return DataError(f"{url} broke off after {_megabytes(done)}{whole} MB: run the same command again to go on")


def _show_progress(name: str, done: int, total: int | None) -> None:
    if sys.stderr.isatty():
        whole = f" of {_megabytes(total)}" if total is not None else ""
        print(f"\r{name}: {_megabytes(done)}{whole} MB", end="\n" if done == total else "", file=sys.stderr, flush=True)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f}"


def _kept(published: Published, folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if published.pattern.fullmatch(path.name))


def _unpack(published: Published, archive: Path, target: Path) -> None:
    """The wanted files of an archive, also of archives in it, by base name into ``target``."""
    with zipfile.ZipFile(archive) as content:
        for member in content.infolist():
            name = PurePosixPath(member.filename).name
            inner = name.endswith(".zip")
            if member.is_dir() or not (inner or published.pattern.fullmatch(name)):
                continue
            temporary = target / f".{name}.part"
            with content.open(member) as source, temporary.open("wb") as file:
                shutil.copyfileobj(source, file, CHUNK)
            if inner:
                _unpack(published, temporary, target)
                temporary.unlink()
            else:
                os.replace(temporary, target / name)


if __name__ == "__main__":
    from fl_app.commands.cli import run_module

    sys.exit(run_module("data download", "fl_app.data.download"))
