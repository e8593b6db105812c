"""CSV files as people's programs write them, read by the names of their columns."""

from __future__ import annotations

import csv
import difflib
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fl_app.data.source import DataError

if TYPE_CHECKING:
    import pandas as pd

_SEPARATORS = ",;\t|"
_SAMPLE = 200  # lines that are looked at for decimal commas
TOO_LONG_REMEDY = "name every column in the header, and put decimal commas in quotes or write points"


@dataclass(frozen=True, eq=False)
class CsvFile:
    """Columns of a file.

    Parameters
    ----------
    path : Path
    columns : DataFrame
        The asked columns under the asked names, without rows that are blank.
    lines : ndarray of int64, shape (n_rows,)
        Where each row stands in the file; the header is line 1.
    others : tuple of str
        Columns that nobody asked for.
    separator : str
    too_long : ndarray of bool, shape (n_rows,)
        Rows with more cells than the header has columns, as where unquoted decimal commas stand between commas. Which
        cell belongs to which column is not known: nothing in ``columns`` is to be believed there.
    """

    path: Path
    columns: pd.DataFrame
    lines: np.ndarray
    others: tuple[str, ...]
    separator: str
    too_long: np.ndarray

    def numbers(self, name: str) -> np.ndarray:
        """A column as float64; NaN where a cell is empty or no number."""
        import pandas as pd

        column = self.columns[name]
        if column.dtype.kind not in "iufb":
            text = column.astype(str).str.strip()
            # A decimal comma stands in quotes where commas separate. Truth values are numbers here as well, as they
            # are where a column holds nothing else: what a cell says must not depend on others.
            column = text.str.replace(",", ".", regex=False).str.casefold().replace({"true": "1", "false": "0"})
        return pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)

    def text(self, name: str) -> np.ndarray:
        """A column as text without blanks around it; empty cells are empty."""
        column = self.columns[name]
        return column.astype(object).map(lambda cell: "" if cell != cell else str(cell).strip()).to_numpy().astype(str)


def read_csv(path: Path, names: Sequence[str], text: Sequence[str] = ()) -> CsvFile:
    """Read columns of a CSV file.

    The separator (comma, semicolon, tab or bar) is the one under which the header has most of the names. Names are
    matched without regard to case. Byte order marks (UTF-8 and UTF-16), all line ends and decimal commas are read.

    Parameters
    ----------
    path : Path
    names : sequence of str
        The columns to read.
    text : sequence of str
        Those of ``names`` that are read as text.

    Raises
    ------
    DataError
        The file is no CSV, or lacks a column; names file, line and remedy.
    """
    import pandas as pd

    content = _decoded(path)
    header, _, body = content.partition("\n")
    if not header.strip():
        raise DataError(f"{path.name}, line 1: no header; the first line must name the columns {', '.join(names)}")
    found, separator = split_header(header, names)
    positions = _positions(path, found, names)
    types = {str(positions[name]): str for name in text}
    beyond = str(len(found))
    try:
        frame = pd.read_csv(
            # A last row of blanks, one cell longer than the header, makes place for rows that are too long; and a
            # table without rows is one as well: a node must not tell by an error that it has none.
            io.StringIO(f"{body}\n{separator * len(found)}"),
            sep=separator,
            header=None,
            names=[str(i) for i in range(len(found) + 1)],
            usecols=[*(str(i) for i in positions.values()), beyond],
            dtype=types,
            decimal="," if separator != "," and _has_decimal_commas(body, separator) else ".",
            index_col=False,
            skipinitialspace=True,
            skip_blank_lines=False,
            low_memory=False,
        )
    except (pd.errors.ParserError, ValueError) as error:
        reason = " ".join(str(error).split())  # pandas counts lines from the one after the header
        raise DataError(f"{path.name}: no readable table below line 1 ({reason}); save it as CSV again") from None
    too_long = frame[beyond].notna().to_numpy()
    frame = frame[[str(positions[name]) for name in names]].set_axis(list(names), axis=1)
    blank = frame.isna().all(axis=1).to_numpy() & ~too_long
    lines = np.flatnonzero(~blank) + 2
    taken = set(positions.values())
    others = tuple(name for i, name in enumerate(found) if i not in taken)
    columns = frame[~blank].reset_index(drop=True).infer_objects()
    return CsvFile(path, columns, lines, others, separator, too_long[~blank])


def split_header(header: str, names: Iterable[str]) -> tuple[list[str], str]:
    """The cells of a header, and the separator (comma, semicolon, tab, bar) under which most of ``names`` are there."""
    wanted = {name.casefold() for name in names}
    split = {
        mark: [cell.strip() for cell in next(csv.reader([header], delimiter=mark, skipinitialspace=True), [])]
        for mark in _SEPARATORS
    }
    best = max(
        _SEPARATORS, key=lambda mark: (len({cell.casefold() for cell in split[mark]} & wanted), len(split[mark]))
    )
    return split[best], best


def _decoded(path: Path) -> str:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path.name} cannot be read ({error.strerror}): check the path and its permissions") from None
    encoding = "utf-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        content = raw.decode(encoding)
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise DataError(f"{path.name}, line {line}: not UTF-8 text; save the file as UTF-8") from None
    return content.replace("\r\n", "\n").replace("\r", "\n")


def _positions(path: Path, found: Sequence[str], names: Sequence[str]) -> dict[str, int]:
    folded = [name.casefold() for name in found]
    positions = {}
    for name in names:
        places = [i for i, other in enumerate(folded) if other == name.casefold()]
        if len(places) > 1:
            places = [i for i in places if found[i] == name]  # names that differ in case only
        if len(places) > 1:
            raise DataError(f"{path.name}, line 1: column {name!r} is there twice; keep one")
        if not places:
            near = difflib.get_close_matches(name, found, n=1)
            hint = f" (is it {near[0]!r}?)" if near else ""
            raise DataError(
                f"{path.name}, line 1: no column {name!r}{hint}; add or rename it, there are {', '.join(found)}"
            )
        positions[name] = places[0]
    return positions


def _has_decimal_commas(body: str, separator: str) -> bool:
    lines = body.split("\n", _SAMPLE)[:_SAMPLE]
    return any("," in cell and "." not in cell for line in lines for cell in line.split(separator))
