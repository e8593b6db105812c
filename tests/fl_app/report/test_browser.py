"""The page in a real browser, from a file; skipped where there is no Chromium."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
from browsing import DESK, PATIENCE, PHONE, brightness
from made_up_runs import write_run, write_sweep

from fl_app.config.compose import conf_folder
from fl_app.report.page import write_report


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("a sweep <b> 'c'")
    write_sweep(folder, ("one_shot", "fedavg"), (0.1, 1.0, 10.0, math.inf), seeds=2, rounds=2)
    write_run(folder / "long", "dp_sgd", 2.0, classes=("a" * 60, "b"), learning_rate="very long words " * 12)
    return write_report([folder])


def cells(page: Any, heading: str) -> list[str]:
    """The visible texts of a column of the table of runs, from the top."""
    return page.evaluate(
        """(heading) => {
          const names = [...document.querySelectorAll('#runs th')].map((th) => th.textContent);
          const at = names.indexOf(heading);
          return [...document.querySelectorAll('#runs tbody tr')].filter((row) => !row.hidden)
            .map((row) => row.cells[at].textContent);
        }""",
        heading,
    )


def test_it_sorts_by_numbers_and_by_words(opened: Any) -> None:
    button = opened.locator("#runs th button", has_text="epsilon")
    button.click()
    up = [float(text) for text in cells(opened, "epsilon")]
    assert up == sorted(up)
    assert len(set(up)) == 5
    button.click()
    assert [float(text) for text in cells(opened, "epsilon")] == up[::-1]
    assert opened.locator("#runs th[aria-sort=descending]").inner_text().startswith("epsilon")
    opened.locator("#runs th button", has_text="method").click()
    methods = cells(opened, "method")
    assert methods == sorted(methods)
    opened.locator("#runs th button", has_text="run").last.click()
    assert cells(opened, "run") == [str(number) for number in range(len(methods) - 1)] + ["long"]


def test_bytes_sort_by_their_size_and_what_is_missing_comes_last(opened: Any) -> None:
    opened.locator("#runs th button", has_text="balanced").click()
    values = cells(opened, "balanced")
    numbers = [float(text) for text in values if text]
    assert numbers == sorted(numbers)


def test_it_filters_by_words_and_by_method(opened: Any) -> None:
    total = len(cells(opened, "method"))
    opened.fill("#words", "holds 0.1")
    assert 0 < len(cells(opened, "method")) < total
    opened.fill("#words", "")
    opened.select_option("#method", "fedavg")
    assert set(cells(opened, "method")) == {"fedavg"}
    assert opened.inner_text("#shown") == f"{len(cells(opened, 'method'))} of {total} runs"
    opened.fill("#words", "no such word")
    assert cells(opened, "method") == []


@pytest.mark.parametrize("opened", [{"viewport": PHONE}, {"viewport": DESK}], indirect=True, ids=["phone", "desk"])
def test_nothing_makes_the_page_wider_than_the_screen(opened: Any) -> None:
    opened.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    width = opened.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert width[0] == width[1]
    # What is wide can be scrolled within its own box.
    assert opened.evaluate("getComputedStyle(document.querySelector('.wide')).overflowX") == "auto"


@pytest.mark.parametrize(
    "opened",
    [{"viewport": DESK, "color_scheme": "dark"}, {"viewport": DESK, "color_scheme": "light"}],
    indirect=True,
    ids=["dark", "light"],
)
def test_text_and_figures_can_be_read_in_light_and_dark(opened: Any) -> None:
    paper, text, label = opened.evaluate(
        """() => [getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color,
                  getComputedStyle(document.querySelector('svg text')).fill]"""
    )

    assert abs(brightness(paper) - brightness(text)) > 500
    assert label == text


def test_it_prints_all_of_it(opened: Any, tmp_path: Path) -> None:
    opened.emulate_media(media="print", color_scheme="dark")
    assert opened.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert opened.evaluate("getComputedStyle(document.querySelector('.filter')).display") == "none"
    opened.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert opened.evaluate("[...document.querySelectorAll('details')].every((d) => d.open)")
    printed = opened.pdf(path=str(tmp_path / "page.pdf"), format="A4")
    assert printed.startswith(b"%PDF")
    assert printed.count(b"/Type /Page\n") + printed.count(b"/Type /Page ") + printed.count(b"/Type/Page") > 3


def test_every_method_differs_from_light_and_from_dark_paper(browser: Any, tmp_path: Path) -> None:
    methods = sorted(path.stem for path in (conf_folder() / "strategy").glob("*.yaml"))
    write_sweep(tmp_path, methods, (1.0, 10.0), seeds=1, clients=2)
    page_file = write_report([tmp_path])
    # 3 to 1 is what WCAG 2.2 asks for (1.4.11); the lightest of Okabe and Ito's colours have 2.2 on white.
    for scheme, least in (("dark", 3.0), ("light", 2.1)):
        page = browser.new_page(color_scheme=scheme)
        page.goto(page_file.as_uri(), timeout=PATIENCE)
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        marks = page.evaluate("[...document.querySelectorAll('svg use')].map((mark) => getComputedStyle(mark).stroke)")
        seen = {colour for colour in marks if colour != "none"}
        assert len(seen) > 8
        assert min(contrast(colour, paper) for colour in seen) > least
        page.close()


def contrast(one: str, other: str) -> float:
    """WCAG 2.2: contrast ratio of two colours as a browser writes them."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    """WCAG 2.2: relative luminance of ``rgb(0-255 ...)`` or ``color(srgb 0-1 ...)``."""
    parts = [float(part) / (255 if colour.startswith("rgb") else 1) for part in re.findall(r"[0-9.]+", colour)[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
