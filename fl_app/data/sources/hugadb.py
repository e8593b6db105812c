"""``hugadb``: gait recorded by six inertial sensors and two EMG sensors on the legs, at 60 Hz.

Chereshnev R., Kertesz-Farkas A. (2018) HuGaDB: Human Gait Database for Activity Recognition from
Wearable Inertial Sensor Networks. AIST 2017, LNCS 10716 (arXiv 1705.08506). Used are the
continuous "various" recordings and the seven activities that all 18 subjects have.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np

from dpforest.schema import Feature
from fl_app.data.reading.files import data_folder, subject_files, text_contents
from fl_app.data.reading.signals import Recording, SignalSource
from fl_app.data.reading.windows import Groups, Length, WindowSettings
from fl_app.data.source import DataError, Text

TEXT = re.compile(r"HuGaDB_v\d_various_(?P<subject>\d\d)_(\d\d)\.txt")
ARCHIVE = re.compile(r"HuGaDB_v\d_various_(?P<subject>\d\d)\.tar\.bz2")

PLACES = [f"{side}{part}" for side in "rl" for part in "fst"]  # right/left foot, shin, thigh
SENSORS = [f"{kind}_{place}" for place in PLACES for kind in ("acc", "gyro")]
EMG = ["EMG_r", "EMG_l"]
CODES = (1, 3, 4, 5, 6, 7, 8)
HEADER_LINES = 3


@dataclass(frozen=True)
class HugadbSettings(WindowSettings):
    """Settings of the data set; see `WindowSettings`. Raw samples by default, else windows of 1 s.

    Parameters
    ----------
    path
        Folder of the authors' ``HuGaDB_v1_various_SS_NN.txt`` files or of
        ``HuGaDB_v1_various_SS.tar.bz2`` archives; null means ``$DPFOREST_DATA/hugadb``.
    """

    length: Length = 60
    path: Text = None


class HugadbSource(SignalSource):
    """Walkers; subjects ``01`` to ``18``, or those whose files the folder holds."""

    name = "hugadb"
    Settings = HugadbSettings
    settings: HugadbSettings
    channels = (
        *(Feature(f"{sensor}_{axis}", -32768, 32767, "raw", "signed_sqrt") for sensor in SENSORS for axis in "xyz"),
        *(Feature(channel, 0, 255, "raw", "signed_sqrt", 127.5) for channel in EMG),
    )
    groups: ClassVar[Groups] = {sensor: (3 * i, 3 * i + 1, 3 * i + 2) for i, sensor in enumerate(SENSORS)}
    target = "act"
    classes = ("walking", "going_up", "going_down", "sitting", "sitting_down", "standing_up", "standing")
    rate = 60
    samples = 40_000

    def subjects(self) -> tuple[str, ...]:
        """The subjects whose files are there."""
        return tuple(sorted(self._found))

    def files(self, subject: str) -> tuple[Path, ...]:
        """A subject's text files, or its archive."""
        return self._found[subject]

    def recordings(self, subject: str) -> Iterator[Recording]:
        """The recordings, one a text file."""
        for name, content in sorted(text_contents(self.name, self.files(subject))):
            match = TEXT.fullmatch(name)
            if match and match["subject"] == subject:
                yield _parse(name, int(match[2]), content)

    @cached_property
    def _found(self) -> dict[str, tuple[Path, ...]]:
        folder = data_folder(self.name, self.settings.path)
        found = subject_files(folder.iterdir(), TEXT, ARCHIVE)
        if not found:
            raise DataError(
                f"data set hugadb: {folder} holds neither HuGaDB_v1_various_SS_NN.txt files nor "
                "HuGaDB_v1_various_SS.tar.bz2 archives"
            )
        return found


def _parse(name: str, number: int, content: bytes) -> Recording:
    import pandas as pd  # only needed where no cache is

    expected = [feature.name for feature in HugadbSource.channels] + [HugadbSource.target]
    lines = content.split(b"\n", HEADER_LINES + 1)
    header = lines[HEADER_LINES].decode("ascii", "replace").split() if len(lines) > HEADER_LINES else []
    if header != expected:
        missing = [column for column in expected if column not in header]
        raise DataError(
            f"data set hugadb: {name} has no column {missing[0]!r} in line {HEADER_LINES + 1}"
            if missing
            else f"data set hugadb: {name} has other columns, or another order, than HuGaDB v1"
        )
    try:
        # int64: a few cells of the published files are far outside int16
        table = pd.read_csv(
            io.BytesIO(lines[HEADER_LINES + 1]), sep="\t", header=None, dtype=np.int64, usecols=range(len(expected))
        ).to_numpy()
    except pd.errors.EmptyDataError:
        table = np.empty((0, len(expected)), dtype=np.int64)
    except ValueError as error:
        raise DataError(f"data set hugadb: {name} holds cells that are no whole numbers ({error})") from error
    labels = np.full(len(table), -1, dtype=np.int64)
    for index, code in enumerate(CODES):
        labels[table[:, -1] == code] = index
    return Recording(number, table[:, :-1], labels)
