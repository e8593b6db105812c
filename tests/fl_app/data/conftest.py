from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fl_app.data import cache, partition, split, table


@pytest.fixture(autouse=True)
def private_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Each test has its own cache folder and an empty memory."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("DPFOREST_CACHE", str(folder))
    for recent in (cache.memory, partition._deals, split._recent, table._frames):
        recent.clear()
    yield folder
