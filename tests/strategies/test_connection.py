"""A SuperLink that a node must not, or cannot, work with: one line each, that names what to do."""

from __future__ import annotations

import ssl
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from dpforest.errors import DPForestError
from strategies.flower_compat.connection import Connection, NoConnection, TurnedAway

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "federation"))
from one_machine import make_authority


@contextmanager
def superlink(status: int = 200, clock: timedelta = timedelta(), tls: Path | None = None) -> Iterator[str]:
    """A server that answers all requests alike; its address."""

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response_only(status)
            self.send_header("date", format_datetime(datetime.now(UTC) + clock, usegmt=True))
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answers)
    if tls is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tls / "server.crt", tls / "server.key")
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def refusal(address: str, kind: type[DPForestError], certificates: Path | None = None) -> str:
    connection = Connection(address, None if certificates is None else str(certificates), insecure=certificates is None)
    with pytest.raises(kind) as caught:
        connection.open()
    connection.close()
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(("hours", "words"), [(1, "3600 s behind"), (-1, "3600 s ahead of")])
def test_clocks_an_hour_apart(hours: int, words: str) -> None:
    with superlink(401, timedelta(hours=hours)) as address:
        said = refusal(address, TurnedAway)
    assert words[5:] in said
    assert "set the clock" in said


def test_a_key_that_is_not_known() -> None:
    with superlink(401) as address:
        assert "does not accept the key of this node: private-key must be that of" in refusal(address, TurnedAway)


@pytest.mark.parametrize("address", ["", "nonsense", "host:port", "https://host:1"])
def test_an_address_that_is_none(address: str) -> None:
    with pytest.raises(TurnedAway, match=r"must be HOST:PORT"):
        Connection(address, insecure=True)


def test_nobody_is_there() -> None:
    with superlink() as address:
        pass
    assert f"the SuperLink at {address} cannot be reached" in refusal(address, NoConnection)


@pytest.mark.parametrize(("days", "why"), [(-1, "expired"), (1, None)])
def test_a_certificate_that_has_expired(tmp_path: Path, days: int, why: str | None) -> None:
    make_authority(tmp_path, valid_days=days)
    with superlink(401, tls=tmp_path) as address:
        said = refusal(address, TurnedAway, tmp_path / "ca.crt")
    assert ("is not accepted (certificate has expired)" in said) == (why is not None), said


def test_a_certificate_of_another_authority(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    make_authority(tmp_path)
    make_authority(tmp_path / "other")
    with superlink(401, tls=tmp_path) as address:
        said = refusal(address, TurnedAway, tmp_path / "other" / "ca.crt")
    assert "is not accepted (" in said
    assert "check root-certificates" in said


def test_root_certificates_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("no certificate")
    for path in (tmp_path / "ca.crt", tmp_path / "nowhere.crt"):
        with pytest.raises(TurnedAway, match=r"root-certificates .* cannot be read"):
            Connection("127.0.0.1:1", str(path))
