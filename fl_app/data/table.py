"""``table``: a user's own CSV or Parquet, described by a schema file.

Either one file with a column that names the client of each row, or a folder with one file a
client, where the file's stem is the client's name.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpforest.errors import SchemaError, did_you_mean
from dpforest.schema import Schema
from fl_app.data.cache import Recent, state_of
from fl_app.data.csv_file import split_header
from fl_app.data.files import files_by_name
from fl_app.data.source import DataError, DataSource, Rows, SourceSettings

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger(__name__)

SUFFIXES = (".csv", ".parquet")


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

    path: str | None = None
    schema: str | Mapping[str, Any] | None = None
    client_column: str | None = None
    recording_column: str | None = None

    def __post_init__(self) -> None:
        if not self.schema:
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

    def read(self, subject: str) -> tuple[Rows, int]:
        """A client's rows, with one 0/1 column for each category."""
        frame = self._frame(self.files(subject)[0])
        if self._of_one_client:
            frame = self._fitting(frame)
        if not self._path.is_dir():
            frame = frame if self._of_one_client else frame[frame[self.settings.client_column] == subject]
        columns = {name: _numbers(frame[name]) for name in self._schema.numeric_columns}
        for name, values in self._schema.categories.items():
            columns |= self._one_hot(frame[name], values)
        X = np.column_stack([columns[feature.name] for feature in self._schema.features])
        X, clipped = self._schema.check_matrix(X, self.settings.out_of_bounds)
        if self._schema.is_classification:
            y = self._schema.encode_classes(frame[self._schema.target].to_numpy())
        else:
            y, outside = self._bounded_target(_numbers(frame[self._schema.target]))
            clipped += outside
        if self.settings.recording_column is None:
            recording = np.zeros(len(frame), dtype=np.int64)
        else:
            named = frame[self.settings.recording_column].to_numpy().astype(str)
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
        return tuple(sorted(set(self._frame(self._path)[self.settings.client_column].tolist()), key=_natural))

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

    def _frame(self, path: Path) -> pd.DataFrame:
        """The needed columns of a file; classes, categories, clients and recordings as text."""
        schema, settings = self._schema, self.settings
        text = [*schema.categories, *([schema.target] if schema.is_classification else [])]
        text += [settings.recording_column] if settings.recording_column else []
        text += [settings.client_column] if settings.client_column and self._path.is_file() else []
        text = list(dict.fromkeys(text))
        numeric = self._schema.numeric_columns + ([] if schema.is_classification else [schema.target])
        numeric = [name for name in numeric if name not in text]
        key = repr((state_of(path), numeric, text))
        frame = _frames.get(key, lambda: _read_frame(path, numeric, text))
        # A node says nothing of it: the error would tell the server a table of one record from one of none.
        if self._path.is_file() and frame.empty and not self._of_one_client:
            raise DataError(f"{path.name} has no rows, only a header")
        return frame

    def _fitting(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The rows that the schema can hold. On a node the others are dropped one by one: an error would answer the
        server's question whether there is such a row.
        """
        import pandas as pd

        fits = np.ones(len(frame), dtype=bool)
        numeric = self._schema.numeric_columns + ([] if self._schema.is_classification else [self._schema.target])
        for name in numeric:
            fits &= np.isfinite(pd.to_numeric(frame[name], errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan))
        allowed = dict(self._schema.categories)
        if self._schema.is_classification:
            allowed[self._schema.target] = self._schema.classes
        for name, values in allowed.items():
            fits &= np.isin(frame[name].to_numpy().astype(str), values)
        if not fits.all():
            log.warning("%d rows do not fit the schema and are left out (this number stays local)", int((~fits).sum()))
        return frame[fits]

    def _one_hot(self, column: pd.Series, values: tuple[str, ...]) -> dict[str, np.ndarray]:
        cells = column.to_numpy().astype(str)
        unknown = ~np.isin(cells, values)
        if unknown.any():
            row = int(unknown.argmax())
            raise SchemaError(
                f"column {column.name!r} row {column.index[row]} is {str(cells[row])!r}, which is not among its "
                f"categories {list(values)}: add it to the schema or drop these rows"
            )
        return {f"{column.name}={value}": (cells == value).astype(np.float64) for value in values}

    def _bounded_target(self, y: np.ndarray) -> tuple[np.ndarray, int]:
        low, high = self._schema.target_range or (-np.inf, np.inf)
        outside = (y < low) | (y > high)
        if outside.any() and self.settings.out_of_bounds == "refuse":
            raise SchemaError(
                f"target {self._schema.target!r} is {y[outside][0]:g}, outside [{low:g}, {high:g}]: "
                "widen target_range or set out_of_bounds=clip"
            )
        return np.clip(y, low, high), int(outside.sum())


_frames: Recent[pd.DataFrame] = Recent(1)  # a file of all clients is parsed once a process


def _read_frame(path: Path, numeric: list[str], text: list[str]) -> pd.DataFrame:
    import pandas as pd  # only needed where no cache is

    if path.stat().st_size == 0:
        raise DataError(f"{path.name} is empty: expected a header and rows")
    if path.suffix.lower() == ".parquet":
        try:
            frame = pd.read_parquet(path)
        except (ValueError, OSError) as error:
            raise DataError(f"{path.name} is no readable Parquet file: {error}") from error
        _require(path, numeric + text, list(frame.columns))
        frame = frame[numeric + text].reset_index(drop=True)
    else:
        try:
            content = path.read_bytes().decode("utf-8-sig")
        except UnicodeDecodeError:
            raise DataError(f"{path.name} is not UTF-8: save it as UTF-8") from None
        header = content.split("\n", 1)[0].rstrip("\r")
        names, separator = split_header(header, [*numeric, *text])
        _require(path, numeric + text, names)
        positions = {name: f"column {names.index(name)}" for name in numeric + text}
        try:
            frame = pd.read_csv(
                io.StringIO(content),
                sep=separator,
                header=0,
                names=[f"column {i}" for i in range(len(names))],
                usecols=list(positions.values()),
                dtype={positions[name]: str for name in text},
                index_col=False,
                skipinitialspace=True,
                keep_default_na=False,  # a class or category may be called "NA"; empty numbers are refused below
            )
        except (pd.errors.ParserError, ValueError) as error:
            raise DataError(f"{path.name} is no readable CSV: {' '.join(str(error).split())}") from error
        frame = frame[list(positions.values())].set_axis(list(positions), axis=1)
    for name in text:
        frame[name] = _as_text(frame[name])
    return frame


def _require(path: Path, columns: Iterable[str], found: list[str]) -> None:
    for name in columns:
        if name not in found:
            raise DataError(
                f"{path.name} has no column {name!r}{did_you_mean(name, found)} It has {', '.join(map(repr, found))}"
            )


def _as_text(column: pd.Series) -> pd.Series:
    import pandas as pd

    if pd.api.types.is_float_dtype(column.dtype) and bool((column.dropna() % 1 == 0).all()):
        column = column.astype("Int64")  # Parquet writers turn whole numbers with gaps into floats
    return column.astype(object).map(lambda cell: "" if pd.isna(cell) else str(cell).strip())


def _numbers(column: pd.Series) -> np.ndarray:
    import pandas as pd

    values = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    wrong = ~np.isfinite(values)
    if wrong.any():
        row = int(wrong.argmax())
        raise SchemaError(
            f"column {column.name!r} row {column.index[row]} is {str(column.iloc[row])!r}, not a finite number: "
            "drop or fill such rows first"
        )
    return values


def _natural(name: str) -> tuple[int, int, str]:
    return (0, int(name), name) if name.isdecimal() else (1, 0, name)
