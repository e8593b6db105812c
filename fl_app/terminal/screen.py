"""What a user sees while something runs: messages, and bars with the time left."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from dpforest.errors import printable

_OURS = ("fl_app", "strategies", "baselines", "dpforest")
console = Console()


def screen_width() -> int | None:
    """Columns of the terminal; None where standard output goes elsewhere."""
    return console.width if console.is_terminal else None


class _ScreenHandler(logging.Handler):
    """Prints messages above the bars."""

    def emit(self, record: logging.LogRecord) -> None:
        words = printable(self.format(record), but="\n\t")  # names of others may hold escape codes
        console.print(words, markup=False, highlight=False, soft_wrap=True, emoji=False)


def log_to_screen(level: int = logging.INFO) -> None:
    """Send the project's own messages to standard output, once."""
    for name in _OURS:
        logger = logging.getLogger(name)
        logger.setLevel(level)
        logger.propagate = True
    root = logging.getLogger()
    if any(isinstance(handler, _ScreenHandler) for handler in root.handlers):
        return
    handler = _ScreenHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    handler.addFilter(lambda record: record.name.split(".")[0] in _OURS)
    root.addHandler(handler)


@contextmanager
def one_line_a_run() -> Iterator[None]:
    """On a terminal, leave what single runs say to their own logs; elsewhere every line is kept."""

    def is_wanted(record: logging.LogRecord) -> bool:
        return record.levelno >= logging.WARNING or record.name == _OURS[0] or not console.is_terminal

    handlers = [handler for handler in logging.getLogger().handlers if isinstance(handler, _ScreenHandler)]
    for handler in handlers:
        handler.addFilter(is_wanted)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(is_wanted)


class _TimeLeft(ProgressColumn):
    """Time left at the pace so far; rich's own column needs two steps within half a minute, and runs are longer."""

    def render(self, task: Task) -> Text:
        if not task.total or not task.completed or task.elapsed is None:
            return Text("left -:--:--")
        seconds = task.elapsed / task.completed * (task.total - task.completed)
        return Text(f"left {timedelta(seconds=int(seconds))}")


class Bars:
    """A bar for the runs of a sweep and one for the rounds of the run at hand, with the time left.

    On a terminal only; elsewhere the messages alone tell how far things are.

    Parameters
    ----------
    screen : Console, optional
        Where to draw.
    """

    def __init__(self, screen: Console | None = None) -> None:
        screen = screen or console
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            _TimeLeft(),
            console=screen,
            transient=True,
            disable=not screen.is_terminal,
        )
        self._sweep: TaskID | None = None
        self._run: TaskID | None = None

    def __enter__(self) -> Bars:
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def sweep(self, runs: int) -> None:
        """Begin the bar of a sweep."""
        self._sweep = self.progress.add_task("runs", total=runs)

    @contextmanager
    def run(self, words: str) -> Iterator[None]:
        """A bar for one run; the sweep's bar moves on when it ends, however it ends."""
        self._run = self.progress.add_task(words, total=None)
        try:
            yield
        finally:
            self.progress.remove_task(self._run)
            self._run = None
            if self._sweep is not None:
                self.progress.advance(self._sweep)

    def round(self, done: int, of: int) -> None:
        """Say that an exchange of the run is done."""
        if self._run is not None:
            self.progress.update(self._run, completed=done, total=of)
