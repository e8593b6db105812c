"""What a data set is to the app: a public schema, named subjects, and rows that stay with their client."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from dpforest.errors import DPForestError, SchemaError, did_you_mean
from dpforest.schema import Schema
from dpforest.settings import Says, Settings, quoted
from fl_app.data import cache

log = logging.getLogger(__name__)
LARGE_SHARE = 0.01
"""Share of a column's cells from which it is a warning that they are clipped or left out: a unit may be wrong."""
_NAMED = 5  # columns in a message

Dropped = Mapping[str, Mapping[str, tuple[int, int]]]
"""Subject to the classes of which rows are left out because of missing cells: how many, and of how many."""


class DataError(DPForestError):
    """A data set is missing or malformed, or a setting about data is wrong."""


Text = Annotated[str | None, Says("be text (one path or name) or null")]


class DataSettings(Settings):
    """Base of settings about data; a bad value is a `DataError`."""

    error = DataError

    @staticmethod
    def unknown_word(value: Any, words: Sequence[str]) -> str:
        """The sentence about a value that is none of the words."""
        return f"{quoted(value)} is unknown:{did_you_mean(value, words)[1:]} there are {', '.join(words)}"


@dataclass(frozen=True)
class SourceSettings(DataSettings):
    """Base of the settings of data sets.

    Parameters
    ----------
    out_of_bounds
        What to do with a cell outside its column's public bounds.
    """

    group = "dataset."

    out_of_bounds: Literal["clip", "refuse"] = field(default="clip", kw_only=True)

    @classmethod
    def unknown_option(cls, name: str, where: str) -> str:
        """The sentence about an option that does not exist."""
        return f"setting of {where} {cls.unknown_word(name, [each.name for each in dataclasses.fields(cls)])}"


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of one subject or client.

    Parameters
    ----------
    X : ndarray of float32 or float64, shape (n_rows, n_features)
        Features inside the schema's bounds, C order.
    y : ndarray, shape (n_rows,)
        Class index (int64) or target (float64).
    recording : ndarray of int64, shape (n_rows,)
        Which recording of the subject or client a row is from. The rows of one recording are in
        time order.
    """

    X: np.ndarray
    y: np.ndarray
    recording: np.ndarray

    def __len__(self) -> int:
        return len(self.y)

    def take(self, index: np.ndarray | Sequence[int]) -> Rows:
        """A copy of the rows at ``index`` (positions or a mask)."""
        index = np.asarray(index)
        if index.size == 0:
            index = index.astype(np.int64)
        return Rows(self.X[index], self.y[index], self.recording[index])

    @staticmethod
    def concat(parts: Sequence[Rows]) -> Rows:
        """One table of several; recordings of different parts get different ids.

        Parameters
        ----------
        parts : sequence of Rows
            At least one.
        """
        recordings, offset = [], 0
        for part in parts:
            recordings.append(part.recording + offset)
            offset += int(part.recording.max(initial=-1)) + 1
        return Rows(
            np.concatenate([part.X for part in parts]),
            np.concatenate([part.y for part in parts]),
            np.concatenate(recordings),
        )


class DataSource(ABC):
    """A data set split by subject, the person (or house, or site) whose rows belong together.

    Parameters
    ----------
    settings : SourceSettings
        An instance of the class attribute ``Settings``.
    """

    name: ClassVar[str]
    Settings: ClassVar[type[SourceSettings]]

    def __init__(self, settings: Any) -> None:
        self.settings = settings

    @property
    def on_nodes(self) -> bool:
        """Whether the rows are at the nodes only, so that nobody else can name subjects or load anything."""
        return False

    @property
    def is_made_up(self) -> bool:
        """Whether the rows are nobody's, so that as many can be asked for as one likes."""
        return False

    def settings_for_nodes(self) -> dict[str, Any]:
        """The settings as plain data, for the message that tells a node which data set is meant."""
        return dataclasses.asdict(self.settings)

    def at(self, path: str) -> DataSource:
        """The rows of one node, at its own path.

        Raises
        ------
        DataError
            The data set has a form of its own and does not take a node's files.
        """
        raise DataError(f"{self.name} does not read a node's own files: use dataset=table")

    @property
    def has_recordings(self) -> bool:
        """Whether a subject's rows are divided into recordings."""
        return True

    @property
    def keeps_time_order(self) -> bool:
        """Whether a split by random rows is refused."""
        return False

    @property
    def records_per_sample(self) -> int:
        """Most records that one raw sample has a part in; more than 1 where windows overlap."""
        return 1

    @property
    def records_an_hour(self) -> int | None:
        """Most records that an hour of recording has a part in; None where records have no duration."""
        return None

    @abstractmethod
    def schema(self) -> Schema:
        """The public description; it never looks at private rows."""

    @property
    @abstractmethod
    def record(self) -> str:
        """What one record, the privacy unit, is."""

    @abstractmethod
    def subjects(self) -> tuple[str, ...]:
        """Names of the subjects, in a fixed order."""

    @abstractmethod
    def files(self, subject: str) -> tuple[Path, ...]:
        """The files that ``read`` takes a subject's rows from."""

    @abstractmethod
    def read(self, subject: str) -> tuple[Rows, cache.Clipped]:
        """Parse a subject's rows; also how many cells of each column were clipped to their bounds."""

    def node_rows(self, subject: str) -> tuple[Rows, list[bytes]]:
        """The rows of a subject on a real node, of which no copy is kept on disk.

        Returns
        -------
        rows : Rows
        origins : list of bytes
            For each row the raw record that it is made of: by it the node decides, once for all runs, whether the row
            is for tests. It follows from nothing that a server may choose and from no other record. Here: the
            features, which is right where no setting changes them.

        Raises
        ------
        DataError
            The files are malformed.
        """
        rows, clipped = self.read(subject)
        self._log_clipped(subject, clipped)
        return rows, [row.tobytes() for row in rows.X]

    def load(self, subject: str) -> Rows:
        """The rows of one subject, from the cache where possible.

        Cells outside their public bounds are clipped and their number is logged here, on the
        client, or refused, as ``settings.out_of_bounds`` says.

        Raises
        ------
        DataError
            The subject does not exist or its files are malformed.
        SchemaError
            The rows do not fit the schema.
        """
        if subject not in self.subjects():
            raise DataError(f"{self.name}: no subject {subject!r}; there are {', '.join(self.subjects())}")
        key = self.fingerprint([subject])
        return cache.memory.get(key, lambda: self._load(subject, key))

    def _load(self, subject: str, key: str) -> Rows:
        def build() -> cache.Built:
            try:
                rows, clipped = self.read(subject)
            except SchemaError as error:
                raise SchemaError(f"{self.name}, subject {subject}: {error}") from error
            return {"X": rows.X, "y": rows.y, "recording": rows.recording}, clipped

        arrays, clipped = cache.load(self.name, key, build)
        self._log_clipped(subject, clipped)
        return Rows(arrays["X"], arrays["y"], arrays["recording"])

    def _log_clipped(self, subject: str, clipped: cache.Clipped) -> None:
        if text := describe_clipped(clipped):
            level = logging.WARNING if is_large(clipped) else logging.INFO
            log.log(level, "%s, subject %s: %s (these numbers stay local)", self.name, subject, text)

    def clipped(self) -> cache.Clipped:
        """How many cells of each column were clipped, of all subjects whose rows are in the cache."""
        return add_clipped(cache.clipped(self.name, self.fingerprint([subject])) for subject in self.subjects())

    def dropped(self) -> Dropped:
        """By subject and class, the rows that are left out because of missing cells; here none."""
        return {}

    def fingerprint(self, subjects: Sequence[str]) -> str:
        """Digest of the settings, the schema, the subjects and the state of their files.

        It changes when a file's size or time of change does, so it identifies cached rows.
        """
        paths = {path for subject in subjects for path in self.files(subject)}
        state = [cache.state_of(path) for path in sorted(paths)]
        return hashlib.sha256(json.dumps([self._identity, list(subjects), state]).encode()).hexdigest()

    @cached_property
    def _identity(self) -> str:
        facts = [self.name, self.settings_for_nodes(), self.schema().to_dict(), "single precision"]
        return json.dumps(facts, default=str)


