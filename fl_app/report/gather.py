"""Reading run folders for a report: what finished, what failed, and what is cut."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpforest.errors import DPForestError, printable
from fl_app.report.sections import Family, Section, families, sections, target_of
from fl_app.results.finished import FinishedRun, read_run
from fl_app.results.run_folder import PARTIAL, failure_of, find_cut, find_failed, find_runs, is_refused


@dataclass(frozen=True)
class LeftOut:
    """A run that is not in the report, and why."""

    folder: Path
    what: str
    reason: str

    def __str__(self) -> str:
        return f"left out: {printable(str(self.folder))}: {self.what}: {self.reason}"


@dataclass(frozen=True)
class Gathered:
    """All that was found below the folders of a report.

    ``duplicates`` are runs that were found again, with the same configuration and numbers. ``repeats`` have the
    configuration and seed of another run, and other numbers: other code made them, or noise that no seed gives.
    """

    sections: list[Section]
    left_out: list[LeftOut] = field(default_factory=list)
    duplicates: int = 0
    repeats: int = 0

    @property
    def runs(self) -> list[FinishedRun]:
        """The runs of all sections."""
        return [run for section in self.sections for run in section.runs]

    @property
    def families(self) -> list[Family]:
        """Sections that figures may join."""
        return families(self.sections)


def gather(folders: Sequence[Path]) -> Gathered:
    """Read all runs at or below the folders and sort them into sections.

    Raises
    ------
    DPForestError
        A folder does not exist, or none of them holds a run.
    """
    for folder in folders:
        if not folder.is_dir():
            raise DPForestError(f"no folder {folder}: give run folders, sweep folders, or folders of them")
    failed = find_failed(folders)
    left_out = [
        LeftOut(folder, "nothing can be learned" if is_refused(why := failure_of(folder)) else "failed", why)
        for folder in failed
    ]
    left_out += [
        LeftOut(partial, "not finished", "it is still being written, or was cut off")
        for partial in sorted({path for folder in folders for path in folder.rglob(f"{PARTIAL}*") if path.is_dir()})
    ]
    left_out += [LeftOut(folder, "damaged", "metrics.json is missing") for folder in find_cut(folders)]
    runs: dict[str, FinishedRun] = {}
    read = 0
    for folder in find_runs(folders):
        try:
            run = read_run(folder)
        except DPForestError as error:
            left_out.append(LeftOut(folder, "damaged", " ".join(f"{type(error).__name__}: {error}".split())))
            continue
        read += 1
        runs[json.dumps([_question(run), _numbers(run)], sort_keys=True)] = run
    if not runs and not left_out:
        raise DPForestError(f"no run in {', '.join(map(str, folders))}: give folders that a run or a sweep wrote")
    questions = {json.dumps(_question(run), sort_keys=True) for run in runs.values()}
    return Gathered(sections(list(runs.values()), failed), left_out, read - len(runs), len(runs) - len(questions))


def _question(run: FinishedRun) -> list[Any]:
    """The configuration of a run, with what it predicted."""
    return [{key: value for key, value in run.config.items() if key != "overrides"}, target_of(run)]


def _numbers(run: FinishedRun) -> dict[str, Any]:
    """What a run reached, without the time that it took."""
    return {key: value for key, value in run.metrics.items() if key not in ("seconds", "comparison_methods")}
