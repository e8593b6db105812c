"""Ten thousand damaged inputs: taken or refused in one line, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.targets import TARGETS, is_taken, run_target


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_inputs_are_taken_or_refused(name: str) -> None:
    assert [str(failure) for failure in run_target(name, range(TARGETS[name].cases))] == []


@pytest.mark.parametrize("name", TARGETS)
def test_some_inputs_are_hardly_damaged(name: str, tmp_path: Path) -> None:
    """Or else nothing behind the first check would be tried."""
    assert any(is_taken(name, number, tmp_path) for number in range(300))
