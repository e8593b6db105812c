"""The statement in a real browser, from a file; skipped where there is no Chromium."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from browsing import DESK, PHONE, brightness
from made_up_runs import write_run

from dpforest.ledger import Entry
from fl_app.report.statement import write_statement


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a run with a curve, a long ledger and long names."""
    run = write_run(tmp_path_factory.mktemp("a <b> 'c'") / ("a run of a long name " * 5), delta=1e-6, public_rows=1000)
    plain = json.loads((run / "privacy.json").read_text())
    names = ("sums", "a" * 80, *(f"leaf counts of tree {number}" for number in range(100)))
    entries = [Entry(name, "Gaussian", mu=0.02, sensitivity=1, scale=50).to_dict() for name in names]
    for ledger in plain["clients"].values():
        ledger["entries"] = entries
    (run / "privacy.json").write_text(json.dumps(plain))
    return write_statement(run)


@pytest.mark.parametrize("opened", [{"viewport": PHONE}, {"viewport": DESK}], indirect=True, ids=["phone", "desk"])
def test_nothing_makes_the_page_wider_than_the_screen(opened: Any) -> None:
    width = opened.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert width[0] == width[1]
    assert opened.evaluate("getComputedStyle(document.querySelector('.wide')).overflowX") == "auto"
    assert opened.evaluate("document.querySelector('svg .curve').getBBox().width") > 100


@pytest.mark.parametrize("opened", [{"viewport": DESK, "color_scheme": scheme} for scheme in ("dark", "light")],
                         indirect=True, ids=["dark", "light"])  # fmt: skip
def test_text_and_curve_can_be_read_in_light_and_dark(opened: Any) -> None:
    paper, text, label, curve = opened.evaluate(
        """() => [getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color,
                  getComputedStyle(document.querySelector('svg text')).fill,
                  getComputedStyle(document.querySelector('svg .curve')).stroke]"""
    )
    assert abs(brightness(paper) - brightness(text)) > 500
    assert label == text
    assert abs(brightness(paper) - brightness(curve)) > 200


def test_it_prints_on_white_paper_within_the_margins(opened: Any, tmp_path: Path) -> None:
    opened.emulate_media(media="print", color_scheme="dark")
    assert opened.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    opened.set_viewport_size({"width": 672, "height": 1000})  # A4 without its margins, at 96 dots an inch
    width = opened.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert width[0] == width[1]
    clipped = opened.evaluate("[...document.querySelectorAll('.wide')].filter((w) => w.scrollWidth > w.clientWidth)")
    assert clipped == []
    printed = opened.pdf(path=str(tmp_path / "page.pdf"), format="A4")
    pages = printed.count(b"/Type /Page\n") + printed.count(b"/Type /Page ") + printed.count(b"/Type/Page")
    assert 3 <= pages <= 10
