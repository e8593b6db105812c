"""Ctrl-C and SIGTERM end a run, also where a library takes them for an error of its own."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

_arrived: list[int] = []
_before: dict[int, Any] = {}  # handlers that are replaced meanwhile


@contextmanager
def interruptible() -> Iterator[None]:
    """Let both signals raise KeyboardInterrupt, and be remembered; in the main thread only."""
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup and shells set it on purpose
                _before[number] = signal.signal(number, _interrupt)
        yield
    finally:
        for taken, handler in _before.items():
            signal.signal(taken, handler)
        _before.clear()
        _arrived.clear()  # or it would end the next run of this process


def listen_again() -> None:
    """Take the signals back from Ray, whose start makes SIGTERM a crash that prints its stack."""
    for taken in _before:
        signal.signal(taken, _interrupt)


def raise_if_interrupted() -> None:
    """Raise what did not get here: code that is not Python, callbacks and finalizers may swallow an exception.

    Raises
    ------
    KeyboardInterrupt
    """
    if _arrived:
        raise KeyboardInterrupt


def interrupted_code() -> int:
    """Exit code of a program that a signal has ended, as shells report it."""
    return 128 + (_arrived[0] if _arrived else signal.SIGINT)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    _arrived.append(number)
    if hasattr(signal, "alarm"):
        signal.alarm(0)  # where Ray has taken SIGTERM, it would abort the process 3 s later
    raise KeyboardInterrupt


def end_with_parent(parent: int) -> None:
    """Let a worker end soon after the process that started it: joblib's wait for good where that one was killed."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
