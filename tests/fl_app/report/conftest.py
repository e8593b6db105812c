"""A real browser, for tests of pages; they are skipped where there is no Chromium."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from browsing import ARGUMENTS, CHROMIUM, PATIENCE


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    if not CHROMIUM:
        pytest.skip("no Chromium here")
    with playwright.sync_playwright() as found:
        browser = found.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS), timeout=PATIENCE)
        yield browser
        browser.close()
