"""A data set in memory for the tests of partitions and splits."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from dpforest.schema import Feature, Schema
from fl_app.data.source import DataSource, Rows

_numbers = itertools.count()


class MemorySource(DataSource):
    """Rows that are made up; column 0 numbers them through the whole data set."""

    name = "made_up"

    def __init__(self, tables: dict[str, Rows], classes: tuple[str, ...]) -> None:
        super().__init__(SimpleNamespace(out_of_bounds="clip"))
        self.tables, self.classes = tables, classes
        self.number = next(_numbers)

    def schema(self) -> Schema:
        return Schema(
            (Feature("id", 0, 1e6),),
            classes=self.classes,
            target_range=None if self.classes else (0.0, 10.0),
            rows=1000,
        )

    @property
    def record(self) -> str:
        return "one row"

    def subjects(self) -> tuple[str, ...]:
        return tuple(self.tables)

    def files(self, subject: str) -> tuple[Path, ...]:
        return ()

    def read(self, subject: str) -> tuple[Rows, int]:
        return self.tables[subject], 0

    def load(self, subject: str) -> Rows:
        return self.tables[subject]

    def fingerprint(self, subjects: object) -> str:
        return f"{self.number} {subjects}"


def made_up(sizes: list[int], n_classes: int = 3, recordings: int = 4, seed: int = 0) -> MemorySource:
    """One subject for each size, rows numbered from 0, in recordings of equal length."""
    rng, tables, start = np.random.default_rng(seed), {}, 0
    for number, size in enumerate(sizes):
        X = np.arange(start, start + size, dtype=np.float64)[:, None]
        y = rng.integers(0, n_classes, size) if n_classes else rng.uniform(0, 10, size)
        tables[f"s{number}"] = Rows(X, y, np.arange(size, dtype=np.int64) * recordings // max(size, 1))
        start += size
    return MemorySource(tables, tuple("abcdefghij"[:n_classes]))
