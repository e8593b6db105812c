"""What a user sees: bars with the time left on a terminal, plain lines elsewhere."""

from __future__ import annotations

import io
import logging

import pytest
from rich.console import Console

from fl_app.terminal import screen
from fl_app.terminal.screen import Bars, log_to_screen


@pytest.fixture(autouse=True)
def _terminal_that_can_be_drawn_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the tests run in, such as a CI that calls its terminal dumb."""
    monkeypatch.setenv("TERM", "xterm")


def test_bars_say_how_many_runs_and_rounds_are_done_and_what_is_left() -> None:
    now = [0.0]
    screen = Console(file=io.StringIO(), force_terminal=True, width=120, get_time=lambda: now[0])
    with Bars(screen) as bars:
        bars.sweep(3)
        with bars.run("one_shot on watch"):
            now[0] = 20.0
            bars.round(2, 5)
            bars.progress.refresh()
            shown = screen.file.getvalue()  # type: ignore[attr-defined]
        bars.progress.refresh()
    assert "one_shot on watch" in shown
    assert "2/5" in shown
    assert "0/3" in shown
    assert "left 0:00:30" in shown, "of the run, at the pace of its first two rounds"
    assert "1/3" in screen.file.getvalue()  # type: ignore[attr-defined]


def test_a_run_that_breaks_counts_as_done() -> None:
    screen = Console(file=io.StringIO(), force_terminal=True, width=120)
    with Bars(screen) as bars:
        bars.sweep(2)
        with pytest.raises(RuntimeError), bars.run("x"):
            raise RuntimeError
        bars.progress.refresh()
    assert "1/2" in screen.file.getvalue()  # type: ignore[attr-defined]


def test_nothing_is_drawn_where_output_is_no_terminal() -> None:
    screen = Console(file=io.StringIO(), force_terminal=False)
    with Bars(screen) as bars:
        bars.sweep(1)
        with bars.run("x"):
            bars.round(1, 2)
    assert screen.file.getvalue() == ""  # type: ignore[attr-defined]


def test_escape_codes_in_a_message_reach_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(screen, "console", Console(file=shown, force_terminal=True, width=80))
    log_to_screen()
    logging.getLogger("fl_app.run").warning("client says %s\n  in two lines", "\x1b]0;owned\x07\x1b[2J\u202e")
    assert shown.getvalue() == "client says \\x1b]0;owned\\x07\\x1b[2J\\u202e\n  in two lines\n"
