from __future__ import annotations

from pathlib import Path

import pytest

from fl_app.data import cache, partition, split
from fl_app.data.sources import exercise, table, wisdm


@pytest.fixture(autouse=True)
def private_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test has its own cache folder and an empty memory."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("DPFOREST_CACHE", str(folder))
    for recent in (cache.memory, partition.recent, split.recent, table.tables, wisdm.archives, exercise.checks):
        recent.clear()
    return folder
