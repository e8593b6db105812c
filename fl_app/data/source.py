"""What a data set is to the app: a public schema, named subjects, and rows that stay with their client."""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from dpforest.errors import DPForestError, SchemaError
from dpforest.schema import Schema
from fl_app.data import cache

log = logging.getLogger(__name__)


class DataError(DPForestError):
    """A data set is missing or malformed, or a setting about data is wrong."""


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
    settings : dataclass
        An instance of the class attribute ``Settings``, frozen and validated. It has at least
        ``out_of_bounds``.
    """

    name: ClassVar[str]
    Settings: ClassVar[type[Any]]

    def __init__(self, settings: Any) -> None:
        self.settings = settings

    @property
    def on_nodes(self) -> bool:
        """Whether the rows are at the nodes only, so that nobody else can name subjects or load anything."""
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
    def read(self, subject: str) -> tuple[Rows, int]:
        """Parse a subject's rows; also the number of cells clipped to their bounds."""

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
        rows = Rows(arrays["X"], arrays["y"], arrays["recording"])
        if clipped:
            log.info(
                "%s, subject %s: %d cells outside their public bounds were clipped (this number stays local)",
                self.name, subject, clipped,
            )  # fmt: skip
        return rows

    def fingerprint(self, subjects: Sequence[str]) -> str:
        """Digest of the settings, the schema, the subjects and the state of their files.

        It changes when a file's size or time of change does, so it identifies cached rows.
        """
        paths = {path for subject in subjects for path in self.files(subject)}
        state = [cache.state_of(path) for path in sorted(paths)]
        return hashlib.sha256(json.dumps([self._identity, list(subjects), state]).encode()).hexdigest()

    @cached_property
    def _identity(self) -> str:
        facts = [self.name, dataclasses.asdict(self.settings), self.schema().to_dict(), "single precision"]
        return json.dumps(facts, default=str)


def inside_bounds(X: np.ndarray, schema: Schema) -> np.ndarray:
    """See `Schema.to_single`."""
    return schema.to_single(X)


def check_choice(name: str, value: Any, allowed: Iterable[str]) -> None:
    """Refuse a value that is not among the allowed names, and say which is nearest.

    Raises
    ------
    DataError
        ``value`` is not allowed.
    """
    options = list(allowed)
    if value in options:
        return
    near = difflib.get_close_matches(str(value), options, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise DataError(f"{name} {value!r} is unknown: {hint}there are {', '.join(options)}")


def check_integer(name: str, value: Any, low: int, high: int | None = None) -> None:
    """Refuse what is not a whole number of at least ``low`` (and at most ``high``).

    Raises
    ------
    DataError
        ``value`` is out of range or no integer.
    """
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or value < low or (high is not None and value > high):
        limit = f"at least {low}" if high is None else f"in {low} to {high}"
        raise DataError(f"{name} {value!r} must be a whole number, {limit}")
