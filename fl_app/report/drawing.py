"""All figures of a report, made by several processes and put in order for the page."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from joblib import Parallel, cpu_count, delayed

from fl_app.report.answer import Answer
from fl_app.report.figures.catalogue import Entry, Subject, entries_for, order_of, whole
from fl_app.report.sections import Family, Section


@dataclass(frozen=True)
class Placed:
    """A figure in its place."""

    place: str
    caption: str
    svg: Path

    @property
    def png(self) -> Path:
        """The same figure as PNG."""
        return self.svg.with_suffix(".png")


def draw(answers: Sequence[Answer], folder: Path) -> list[list[Placed]]:
    """Make what the runs of each section allow, each in a folder of its own.

    Each processor makes some of the figures: that takes most of a report's time.
    """
    jobs = [
        (number, entry, subject)
        for number, answer in enumerate(answers)
        for subject in (answer, answer.section)
        for entry in entries_for(subject)
        if answer.section.has_scores
    ]
    jobs.sort(key=lambda job: job[1].few is whole)  # what has figures for each setting takes longest
    parallel = Parallel(
        n_jobs=cpu_count(), batch_size=1, max_nbytes=None, initializer=_end_with_parent, initargs=(os.getpid(),)
    )
    made = parallel(
        delayed(_write)(entry, subject, folder / answers[number].section.slug) for number, entry, subject in jobs
    )
    found: list[list[tuple[Entry, Path]]] = [[] for _ in answers]
    for (number, entry, _), paths in zip(jobs, made, strict=True):
        found[number] += [(entry, path) for path in paths]
    return [_in_order(paths) for paths in found]


def draw_family(family: Family, folder: Path) -> list[Placed]:
    """Make what joins the sections of a family; nothing where they say nothing jointly."""
    return _in_order([(entry, path) for entry in entries_for(family) for path in entry.write(family, folder)])


def _write(entry: Entry, subject: Subject, folder: Path) -> list[Path]:
    return entry.write(entry.few(subject) if isinstance(subject, Section) else subject, folder)


def _in_order(written: Sequence[tuple[Entry, Path]]) -> list[Placed]:
    figures = [(entry, path) for entry, path in written if path.suffix == ".svg"]
    figures.sort(key=lambda each: order_of(each[0]))
    return [Placed(entry.place, entry.caption, path) for entry, path in figures]


def _end_with_parent(parent: int) -> None:
    """Let a worker end soon after the process that started it: joblib's wait for good where that one was killed."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
