"""The downloader against a server on this machine, with made-up archives."""

from __future__ import annotations

import errno
import io
import re
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from fl_app.commands.cli import main as dpforest
from fl_app.data import DataError, build_source, download
from fl_app.data.download import CATALOGUE, digest

CONTENT = b"A11 6 A34 A43 1169 A65 A75 4 A93 A101 4 A121 67 A143 A152 2 A173 1 A192 A201 1\n"


class Server(ThreadingHTTPServer):
    """Serves ``files``; ``cut`` closes the connection after so many bytes of a body, once."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.version = '"1"'
        self.cut: int | None = None
        self.sent: list[tuple[int, int]] = []  # status and first byte of each answer

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        body = self.server.files.get(self.path)
        if body is None:
            self.send_error(404)
            return
        first = 0
        if (wanted := self.headers.get("Range")) and self.headers.get("If-Range") == self.server.version:
            first = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1])  # type: ignore[index]
        if first >= len(body):
            self.server.sent.append((416, first))  # before the answer: it brings the next request, in another thread
            self.send_error(416)
            return
        status = 206 if first else 200
        self.server.sent.append((status, first))
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) - first))
        self.send_header("ETag", self.server.version)
        self.end_headers()
        cut, self.server.cut = self.server.cut, None
        self.wfile.write(body[first : len(body) if cut is None else first + cut])
        self.close_connection = True

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    served = Server()
    thread = threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield served
    served.shutdown()
    served.server_close()
    thread.join()


def zipped(files: dict[str, bytes]) -> bytes:
    stored = io.BytesIO()
    with zipfile.ZipFile(stored, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stored.getvalue()


@pytest.fixture
def german(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of an archive whose checksum the catalogue knows."""
    (tmp_path / "german.data").write_bytes(CONTENT)
    known = replace(CATALOGUE["german_credit"], url=f"{server.url}/g.zip", digest=digest([tmp_path / "german.data"]))
    monkeypatch.setitem(CATALOGUE, "german_credit", known)
    server.files["/g.zip"] = zipped({"german.data": CONTENT, "german.doc": b"words", "../german.data-numeric": b"1"})
    return known.url


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_fetches_unpacks_verifies_and_can_be_read(german: str, server: Server, tmp_path: Path, capsys) -> None:
    assert dpforest(["data", "download", "german_credit", "--to", str(tmp_path / "data")]) == 0
    said = capsys.readouterr().out
    assert "german_credit: 1 files in" in said
    assert "verified, SHA-256" in said
    assert f"DPFOREST_DATA={tmp_path / 'data'}" in said
    assert left(tmp_path / "data") == ["german.data"], "only what is read, and nothing outside the folder"
    assert len(build_source("german_credit", {"path": str(tmp_path / "data" / "german_credit")}).load("bank")) == 1
    assert dpforest(["data", "download", "german_credit", "--to", str(tmp_path / "data")]) == 0
    assert len(server.sent) == 1, "what is there is not fetched again"


def test_a_broken_download_goes_on(german: str, server: Server, tmp_path: Path) -> None:
    server.cut = 100
    with pytest.raises(DataError, match=r"broke off after 0\.0 of 0\.0 MB: run the same command again to go on"):
        download.download("german_credit", tmp_path / "data")
    assert left(tmp_path / "data") == ["german_credit.zip.part", "german_credit.zip.version"]
    download.download("german_credit", tmp_path / "data")
    assert server.sent == [(200, 0), (206, 100)]
    assert left(tmp_path / "data") == ["german.data"]


def test_a_changed_file_is_fetched_from_the_start(german: str, server: Server, tmp_path: Path) -> None:
    server.cut = 100
    with pytest.raises(DataError):
        download.download("german_credit", tmp_path / "data")
    server.version = '"2"'
    download.download("german_credit", tmp_path / "data")
    assert server.sent == [(200, 0), (200, 0)]


def test_a_part_that_was_not_renamed_is_fetched_again(german: str, server: Server, tmp_path: Path) -> None:
    folder = tmp_path / "data" / "german_credit"
    folder.mkdir(parents=True)
    (folder / "german_credit.zip.part").write_bytes(server.files["/g.zip"])
    (folder / "german_credit.zip.version").write_text(server.version)
    download.download("german_credit", tmp_path / "data")
    assert [status for status, _ in server.sent] == [416, 200]