def bounded(X: Any, schema: Schema, out_of_bounds: Literal["clip", "refuse"]) -> tuple[np.ndarray, cache.Clipped]:
    """`Schema.check_matrix`, with the numbers of clipped cells by column.

    Raises
    ------
    SchemaError
        As `Schema.check_matrix`.
    """
    inside, clipped = bounded_signal(X, schema, out_of_bounds)
    return schema.to_single(inside), clipped


def bounded_signal(
    X: Any, schema: Schema, out_of_bounds: Literal["clip", "refuse"]
) -> tuple[np.ndarray, cache.Clipped]:
    """`Schema.clip`, for raw signals from which rows are still to be made, with clipped cells by column."""
    inside, _ = schema.clip(X, out_of_bounds)
    clipped = (inside != X).sum(axis=0).tolist()
    return inside, {name: (cells, len(inside)) for name, cells in zip(schema.feature_names, clipped, strict=True)}


def add_clipped(parts: Iterable[cache.Clipped]) -> cache.Clipped:
    """The counts of several tables together."""
    clipped: Counter[str] = Counter()
    cells: Counter[str] = Counter()
    for part in parts:
        for name, (outside, all_cells) in part.items():
            clipped[name] += outside
            cells[name] += all_cells
    return {name: (clipped[name], cells[name]) for name in cells}


