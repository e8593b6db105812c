"""A real browser, for tests of pages; they are skipped where there is no Chromium."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import ARGUMENTS, CHROMIUM, DESK, PATIENCE


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    if not CHROMIUM:
        pytest.skip("no Chromium here")
    with playwright.sync_playwright() as found:
        browser = found.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS), timeout=PATIENCE)
        yield browser
        browser.close()


@pytest.fixture
def opened(browser: Any, page_file: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The page of a module's ``page_file``, which must load without an error and ask for nothing but itself."""
    context = browser.new_context(**getattr(request, "param", {"viewport": DESK}))
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    problems: list[str] = []
    asked: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda said: problems.append(said.text) if said.type in ("error", "warning") else None)
    page.on("request", lambda request: asked.append(request.url))
    page.goto(page_file.as_uri())
    yield page
    context.close()
    assert problems == []
    assert asked == [page_file.as_uri()]
