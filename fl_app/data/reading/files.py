"""Where a data set's files are, and what is inside its archives."""

from __future__ import annotations

import lzma
import os
import re
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from dpforest.settings import check_setting
from fl_app.data.source import DataError, Text


def data_folder(name: str, path: str | None) -> Path:
    """The folder of a data set: ``dataset.path``, or its name under ``DPFOREST_DATA``.

    Parameters
    ----------
    name : str
        Of the data set.
    path : str or None
        The setting ``path``.

    Raises
    ------
    DataError
        Neither is given, or it is no folder.
    """
    advice = (
        f"set dataset.path to the folder of its files, or DPFOREST_DATA to the folder that holds {name}/; "
        f"to get them: python -m fl_app.data.download {name} --to FOLDER"
    )
    check_setting("dataset.path", path, Text, DataError)
    if path is not None:
        folder, origin = Path(path).expanduser(), "dataset.path"
    elif base := os.environ.get("DPFOREST_DATA"):
        folder, origin = Path(base).expanduser() / name, "DPFOREST_DATA"
    else:
        raise DataError(f"data set {name}: no folder given; {advice}")
    if not folder.is_dir():
        raise DataError(f"data set {name}: {origin} leads to {folder.absolute()}, which is no folder; {advice}")
    return folder


def files_by_name(path: Path, suffixes: Sequence[str], whose: str) -> dict[str, Path]:
    """The files of a folder by their names without suffix, in order; or the one file.

    Parameters
    ----------
    path : Path
    suffixes : sequence of str
        Endings that count, such as ``.csv``.
    whose : str
        What each file is of, for messages.

    Raises
    ------
    DataError
        There is none, or two have the same name.
    """
    if path.is_file():
        return {path.stem: path}
    if not path.is_dir():
        raise DataError(f"{path.absolute()} does not exist: give a folder of files, or one file")
    files: dict[str, Path] = {}
    for file in sorted(path.iterdir()):
        if file.suffix.lower() in suffixes and not file.name.startswith("."):
            if file.stem in files:
                raise DataError(f"{file.name} and {files[file.stem].name} name the same {whose}: keep one")
            files[file.stem] = file
    if not files:
        raise DataError(f"{path.absolute()} holds no {' or '.join(suffixes)} file: put one file a {whose} there")
    return files


def subject_files(
    paths: Iterable[Path], text: re.Pattern[str], archive: re.Pattern[str]
) -> dict[str, tuple[Path, ...]]:
    """The files of each subject: its text files, or the archive that holds them.

    Parameters
    ----------
    paths : iterable of Path
        Where to look.
    text, archive : pattern
        Of file names, with a group ``subject``.
    """
    texts: dict[str, list[Path]] = {}
    archives: dict[str, tuple[Path, ...]] = {}
    for path in sorted(paths):
        if match := text.fullmatch(path.name):
            texts.setdefault(match["subject"], []).append(path)
        elif match := archive.fullmatch(path.name):
            archives[match["subject"]] = (path,)
    return archives | {subject: tuple(found) for subject, found in texts.items()}


def text_contents(name: str, files: Iterable[Path]) -> Iterator[tuple[str, bytes]]:
    """Name and content of text files that lie there or in archives, of the data set ``name``."""
    for path in files:
        if path.suffix == ".txt":
            yield path.name, path.read_bytes()
        else:
            yield from tar_members(name, path)


def tar_members(name: str, path: Path) -> Iterator[tuple[str, bytes]]:
    """Base name and content of each file in a tar archive, compressed in any way.

    Raises
    ------
    DataError
        The archive is damaged.
    """
    try:
        with tarfile.open(path, "r|*") as archive:
            for member in archive:
                content = archive.extractfile(member) if member.isfile() else None
                if content is not None:
                    yield Path(member.name).name, content.read()
    except (tarfile.TarError, lzma.LZMAError, OSError, EOFError) as error:
        raise DataError(f"data set {name}: {path.name} is no readable archive ({error}); copy it again") from error
