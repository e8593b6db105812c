"""``table``: a user's own CSV or Parquet, described by a schema file.

Either one file with a column that names the client of each row, or a folder with one file a
client, where the file's stem is the client's name.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dpforest.errors import SchemaError
from dpforest.schema import Schema
from fl_app.data.cache import Clipped, Recent, state_of
from fl_app.data.reading.files import files_by_name
from fl_app.data.reading.table_file import SUFFIXES, TableFile, read_table
from fl_app.data.source import LARGE_SHARE, DataError, DataSource, Dropped, Rows, SourceSettings, Text, bounded

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TableSettings(SourceSettings):
    """Where the table is.

    Parameters
    ----------
    path
        A ``.csv`` or ``.parquet`` file, or a folder of them with one file a client. Null: every node has a file or
        folder of its own, named by ``data-path`` in its node configuration.
    schema
        The schema file (YAML), or its content; see `dpforest.schema.Schema.from_dict`.
    client_column
        Names each row's client; needed for one file, not used for a folder.
    recording_column
        Names each row's recording; without it a client's rows are one recording.

    Raises
    ------
    DataError
        A value is missing or not allowed.
    """

    path: Text = None
    schema: str | Mapping[str, Any] | None = None
    client_column: Text = None
    recording_column: Text = None

    def __post_init__(self) -> None:
        if not isinstance(self.schema, str | Mapping) or not self.schema:
            raise DataError("dataset.schema is missing: give the YAML file that names columns, bounds and classes")
        super().__post_init__()


class TableSource(DataSource):
    """A user's table; the subjects are its clients."""

    name = "table"
    Settings = TableSettings
    settings: TableSettings
    _of_one_client = False

    @property
    def on_nodes(self) -> bool:
        """Whether only the nodes have rows."""
        return self.settings.path is None

    def settings_for_nodes(self) -> dict[str, Any]:
        """With the schema itself in the place of its file, which the nodes do not have."""
        return super().settings_for_nodes() | {"schema": self._schema.to_dict()}

    def at(self, path: str) -> TableSource:
        """The rows of one node, all of one client, in its own file or folder."""
        # Refusing a value would tell the server about it; on a node it is clipped, whatever the message says.
        own = TableSource(replace(self.settings, path=path, client_column=None, out_of_bounds="clip"))
        own._of_one_client = True
        return own

    def schema(self) -> Schema:
        """The schema file's content."""
        return self._schema

    @property
    def record(self) -> str:
        """One row of the table."""
        return "one row"

    @property
    def has_recordings(self) -> bool:
        """Whether a column names recordings."""
        return self.settings.recording_column is not None

    def subjects(self) -> tuple[str, ...]:
        """File stems, or the values of the client column, numbers in numeric order."""
        return self._subjects

    def files(self, subject: str) -> tuple[Path, ...]:
        """The client's file, or the one file of all."""
        return (self._by_client[subject] if self._path.is_dir() else self._path,)

    def read(self, subject: str) -> tuple[Rows, Clipped]:
        """A client's rows, with one 0/1 column for each category.

        Raises
        ------
        DataError
            A record of the file cannot be read, whosever it is.
        SchemaError
            A cell of the client's does not fit the schema.
        """
        cells, mine = self._of(subject)
        chosen = mine & ~cells.table.dropped
        if mine.any() and not chosen.any():
            columns = [r.name for r in cells.table.readings if r.rule == "drop" and r.missing[mine].all()]
            raise SchemaError(
                f"{cells.file.path.name}: no row is left, as each has a missing cell in a column with missing: drop"
                f"{f' ({columns[0]!r} has no value at all)' if columns else ''}: fill it, set branch, or leave it out"
            )
        cells.require(chosen)
        return self._rows(cells, chosen)

    def dropped(self) -> Dropped:
        """By client and class, the rows that are left out by ``missing: drop``; nothing where the schema says none."""
        schema = self._schema
        rules = [*schema.missing_rules.values(), schema.missing_target]
        return {subject: self._dropped_of(subject) for subject in self.subjects()} if "drop" in rules else {}

    def _dropped_of(self, subject: str) -> dict[str, tuple[int, int]]:
        cells, mine = self._of(subject)
        target = cells.table.target
        assert target is not None
        names = self._schema.classes or (f"a {target.name}",)
        known = target.values if self._schema.is_classification else np.zeros(len(mine), dtype=np.int64)
        index = np.where(target.fits, known, len(names)).astype(np.int64)[mine]
        all_rows = np.bincount(index, minlength=len(names) + 1)
        dropped = np.bincount(index, weights=cells.table.dropped[mine], minlength=len(names) + 1)
        counts = zip((*names, f"no {target.name}"), dropped.tolist(), all_rows.tolist(), strict=True)
        return {name: (int(out), rows) for name, out, rows in counts if out}

    def _of(self, subject: str) -> tuple[_Cells, np.ndarray]:
        """The file of a client, and the mask of its rows there."""
        cells = self._cells(self.files(subject)[0])
        mine = np.ones(len(cells.file), dtype=bool)
        if self._path.is_file() and not self._of_one_client:
            mine = np.array(cells.file.text(str(self.settings.client_column)), dtype=object) == subject
        return cells, mine

    def node_rows(self, subject: str) -> tuple[Rows, list[bytes]]:
        """The rows of a file that the schema can hold; their origins are the records, with every column of the file.

        The others are left out one by one: an error would answer the server's question whether there is such a row.
        """
        cells = self._cells(self.files(subject)[0])
        fits = cells.fitting()
        rows, clipped = self._rows(cells, fits)
        self._log_clipped(subject, clipped)
        return rows, [cells.file.digests[row] for row in np.flatnonzero(fits)]

    def _rows(self, cells: _Cells, chosen: np.ndarray) -> tuple[Rows, Clipped]:
        """The chosen rows, all of whose cells fit."""
        schema = self._schema
        X, clipped = bounded(cells.table.matrix(chosen), schema, self.settings.out_of_bounds)
        assert cells.table.target is not None
        y = cells.table.target.values[chosen]
        if not schema.is_classification:
            y, outside = self._bounded_target(y)
            clipped = {**clipped, schema.target: (outside, len(y))}
        recording = np.zeros(len(X), dtype=np.int64)
        if self.settings.recording_column is not None:
            named = np.array(cells.file.text(self.settings.recording_column), dtype=object)[chosen]
            recording = np.unique(named, return_inverse=True)[1].astype(np.int64)
        return Rows(np.ascontiguousarray(X), y, recording), clipped

    @cached_property
    def _schema(self) -> Schema:
        given = self.settings.schema
        return (
            Schema.from_dict(given) if isinstance(given, Mapping) else Schema.from_yaml(Path(str(given)).expanduser())
        )

    @cached_property
    def _subjects(self) -> tuple[str, ...]:
        if self._path.is_dir():
            return tuple(sorted(self._by_client, key=_natural))
        if self._of_one_client:
            return (self._path.stem,)
        return tuple(sorted(set(self._cells(self._path).file.text(str(self.settings.client_column))), key=_natural))

    @cached_property
    def _path(self) -> Path:
        if not self.settings.path:
            raise DataError(
                "dataset.path is missing: give a CSV or Parquet file, or a folder with one file a client "
                "(only nodes with a data-path of their own need none)"
            )
        path = Path(self.settings.path).expanduser()
        if not path.exists():
            raise DataError(f"dataset.path {str(path.absolute())!r} does not exist: give a file or a folder")
        if path.is_file():
            if path.suffix.lower() not in SUFFIXES:
                raise DataError(f"dataset.path {path.name!r} must end in one of {', '.join(SUFFIXES)}")
            if self.settings.client_column is None and not self._of_one_client:
                raise DataError(
                    f"dataset.client_column is missing: name the column of {path.name} that says whose row it is, "
                    "or give a folder with one file a client"
                )
        return path

    @cached_property
    def _by_client(self) -> dict[str, Path]:
        return files_by_name(self._path, SUFFIXES, "client")

    def _cells(self, path: Path) -> _Cells:
        """The needed columns of a file; outside of nodes every record is readable, and one file of all has some."""
        schema, settings, own = self._schema, self.settings, self._of_one_client
        names = [*schema.columns, schema.target]
        names += [settings.recording_column] if settings.recording_column else []
        names += [settings.client_column] if settings.client_column and self._path.is_file() else []
        key = repr((state_of(path), names, own, schema.to_dict()))
        cells = tables.get(key, lambda: _Cells(read_table(path, names, digests=own), schema))
        if own:
            return cells
        file = cells.file
        for row, problem in file.unreadable.items():
            raise DataError(f"{file.place(row)}: {problem.what}; {problem.remedy}")
        if self._path.is_file() and not len(file):
            raise DataError(f"{path.name} has no rows, only a header")
        return cells

    def _bounded_target(self, y: np.ndarray) -> tuple[np.ndarray, int]:
        low, high = self._schema.target_range or (-np.inf, np.inf)
        outside = (y < low) | (y > high)
        if outside.any() and self.settings.out_of_bounds == "refuse":
            raise SchemaError(
                f"target {self._schema.target!r} is {y[outside][0]:g}, outside [{low:g}, {high:g}]: "
                "widen target_range or set out_of_bounds=clip"
            )
        return np.clip(y, low, high), int(outside.sum())


