"""What a node keeps for itself: one secret, whoever asks first, and none that others could have seen or changed."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fl_app.engine.node_state import SECRET, StateError, node_secret, state_folder


def test_a_secret_is_made_once_and_for_its_owner_only(tmp_path: Path) -> None:
    config = {"state-folder": str(tmp_path / "of" / "mine")}
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: node_secret(config), range(32)))
    assert len(found) == 1
    assert found == {node_secret(config)}
    (file,) = state_folder(config).iterdir()
    assert file.stat().st_mode & 0o077 == 0
    assert state_folder(config).stat().st_mode & 0o077 == 0
    assert node_secret({"state-folder": str(tmp_path / "other")}) not in found


def test_without_a_word_it_stands_in_the_users_state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    node_secret({})
    assert (tmp_path / "dpforest" / SECRET).is_file()
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    node_secret({})
    assert (tmp_path / "home" / ".local" / "state" / "dpforest" / SECRET).is_file()


def test_a_secret_that_cannot_be_kept_is_refused_in_words_that_name_no_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for bad in (tmp_path / "file", tmp_path / "file" / "below", "a\0b"):
        with pytest.raises(StateError, match="its owner sets state-folder in the node configuration") as caught:
            node_secret({"state-folder": str(bad)})
        assert str(tmp_path) not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 33])
def test_a_damaged_secret_is_never_replaced(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / SECRET
    file.write_bytes(content)
    file.chmod(0o600)
    with pytest.raises(StateError, match="is damaged"):
        node_secret({"state-folder": str(tmp_path)})
    assert file.read_bytes() == content


@pytest.mark.skipif(os.name != "posix", reason="rights as on POSIX systems")
def test_a_secret_that_others_could_read_or_choose_is_refused(tmp_path: Path) -> None:
    config = {"state-folder": str(tmp_path / "state")}
    node_secret(config)
    (tmp_path / "state" / SECRET).chmod(0o640)
    with pytest.raises(StateError, match="is open to others"):
        node_secret(config)
    chosen = tmp_path / "chosen"
    chosen.write_bytes(b"x" * 32)
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / SECRET).symlink_to(chosen)
    with pytest.raises(StateError, match="cannot keep its state"):
        node_secret({"state-folder": str(tmp_path / "link")})
