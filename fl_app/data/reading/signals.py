"""What data sets of sensor recordings share: records are raw samples or windows of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from dpforest.schema import Feature, Schema
from fl_app.data.cache import Clipped
from fl_app.data.reading.windows import Groups, Windower, WindowSettings
from fl_app.data.source import DataSource, Rows, add_clipped, bounded_signal, inside_bounds


@dataclass(frozen=True, eq=False)
class Recording:
    """One continuous recording.

    Parameters
    ----------
    id : int
        Not negative, unique within the subject.
    signal : ndarray of shape (n_samples, n_channels)
    labels : ndarray of int64, shape (n_samples,)
        Class index, or negative for samples of other activities.
    """

    id: int
    signal: np.ndarray
    labels: np.ndarray


class SignalSource(DataSource):
    """A data set of multichannel recordings.

    A subclass names its public channels, sensors, classes, rate, and the order of magnitude of a
    subject's samples, and reads recordings.
    """

    Settings: ClassVar[type[WindowSettings]]
    settings: WindowSettings
    channels: ClassVar[tuple[Feature, ...]]
    groups: ClassVar[Groups]
    target: ClassVar[str]
    classes: tuple[str, ...]
    rate: ClassVar[int]  # Hz
    samples: ClassVar[int]

    @abstractmethod
    def recordings(self, subject: str) -> Iterator[Recording]:
        """The recordings of a subject, as they are in its files."""

    def schema(self) -> Schema:
        """Channels or window features, with bounds that follow from the sensors' ranges."""
        return self._schema

    @property
    def record(self) -> str:
        """One sample or one window, with its duration."""
        if not self.settings.windowed:
            return f"one sample (1/{self.rate} s)"
        return f"one window of {self.settings.length / self.rate:.3g} s ({self.settings.length} samples)"

    @property
    def records_an_hour(self) -> int:
        """Most records that an hour of recording has a part in: windows that begin before it count."""
        hour = 3600 * self.rate
        return -(-(hour + self.settings.length - 1) // self.settings.stride) if self.settings.windowed else hour

    @property
    def records_per_sample(self) -> int:
        """Most records that one raw sample has a part in."""
        return self.settings.records_per_sample

    def read(self, subject: str) -> tuple[Rows, Clipped]:
        """Bound the signals, then cut windows where the settings ask for them."""
        X, y, recording, clipped = [], [], [], []
        for item in self.recordings(subject):
            used = item.labels >= 0
            # unlabelled samples are not held against the bounds: no record is made of them
            signal = np.zeros_like(item.signal, dtype=np.float64)
            signal[used], outside = bounded_signal(item.signal[used], self._channel_schema, self.settings.out_of_bounds)
            clipped.append(outside)
            if self.settings.windowed:
                rows, labels = self._windower.transform(signal, item.labels)
            else:
                rows, labels = signal[used], item.labels[used]
            X.append(inside_bounds(rows, self._schema))
            y.append(labels)
            recording.append(np.full(len(labels), item.id, dtype=np.int64))
        return Rows(np.concatenate(X), np.concatenate(y), np.concatenate(recording)), add_clipped(clipped)

    def node_rows(self, subject: str) -> tuple[Rows, list[bytes]]:
        """The records of a subject; their origin is the whole recording, by its place in the data set.

        A server chooses where windows begin and end, so a window of one run holds samples of several of another: only
        what is cut nowhere stays on its side. Its place, since its content would move all its records if one changed.
        """
        rows, clipped = self.read(subject)
        self._log_clipped(subject, clipped)
        return rows, [f"{self.name} {subject} {number}".encode() for number in rows.recording.tolist()]

    @cached_property
    def _channel_schema(self) -> Schema:
        return Schema(self.channels, self.target, self.classes, rows=self.samples)

    @cached_property
    def _windower(self) -> Windower:
        return Windower(self.channels, self.groups, self.settings)

    @cached_property
    def _schema(self) -> Schema:
        if not self.settings.windowed:
            return self._channel_schema
        rows = max(1, self.samples // self.settings.stride)
        return Schema(self._windower.features(), self.target, self.classes, rows=rows)
