"""The example of an audit, as the page shows it, finds what is broken."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_the_example_finds_what_is_broken(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "audit_a_function.py"))
    said = capsys.readouterr().out
    assert "numbers in it (largest)" in said
    assert "VIOLATED" in said


def test_the_page_shows_the_example() -> None:
    (shown,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "how-to" / "audit-a-run.md").read_text(), re.S)
    example = (ROOT / "examples" / "audit_a_function.py").read_text()
    assert all(line in example for line in shown.splitlines())
