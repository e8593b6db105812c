"""The page about audits shows the example as it is."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_shows_the_example() -> None:
    (shown,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "how-to" / "audit-a-run.md").read_text(), re.S)
    example = (ROOT / "examples" / "audit_a_function.py").read_text()
    assert all(line in example for line in shown.splitlines())
