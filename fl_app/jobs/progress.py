"""How far a sweep is: one line for each run that ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from fl_app.results.text import decimals
from strategies.metrics import primary_metric


class Progress:
    """Runs of a sweep that have ended, with the time that those took that were run.

    Parameters
    ----------
    runs : int
        Of the sweep.
    clock : callable of () to float
        Seconds.
    """

    def __init__(self, runs: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._runs = runs
        self._clock = clock
        self._began = self._last = clock()
        self._seconds: list[float] = []
        self._best: tuple[float, str] | None = None

    def done(self, number: int, words: str, metrics: Mapping[str, Any]) -> str:
        """The line of a finished run."""
        metric = primary_metric(metrics)
        score = "no test metrics came"
        if metric.name in metrics:
            value = metrics[metric.name]
            score = f"{metric.label} {decimals(value)}"
            if self._best is None or value > self._best[0]:
                self._best = (value, f"run {number}")
        self._end()
        return self._line(number, f"{words}: {score}")

    def failed(self, number: int, words: str, is_hopeless: bool = False) -> str:
        """The line of a run that failed, or in which nothing can be learned."""
        return self._line(number, f"{words}: {'left out' if is_hopeless else 'failed'}")

    def passed(self) -> None:
        """Note that a run ended without a result: what it took says nothing about those that come."""
        self._last = self._clock()

    def _end(self) -> None:
        now = self._clock()
        self._seconds.append(now - self._last)
        self._last = now

    def _line(self, number: int, words: str) -> str:
        parts = [f"elapsed {_time(self._clock() - self._began)}"]
        left = self._runs - number
        if self._seconds and left:
            parts.append(f"left about {_time(left * sum(self._seconds) / len(self._seconds))}")
        if self._best is not None:
            parts.append(f"best so far {decimals(self._best[0])} ({self._best[1]})")
        return f"run {number} of {self._runs}: {words}; {', '.join(parts)}"


def _time(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
