"""Files are written whole or not at all, and nothing that is no file is replaced."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from dpforest.files import written_whole


def test_a_file_is_replaced_only_when_all_is_written(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError), written_whole(path) as place:
        place.write_text("half\ud800", encoding="utf-8")
    assert path.read_text() == "old"
    with written_whole(path) as place:
        place.write_text("new")
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_of_its_name_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").mkdir()
    with pytest.raises(IsADirectoryError, match="file"), written_whole(tmp_path / "file") as place:
        place.write_text("new")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_what_is_no_file_is_written_to_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    with written_whole(pipe) as place:
        place.write_text("new")
    reader.join()
    assert read == ["new"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    for text in ("first", "second"):
        with written_whole(tmp_path / "link") as place:
            place.write_text(text)
        assert (tmp_path / "file").read_text() == text
    assert (tmp_path / "link").is_symlink()
