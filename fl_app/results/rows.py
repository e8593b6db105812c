"""The table of a sweep's runs, and which columns of it tell settings apart."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from dpforest.errors import DPForestError
from fl_app.results.finished import FinishedRun, read_run
from fl_app.results.run_folder import OutputError, find_runs, write_table

RESULTS = "results.csv"
# What may tell runs apart but for settings of the method and the data set; never the seed, a fold or the budget.
_SETUP = ("partition", "asked_clients", "part", "asked_rounds", "privacy.unit", "privacy.trust")
log = logging.getLogger(__name__)

Row = Mapping[str, Any]


def distinct_columns(rows: Sequence[Row]) -> list[str]:
    """The fewest columns of settings, taken in order, that tell apart all settings of the rows.

    Those of the whole set-up come first, then ``dataset.*`` and ``strategy.*``.
    """
    named = dict.fromkeys(key for row in rows for key in row if key.startswith(("dataset.", "strategy.")))
    chosen: list[str] = []

    def groups(names: Sequence[str]) -> int:
        return len({(row["dataset"], row["strategy"], *(str(row.get(name)) for name in names)) for row in rows})

    # Whether a method is as published says more than the settings that come with it.
    order = sorted(named, key=lambda key: (key.startswith("strategy."), key != "strategy.accounting"))
    for column in (*_SETUP, *order):
        if groups([*chosen, column]) > groups(chosen):
            chosen.append(column)
    return chosen


def distinct_by_method(rows: Sequence[Row]) -> dict[str, list[str]]:
    """Of `distinct_columns`, those in which runs of a method differ, for each method."""
    columns = distinct_columns(rows)
    values: dict[str, dict[str, set[str]]] = {}
    for row in rows:
        own = values.setdefault(row["strategy"], {})
        for name in columns:
            own.setdefault(name, set()).add(str(row.get(name)))
    return {method: [name for name in columns if len(own[name]) > 1] for method, own in values.items()}


def setting_label(row: Row, distinct: Mapping[str, Sequence[str]]) -> str:
    """A short label: the method and the settings that tell its runs apart (`distinct_by_method`)."""
    names = distinct[row["strategy"]]
    values = [
        f"{name.removeprefix('strategy.').removeprefix('privacy.').removeprefix('asked_')}={row[name]}"
        for name in names
        if name in row
    ]
    return " ".join([str(row["strategy"]), *values])


@lru_cache(maxsize=10_000)
def _read_once(folder: Path, written: int) -> FinishedRun:
    """A finished run, read from disk once: a sweep asks for all its runs after each of them."""
    return read_run(folder)


def read_runs(folders: Sequence[Path]) -> list[FinishedRun]:
    """All finished runs at or below the folders; damaged ones are named and left out."""
    runs = []
    for folder in find_runs(folders):
        try:
            runs.append(_read_once(folder, (folder / "metrics.json").stat().st_mtime_ns))
        except (DPForestError, OSError) as error:
            log.warning("left out: %s: %s", folder, error)
    return runs


def write_results(sweep: Path) -> None:
    """Write ``results.csv`` of a sweep folder anew.

    Raises
    ------
    OutputError
        It cannot be written.
    """
    if runs := read_runs([sweep]):
        try:
            write_table(sweep / RESULTS, [run.row for run in runs])
        except OSError as error:
            raise OutputError(f"cannot write {sweep / RESULTS}: {error.strerror}; move away what is there") from error
