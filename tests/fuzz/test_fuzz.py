"""Ten thousand damaged inputs: taken or refused in one line, and nothing else."""

from __future__ import annotations

import pytest

from tests.fuzz.targets import TARGETS, run_target

CASES = 10_000


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_inputs_are_taken_or_refused(name: str) -> None:
    assert [str(failure) for failure in run_target(name, range(CASES // len(TARGETS)))] == []
