"""Tables as people's programs write them, CSV and Parquet, read by the names of their columns.

The one reader of training, prediction and checks. In a CSV file **one line is one record**: a line ends with LF, CR or
both, also between quotes. So a quote that is not closed on its line spoils its own record and no other; how a record is
read never depends on another one. What concerns all records is taken from the header: the separator, and how many
cells a record has. (A record of a UTF-16 file is a sequence of 16-bit units.)
"""

from __future__ import annotations

import csv
import difflib
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dpforest.cells import Column, Table, TextColumn, numbers_of
from dpforest.errors import SchemaError
from dpforest.schema import Schema
from fl_app.data.reading.cells import ArrowColumn
from fl_app.data.source import DataError

SUFFIXES = (".csv", ".parquet")
_SEPARATORS = ",;\t|"
_UNDECODED = re.compile("[\ud800-\udfff]")
_BETWEEN_CELLS = "\x1f"
# What a record is made of follows from its text alone: by the names that a server asks for it may choose a separator.
_PLAIN = str.maketrans(dict.fromkeys(_SEPARATORS, _BETWEEN_CELLS) | {'"': None, " ": None})


class Problem(NamedTuple):
    """Why a record cannot be read, and what to do about it."""

    what: str
    remedy: str


MORE_CELLS = Problem(
    "more cells than the header has columns",
    "name every column in the header, and put decimal commas in quotes or write points",
)
FEWER_CELLS = Problem(
    "fewer cells than the header has columns",
    "write an empty cell where there is no value, and no line breaks in cells",
)
OPEN_QUOTE = Problem(
    "a quote is not closed on its line", "close it; a record is one line, so no cell may hold a line break"
)
BAD_QUOTES = Problem("its quotes cannot be understood", "save the file as CSV again")
NOT_UTF8 = Problem("not UTF-8 text", "save the file as UTF-8")


@dataclass(frozen=True, eq=False)
class TableFile:
    """Columns of a file.

    Parameters
    ----------
    path : Path
    columns : mapping of str to Column
        The asked columns under the asked names, without records that are blank.
    lines : ndarray of int64, shape (n_rows,)
        Where each record stands in the file: a CSV's header is line 1, a Parquet file's first record is row 1.
    others : tuple of str
        Columns that nobody asked for.
    unreadable : mapping of int to Problem
        Positions of the records that cannot be read; their cells are empty in ``columns``.
    digests : tuple of bytes
        For each record 16 bytes that follow from the text of all its cells, asked or not, in the order of the file, and
        from nothing else: not from separators, quotes or blanks, nor from ``names``. Empty unless they were asked for.
    """

    path: Path
    columns: Mapping[str, Column]
    lines: np.ndarray
    others: tuple[str, ...]
    unreadable: Mapping[int, Problem]
    digests: tuple[bytes, ...]

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def readable(self) -> np.ndarray:
        """Mask of the records that can be read, shape (n_rows,)."""
        mask = np.ones(len(self), dtype=bool)
        mask[list(self.unreadable)] = False
        return mask

    def place(self, row: int) -> str:
        """File and line of a record, for messages."""
        return f"{self.path.name}, {'row' if _is_parquet(self.path) else 'line'} {self.lines[row]}"

    def read(self, schema: Schema, target: Column | None = None) -> Table:
        """The cells by a schema's rules.

        Raises
        ------
        DataError
            A Parquet column has a type that holds no numbers, such as dates.
        """
        with self.named():
            return Table(schema, self.columns, target)

    def numbers(self, name: str) -> np.ndarray:
        """A column as float64; NaN where a cell is empty or no number.

        Raises
        ------
        DataError
            A Parquet column has a type that holds no numbers, such as dates.
        """
        with self.named():
            return numbers_of(name, self.columns[name])

    @contextmanager
    def named(self) -> Iterator[None]:
        """Errors about columns with the name of the file."""
        try:
            yield
        except SchemaError as error:
            raise DataError(f"{self.path.name}: {error}") from None

    def text(self, name: str) -> list[str]:
        """A column as text without blanks around it; empty cells are empty."""
        return self.columns[name].text()


def read_table(path: Path, names: Sequence[str], digests: bool = False, optional: Sequence[str] = ()) -> TableFile:
    """Read columns of a CSV or Parquet file.

    The separator of a CSV (comma, semicolon, tab or bar) is the one under which the header has most of the names. Names
    are matched without regard to case where the case does not tell two columns apart. Byte order marks (UTF-8 and
    UTF-16), all line ends and decimal commas are read.

    Parameters
    ----------
    path : Path
        Ends in ``.parquet``, or is a CSV.
    names : sequence of str
        The columns to read.
    digests : bool
        Whether to make the records' digests, for which the whole file is read.
    optional : sequence of str
        More columns to read, where they are.

    Raises
    ------
    DataError
        The file is no table, or lacks a column or has it twice; names file, line and remedy.
    """
    read = _read_parquet if _is_parquet(path) else _read_csv
    return read(path, list(dict.fromkeys(names)), digests, [name for name in optional if name not in names])


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() == ".parquet"


