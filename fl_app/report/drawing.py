"""All figures of a report, made by several processes and put in order for the page."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from joblib import Parallel, cpu_count, delayed

from fl_app.report.answer import Answer
from fl_app.report.figures.catalogue import Entry, Subject, entries_for, order_of, whole
from fl_app.report.sections import Family
from fl_app.terminal.interrupts import end_with_parent


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
    jobs = [(number, job) for number, answer in enumerate(answers) for job in _jobs(answer)]
    parallel = Parallel(
        n_jobs=cpu_count(), batch_size=1, max_nbytes=None, initializer=end_with_parent, initargs=(os.getpid(),)
    )
    made = parallel(delayed(_write)(*job, folder / answers[number].section.slug) for number, job in jobs)
    found: list[list[tuple[Entry, Path]]] = [[] for _ in answers]
    for (number, _), written in zip(jobs, made, strict=True):
        found[number] += written
    return [_in_order(written) for written in found]


def _jobs(answer: Answer) -> list[tuple[list[Entry], Subject]]:
    """What to make of a section, what takes longest first. Each job copies its runs to another process."""
    section = answer.section
    alone: list[tuple[list[Entry], Subject]] = [
        ([entry], entry.few(section)) for entry in entries_for(section) if entry.few is not whole
    ]
    rest = [entry for entry in entries_for(section) if entry.few is whole]
    return [*alone, (rest, section), (entries_for(answer), answer)]


def _write(entries: Sequence[Entry], subject: Subject, folder: Path) -> list[tuple[Entry, Path]]:
    return [(entry, path) for entry in entries for path in entry.write(subject, folder)]


def draw_family(family: Family, folder: Path) -> list[Placed]:
    """Make what joins the sections of a family; nothing where they say nothing jointly."""
    return _in_order(_write(entries_for(family), family, folder))


def _in_order(written: Sequence[tuple[Entry, Path]]) -> list[Placed]:
    figures = [(entry, path) for entry, path in written if path.suffix == ".svg"]
    figures.sort(key=lambda each: order_of(each[0]))
    return [Placed(entry.place, entry.caption, path) for entry, path in figures]