def test_wrong_checksum(german: str, server: Server, tmp_path: Path, capsys) -> None:
    server.files["/g.zip"] = zipped({"german.data": CONTENT.replace(b"1169", b"1170")})
    assert dpforest(["data", "download", "german_credit", "--to", str(tmp_path / "data")]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: the files of german_credit have a wrong checksum and were removed")
    assert said.count("\n") == 1
    assert left(tmp_path / "data") == []


def test_line_ends_do_not_matter_to_the_checksum(german: str, server: Server, tmp_path: Path) -> None:
    server.files["/g.zip"] = zipped({"german.data": CONTENT.replace(b"\n", b"\r\n")})
    assert "verified, SHA-256" in download.download("german_credit", tmp_path / "data")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html>moved</html>", "gave no intact zip archive .* it was removed"),
        (zipped({"german.data": CONTENT * 9}).replace(b"A11", b"A12", 1), "gave no intact zip archive .*CRC"),
        (zipped({"inner.zip": b"no zip"}), "gave no intact zip archive"),
        (zipped({"german.doc": b"words"}), r"holds 0 of the 1 files of german_credit: .* with --url"),
    ],
)
def test_wrong_archives(german: str, server: Server, tmp_path: Path, body: bytes, message: str) -> None:
    good, server.files["/g.zip"] = server.files["/g.zip"], body
    with pytest.raises(DataError, match=message):
        download.download("german_credit", tmp_path / "data")
    server.files["/g.zip"] = good
    assert "verified" in download.download("german_credit", tmp_path / "data"), "a later attempt is not in its way"


def test_archives_in_archives_and_no_known_checksum(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["data_1600_accel_watch.arff", "data_1601_gyro_phone.arff"]
    inner = {f"wisdm-dataset/arff_files/x/{name}": b"@data\n" for name in names} | {"__MACOSX/._data.arff": b"?"}
    server.files["/w.zip"] = zipped({"wisdm-dataset.zip": zipped(inner)})
    monkeypatch.setitem(CATALOGUE, "wisdm", replace(CATALOGUE["wisdm"], count=2))
    said = download.download("wisdm", tmp_path, f"{server.url}/w.zip")
    assert "not verified: no checksum of them is known" in said
    assert left(tmp_path) == names


def test_unreachable(german: str, server: Server, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"/nowhere.zip answers 404 .*: give another address with --url"):
        download.download("german_credit", tmp_path, f"{server.url}/nowhere.zip")
    with pytest.raises(DataError, match=r"cannot reach http://127\.0\.0\.1:1/a\.zip .*: check the network"):
        download.download("german_credit", tmp_path, "http://127.0.0.1:1/a.zip")
    with pytest.raises(DataError, match=r"cannot reach no-address .*unknown url type"):
        download.download("german_credit", tmp_path, "no-address")
    with pytest.raises(DataError, match="data set 'hapd' is unknown: did you mean 'hapt'"):
        download.download("hapd", tmp_path)


def test_disk_full(german: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = download.shutil.disk_usage(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(download.shutil, "disk_usage", lambda path: usage._replace(free=10))
        with pytest.raises(DataError, match=r"has 0\.0 MB, and 0\.0 MB are to come: free space"):
            download.download("german_credit", tmp_path / "data")

    def refuse(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(download.shutil, "copyfileobj", refuse)
    with pytest.raises(DataError, match=r"the disk of .*german_credit is full: free space and run the same command"):
        download.download("german_credit", tmp_path / "data")


def test_a_folder_that_cannot_be_made(german: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataError, match=r"cannot write .* give another folder with --to"):
        download.download("german_credit", tmp_path / "file")


def test_catalogue_fits_the_data_sets() -> None:
    assert {name: entry.count for name, entry in CATALOGUE.items()} == {
        "hapt": 123, "wisdm": 200, "german_credit": 1, "appliances": 1, "hugadb": 364,
    }  # fmt: skip
    kept = {
        "hapt": ["acc_exp01_user01.txt", "gyro_exp61_user30.txt", "labels.txt"],
        "wisdm": ["data_1650_gyro_phone.arff"],
        "german_credit": ["german.data"],
        "appliances": ["energydata_complete.csv"],
        "hugadb": ["HuGaDB_v1_various_18_16.txt"],
    }
    for name, entry in CATALOGUE.items():
        assert all(entry.pattern.fullmatch(file) for file in kept[name])
        assert not any(entry.pattern.fullmatch(file) for file in ("activity_labels.txt", "README.txt", "german.doc"))
