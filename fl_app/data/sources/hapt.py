"""``hapt``: activities and postural transitions, recorded by a smartphone on the waist at 50 Hz.

Reyes-Ortiz J.-L. et al. (2016) Transition-Aware Human Activity Recognition Using Smartphones.
Neurocomputing 171. 30 subjects, 61 recordings, accelerometer (in g, with gravity) and gyroscope.
The windows are cut from the raw recordings, each inside one labelled segment: with windows of
128 samples every 64, the 10,929 of the published set.

The bounds are the sensors' ranges, which the data set's own documents do not give: 2 g, as the
Galaxy S II's open driver sets its K3DH accelerometer, and 2000 degrees per second, the widest
range of its gyroscope.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np

from dpforest.schema import Feature
from dpforest.settings import Says
from fl_app.data.reading.files import data_folder, subject_files, text_contents
from fl_app.data.reading.motion import separate
from fl_app.data.reading.signals import Recording, SignalSource
from fl_app.data.reading.windows import Features, Groups, Windower, WindowSettings
from fl_app.data.source import DataError, Text

TEXT = re.compile(r"(acc|gyro)_exp(\d\d)_user(?P<subject>\d\d)\.txt")
ARCHIVE = re.compile(r"RawData_user(?P<subject>\d\d)\.tar\.xz")
LABELS = "labels.txt"

ACTIVITIES = (
    "walking", "walking_upstairs", "walking_downstairs", "sitting", "standing", "laying",
    "stand_to_sit", "sit_to_stand", "sit_to_lie", "lie_to_sit", "stand_to_lie", "lie_to_stand",
)  # fmt: skip
ACCELEROMETER_RANGE = 2.0  # g
GYROSCOPE_RANGE = math.radians(2000)  # rad/s


@dataclass(frozen=True)
class HaptSettings(WindowSettings):
    """Settings of the data set; see `WindowSettings`. Windows of 2.56 s that share no sample by default.

    The published set has ``step=64`` and ``overlap=count``: then each sample is in two records.

    Parameters
    ----------
    classes
        12, or without the six postural transitions, the classes of the older UCI HAR set.
    separate
        Take the features of body motion, gravity, angular velocity and their jerks (see
        `fl_app.data.reading.motion`), as the published set does, instead of the two measured sensors.
    path
        Folder that holds ``labels.txt`` and the ``acc_expEE_userNN.txt`` and
        ``gyro_expEE_userNN.txt`` files, or ``RawData_userNN.tar.xz`` archives of them; folders in
        it are searched too. Null means ``$DPFOREST_DATA/hapt``.
    """

    features: Features = "uci"
    classes: Annotated[Literal[12, 6], Says("be 12, or 6 for no postural transitions")] = 12
    separate: bool = True
    path: Text = None


class HaptSource(SignalSource):
    """Phone wearers; subjects ``01`` to ``30``, or those whose files the folder holds."""

    name = "hapt"
    Settings = HaptSettings
    settings: HaptSettings
    channels = (
        *(Feature(f"acc_{axis}", -ACCELEROMETER_RANGE, ACCELEROMETER_RANGE, "g", "signed_sqrt") for axis in "xyz"),
        *(Feature(f"gyro_{axis}", -GYROSCOPE_RANGE, GYROSCOPE_RANGE, "rad/s", "signed_sqrt") for axis in "xyz"),
    )
    groups: ClassVar[Groups] = {"acc": (0, 1, 2), "gyro": (3, 4, 5)}
    target = "activity"
    rate = 50
    samples = 25_000

    def __init__(self, settings: HaptSettings) -> None:
        super().__init__(settings)
        self.classes = ACTIVITIES[: settings.classes]

    def subjects(self) -> tuple[str, ...]:
        """The subjects whose files are there."""
        return tuple(sorted(self._found))

    def files(self, subject: str) -> tuple[Path, ...]:
        """A subject's text files or its archive, and the file of all labels."""
        return (*self._found[subject], self._labels_file)

    def recordings(self, subject: str) -> Iterator[Recording]:
        """The recordings, in the order of the experiments."""
        signals: dict[int, dict[str, np.ndarray]] = {}
        for name, content in text_contents(self.name, self._found[subject]):
            match = TEXT.fullmatch(name)
            if match and match["subject"] == subject:
                signals.setdefault(int(match[2]), {})[match[1]] = _parse(name, content, 3, float)
        for experiment in sorted(signals):
            found = signals[experiment]
            if missing := [sensor for sensor in ("acc", "gyro") if sensor not in found]:
                raise DataError(f"data set hapt: {missing[0]}_exp{experiment:02d}_user{subject}.txt is missing")
            if len(found["acc"]) != len(found["gyro"]):
                raise DataError(
                    f"data set hapt: experiment {experiment:02d} has {len(found['acc'])} rows of acc and "
                    f"{len(found['gyro'])} of gyro; copy the files again"
                )
            labels = self._sample_labels(experiment, int(subject), len(found["acc"]))
            yield Recording(experiment, np.hstack([found["acc"], found["gyro"]]), labels)

    def _sample_labels(self, experiment: int, subject: int, n: int) -> np.ndarray:
        labels = np.full(n, -1, dtype=np.int64)
        table = self._labels
        for activity, first, last in table[(table[:, 0] == experiment) & (table[:, 1] == subject), 2:]:
            # the file counts samples from 1, and the last one belongs to the segment
            if not (1 <= activity <= len(ACTIVITIES) and 1 <= first <= last <= n):
                raise DataError(
                    f"data set hapt: {LABELS} gives experiment {experiment:02d} activity {activity} for samples "
                    f"{first} to {last}; there are activities 1 to {len(ACTIVITIES)} and samples 1 to {n}"
                )
            if activity <= len(self.classes):
                labels[first - 1 : last] = activity - 1
        return labels

    @cached_property
    def _windower(self) -> Windower:
        derived = None
        if self.settings.separate:
            derived = separate(self.channels, (0, 1, 2), (3, 4, 5), self.rate, self.settings.length)
        return Windower(self.channels, self.groups, self.settings, derived)

    @cached_property
    def _labels(self) -> np.ndarray:
        return _parse(LABELS, self._labels_file.read_bytes(), 5, int)

    @cached_property
    def _labels_file(self) -> Path:
        folder = data_folder(self.name, self.settings.path)
        found = sorted(folder.rglob(LABELS))
        if not found:
            raise DataError(f"data set hapt: {folder.absolute()} holds no {LABELS}; put it next to the recordings")
        return found[0]

    @cached_property
    def _found(self) -> dict[str, tuple[Path, ...]]:
        folder = data_folder(self.name, self.settings.path)
        found = subject_files(folder.rglob("*_user*"), TEXT, ARCHIVE)
        if not found:
            raise DataError(
                f"data set hapt: {folder.absolute()} holds neither acc_expEE_userNN.txt files nor "
                "RawData_userNN.tar.xz archives"
            )
        return found


def _parse(name: str, content: bytes, columns: int, kind: type) -> np.ndarray:
    import pandas as pd  # only needed where no cache is

    try:
        table = pd.read_csv(io.BytesIO(content), sep=r"\s+", header=None, dtype=kind).to_numpy()
    except pd.errors.EmptyDataError:
        return np.empty((0, columns), dtype=kind)
    except ValueError as error:
        raise DataError(f"data set hapt: {name} holds cells that are no numbers ({error})") from error
    if table.shape[1] != columns:
        raise DataError(f"data set hapt: {name} has {table.shape[1]} columns, expected {columns}")
    return np.asarray(table)
