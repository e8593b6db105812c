"""Links of pages that the site does not check, as it does not contain them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob(".github/**/*.md"), *ROOT.glob("examples/**/*.md")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings_that_there_are(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        target, _, heading = link.partition("#")
        if re.match(r"\w+:", link):
            continue
        file = page.parent / target if target else page
        assert file.exists(), link
        assert not heading or heading in headings(file), link


def headings(file: Path) -> set[str]:
    """Names of headings as links have them."""
    lines = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w -]", "", line.lower()).replace(" ", "-") for line in lines}