def _read_parquet(path: Path, names: Sequence[str], digests: bool, optional: Sequence[str]) -> TableFile:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            found = file.schema_arrow.names
            positions = _positions(path.name, found, names, optional)
            asked = [found[position] for position in positions.values()]
            table = file.read(columns=None if digests else asked)
    except DataError:
        raise
    except (OSError, ValueError, pa.ArrowException) as error:
        reason = " ".join(str(error).split())
        raise DataError(f"{path.name} is no readable Parquet file ({reason}): write it again") from None
    columns = {name: ArrowColumn(table.column(found[position])) for name, position in positions.items()}
    whole: Iterable[Sequence[str]] = ()
    if digests:
        whole = zip(*(ArrowColumn(column).text() for column in table.columns), strict=True)
    return TableFile(
        path=path,
        columns=columns,
        lines=np.arange(1, table.num_rows + 1),
        others=_others(found, positions),
        unreadable={},
        digests=tuple(_digest(_BETWEEN_CELLS.join(record)) for record in whole),
    )


def _read_csv(path: Path, names: Sequence[str], digests: bool, optional: Sequence[str]) -> TableFile:
    header, *body = _lines(path)
    if not header.strip():
        raise DataError(f"{path.name}, line 1: no header; the first line must name the columns {', '.join(names)}")
    if _UNDECODED.search(header):
        raise DataError(f"{path.name}, line 1: {NOT_UTF8.what}; {NOT_UTF8.remedy}")
    found, separator = _split_header(header, names)
    positions = _positions(f"{path.name}, line 1", found, names, optional)
    width = len(found)
    cells: list[str] = []  # of all records, one after the other: a list for each of them would take twice the time
    texts: list[str] = []
    lines: list[int] = []
    unreadable: dict[int, Problem] = {}
    blank, empty = f" \t{separator}", [""] * width
    for line, text in enumerate(body, start=2):
        if not text.strip(blank):
            continue
        if text.isascii() and '"' not in text and text.count(separator) == width - 1:
            cells += text.split(separator)
        elif isinstance(record := _cells(text, separator, width), Problem):
            unreadable[len(lines)] = record
            cells += empty
        else:
            cells += record
        lines.append(line)
        texts.append(text)
    return TableFile(
        path=path,
        columns={name: TextColumn(cells[position::width]) for name, position in positions.items()},
        lines=np.array(lines, dtype=np.int64),
        others=_others(found, positions),
        unreadable=unreadable,
        digests=tuple(map(_digest, texts)) if digests else (),
    )


def _lines(path: Path) -> list[str]:
    """The lines of a file. Bytes that are no text stand as lone surrogates in their own line."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path.name} cannot be read ({error.strerror}): check the path and its permissions") from None
    except ValueError as error:
        raise DataError(f"{str(path)!r} is no path: {error}") from None
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        content = raw[: len(raw) // 2 * 2].decode("utf-16", "surrogatepass")
    else:
        content = raw.decode("utf-8-sig", "surrogateescape")
    return content.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _cells(text: str, separator: str, width: int) -> list[str] | Problem:
    """The cells of a record, or why they cannot be known."""
    if not text.isascii() and _UNDECODED.search(text):
        return NOT_UTF8
    if '"' in text:
        # A second line is only read if a quote is open at the end of the first.
        reader = csv.reader([text, ""], delimiter=separator, skipinitialspace=True)
        try:
            cells = next(reader)
        except csv.Error:
            return BAD_QUOTES
        if reader.line_num > 1:
            return OPEN_QUOTE
    else:
        cells = text.split(separator)
    if len(cells) < width:
        return FEWER_CELLS
    if len(cells) > width:
        if any(cell.strip() for cell in cells[width:]):
            return MORE_CELLS
        cells = cells[:width]
    return cells


def _digest(record: str) -> bytes:
    plain = record.translate(_PLAIN).rstrip(_BETWEEN_CELLS)
    return hashlib.blake2b(plain.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _split_header(header: str, names: Iterable[str]) -> tuple[list[str], str]:
    """The cells of a header, and the separator under which most of ``names`` are there."""
    wanted = {name.casefold() for name in names}
    split = {mark: _header_cells(header, mark) for mark in _SEPARATORS}
    best = max(
        _SEPARATORS, key=lambda mark: (len({cell.casefold() for cell in split[mark]} & wanted), len(split[mark]))
    )
    return split[best], best


def _header_cells(header: str, separator: str) -> list[str]:
    if '"' not in header:
        cells = header.split(separator)
    else:
        try:
            cells = next(csv.reader([header], delimiter=separator, skipinitialspace=True))
        except csv.Error:  # a cell of more than 131,072 characters, as where this is not the separator
            return []
    while cells and not cells[-1].strip():
        del cells[-1]  # a separator at the end of a line begins no column
    return [cell.strip() for cell in cells]


def _positions(place: str, found: Sequence[str], names: Sequence[str], optional: Sequence[str]) -> dict[str, int]:
    folded: dict[str, list[int]] = {}
    for position, name in enumerate(found):
        folded.setdefault(name.casefold(), []).append(position)
    positions = {}
    for name in [*names, *(name for name in optional if name.casefold() in folded)]:
        places = folded.get(name.casefold(), [])
        if len(places) > 1:
            places = [i for i in places if found[i] == name] or places  # names that differ in case only
        if len(places) > 1:
            raise DataError(f"{place}: column {name!r} is there twice; keep one")
        if not places:
            near = difflib.get_close_matches(name, found, n=1)
            hint = f" (is it {near[0]!r}?)" if near else ""
            raise DataError(f"{place}: no column {name!r}{hint}; add or rename it, there are {', '.join(found)}")
        positions[name] = places[0]
    return positions


def _others(found: Sequence[str], positions: Mapping[str, int]) -> tuple[str, ...]:
    taken = set(positions.values())
    return tuple(name for position, name in enumerate(found) if position not in taken)
