"""A sample of the clients evaluates the model, and the model is decoded once for all of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hand_made import CLIENTS, make, run, write_table

import strategies.forests


@pytest.mark.parametrize("sampled", [None, 2])
def test_as_many_clients_evaluate_as_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sampled: int | None
) -> None:
    decoded = []
    original = strategies.forests.unpack
    monkeypatch.setattr(strategies.forests, "unpack", lambda *a, **k: decoded.append(1) or original(*a, **k))
    done = run(make(write_table(tmp_path), strategy={"name": "one_shot"}, evaluation={"clients": sampled}))
    assert not done.failures
    assert sum("accuracy" in client for client in done.clients) == (sampled or CLIENTS)
    assert sum(client["trains"] for client in done.clients) == CLIENTS
    assert len(decoded) == 1
