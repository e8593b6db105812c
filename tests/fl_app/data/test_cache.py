from __future__ import annotations

import logging
import multiprocessing
import os
from pathlib import Path

import numpy as np
import pytest

from fl_app.data import cache


def build() -> cache.Built:
    return {"X": np.arange(6.0).reshape(3, 2), "y": np.arange(3)}, {"a": (7, 30)}


def refuse() -> cache.Built:
    raise AssertionError("the entry should have been found")


def test_second_load_maps_the_stored_arrays(private_cache: Path) -> None:
    cache.load("set", "key", build)
    arrays, clipped = cache.load("set", "key", refuse)
    np.testing.assert_array_equal(arrays["X"], [[0, 1], [2, 3], [4, 5]])
    assert clipped == {"a": (7, 30)}
    assert type(arrays["X"]) is np.ndarray
    assert not arrays["X"].flags.owndata
    assert not list((private_cache / "set").glob(".writing-*"))


def test_entries_are_for_the_user_only(private_cache: Path) -> None:
    cache.load("set", "key", build)
    (entry,) = (private_cache / "set").iterdir()
    assert entry.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("damage", ["X.npy", "entry.json"])
def test_damaged_entries_are_built_again(private_cache: Path, damage: str) -> None:
    cache.load("set", "key", build)
    (entry,) = (private_cache / "set").iterdir()
    (entry / damage).write_bytes(b"\x93NUM")
    arrays, _ = cache.load("set", "key", build)
    assert arrays["X"].sum() == 15
    cache.load("set", "key", refuse)


def test_unwritable_cache_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")  # also holds for root, whom permissions do not stop
    monkeypatch.setenv("DPFOREST_CACHE", str(tmp_path / "file"))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            arrays, clipped = cache.load("set", "key", build)
            assert arrays["X"].shape == (3, 2)
            assert clipped == {"a": (7, 30)}
    assert len([r for r in caplog.records if "cannot write" in r.message]) == 1


def _load_big(start: object, folder: str) -> float:
    os.environ["DPFOREST_CACHE"] = folder
    arrays, _ = cache.load("set", "big", lambda: ({"X": np.ones(200_000)}, {}))
    return float(arrays["X"].sum())


def test_processes_may_build_the_same_entry_at_once(private_cache: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        sums = pool.starmap(_load_big, [(i, str(private_cache)) for i in range(9)])
    assert sums == [200_000.0] * 9
    assert len(list((private_cache / "set").iterdir())) == 1


def test_recent_keeps_what_was_used_last() -> None:
    recent: cache.Recent[int] = cache.Recent(2)
    built: list[str] = []

    def get(key: str) -> int:
        return recent.get(key, lambda: built.append(key) or len(built))  # type: ignore[func-returns-value]

    for key in ["a", "b", "a", "c", "a", "b"]:
        get(key)
    assert built == ["a", "b", "c", "b"]
