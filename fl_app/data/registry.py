"""Data sets by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fl_app.data.source import DataSource, check_choice
from fl_app.data.sources.appliances import AppliancesSource
from fl_app.data.sources.exercise import ExerciseSource
from fl_app.data.sources.german_credit import GermanCreditSource
from fl_app.data.sources.hapt import HaptSource
from fl_app.data.sources.hugadb import HugadbSource
from fl_app.data.sources.table import TableSource
from fl_app.data.sources.watch import WatchSource
from fl_app.data.sources.wisdm import WisdmSource

SOURCES: dict[str, type[DataSource]] = {
    source.name: source
    for source in (
        WatchSource, HugadbSource, HaptSource, WisdmSource, GermanCreditSource, AppliancesSource, TableSource,
        ExerciseSource,
    )
}  # fmt: skip


def build_source(name: str, settings: Mapping[str, Any]) -> DataSource:
    """A data set by its name.

    Parameters
    ----------
    name : str
        A key of `SOURCES`.
    settings : mapping
        Values for fields of its ``Settings``; the others keep their defaults.

    Raises
    ------
    DataError
        The name, a setting or a value is not allowed.
    """
    check_choice("dataset.name", name, SOURCES)
    source = SOURCES[name]
    return source(source.Settings.from_mapping(settings, f"data set {name}"))