def describe_clipped(clipped: cache.Clipped) -> str:
    """What was clipped, the columns with the largest shares first; nothing if nothing was."""
    shares = {name: (outside, outside / cells) for name, (outside, cells) in clipped.items() if outside}
    if not shares:
        return ""
    columns = ", ".join(
        f"{name} {share:.2%}" for name, (_, share) in sorted(shares.items(), key=lambda item: -item[1][1])[:_NAMED]
    )
    more = f" and {len(shares) - _NAMED} more columns" if len(shares) > _NAMED else ""
    remedy = "; is a unit or a bound wrong?" if is_large(clipped) else ""
    total = sum(outside for outside, _ in shares.values())
    return f"{total} cells outside their public bounds were clipped: {columns}{more}{remedy}"


def describe_dropped(dropped: Dropped) -> str:
    """What was left out because of missing cells, by class and client; nothing if nothing was."""
    classes: Counter[str] = Counter()
    for of_subject in dropped.values():
        classes.update({name: out for name, (out, _) in of_subject.items()})
    if not classes:
        return ""
    shares = {s: ", ".join(f"{out} of {rows} {name}" for name, (out, rows) in of.items()) for s, of in dropped.items()}
    clients = [f"{subject}: {text}" for subject, text in shares.items() if text]
    more = f"; and {len(clients) - _NAMED} more" if len(clients) > _NAMED else ""
    total = ", ".join(f"{out} {name}" for name, out in classes.items())
    return (
        f"{classes.total()} rows with missing cells were left out, as the schema says ({total}): "
        f"{'; '.join(clients[:_NAMED])}{more}"
    )


def is_large(clipped: cache.Clipped) -> bool:
    """Whether so many cells of a column were clipped that its unit or its bounds may be wrong."""
    return any(outside > LARGE_SHARE * cells for outside, cells in clipped.values())


def inside_bounds(X: np.ndarray, schema: Schema) -> np.ndarray:
    """See `Schema.to_single`."""
    return schema.to_single(X)


def check_choice(name: str, value: Any, allowed: Collection[str]) -> None:
    """Refuse a value that is not among the allowed names, and say which is nearest.

    Raises
    ------
    DataError
        ``value`` is not allowed.
    """
    if value not in allowed:
        raise DataError(f"{name} {DataSettings.unknown_word(value, list(allowed))}")