class _Cells:
    """The cells of a file that a schema asks for.

    Attributes
    ----------
    file : TableFile
    table : Table
        With the target.
    """

    def __init__(self, file: TableFile, schema: Schema) -> None:
        self.file = file
        self.table = file.read(schema, file.columns[schema.target])

    def require(self, rows: np.ndarray) -> None:
        """Refuse the first cell of the rows that does not fit; names its line and the remedy."""
        if found := self.table.problem(rows):
            row, reading = found
            cell = self.file.text(reading.name)[row]
            raise SchemaError(f"{self.file.place(row)}: {reading.problem(row, cell)}")

    def fitting(self) -> np.ndarray:
        """Mask of the readable rows that fit; says here, on the node, how many do not, and why."""
        readable = self.file.readable
        fits = readable & self.table.fits
        if fits.all():
            return fits
        shares = {"cannot be read": float((~readable).mean())}
        for reading in self.table.readings:
            shares |= {
                f"{reading.name} does not fit": float((readable & reading.unknown).mean()),
                f"{reading.name} is missing": float((readable & ~reading.fits & reading.missing).mean()),
            }
        columns = ", ".join(f"{what} {share:.2%}" for what, share in shares.items() if share)
        large = "; is a unit or the schema wrong?" if (~fits).mean() > LARGE_SHARE else ""
        log.warning(
            "%s: %d of %d rows do not fit the schema and are left out: %s%s (these numbers stay local)",
            self.file.path.name, int((~fits).sum()), len(fits), columns, large,
        )  # fmt: skip
        return fits


tables: Recent[_Cells] = Recent(1)  # a file of all clients is parsed once a process


def _natural(name: str) -> tuple[int, int, str]:
    return (0, int(name), name) if name.isdecimal() else (1, 0, name)
