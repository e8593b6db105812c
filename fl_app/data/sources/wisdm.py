"""``wisdm``: eighteen daily activities seen by a smartwatch or a phone, as features of windows of 10 s.

Weiss G.M., Yoneda K., Hayajneh T. (2019) Smartphone and Smartwatch-Based Biometrics Using
Activities of Daily Living. IEEE Access 7. 50 subjects (there is no 1614), four sensors at 20 Hz;
the authors' ARFF files hold 91 features of each window of 200 samples.

Most were read 20 times a second. The phone's accelerometer of 15 people has up to 2.5 times the windows of the same
three minutes an activity. The accelerometer's files of 1637, 1638, 1639 and 1640 hold, by all signs, the other device:
the watch's has a phone's 45 windows an activity, and no movement where hands eat, drink or clap. All are left as
published.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from dpforest.schema import Feature, Schema
from fl_app.data.cache import Clipped, Recent, state_of
from fl_app.data.reading.files import data_folder, tar_members
from fl_app.data.source import DataError, DataSource, Rows, SourceSettings, Text, bounded, inside_bounds

Sensor = Literal["watch_accel", "watch_gyro", "phone_accel", "phone_gyro"]
SENSORS = get_args(Sensor)
SUBJECTS = tuple(str(number) for number in range(1600, 1651) if number != 1614)
# their files of this sensor are copies of subject 1610's
FAULTY: Mapping[str, tuple[str, ...]] = {"phone_accel": ("1611", "1612", "1613", "1615", "1616", "1617")}
# samples of a window, and of a second where they are most
WINDOW, FASTEST = 200, 50

ACTIVITIES = {
    "A": "walking", "B": "jogging", "C": "stairs", "D": "sitting", "E": "standing", "F": "typing",
    "G": "brushing_teeth", "H": "eating_soup", "I": "eating_chips", "J": "eating_pasta", "K": "drinking",
    "L": "eating_sandwich", "M": "kicking", "O": "catching", "P": "dribbling", "Q": "writing", "R": "clapping",
    "S": "folding",
}  # fmt: skip

STANDARD_GRAVITY = 9.80665  # m/s^2
ATTRIBUTE = re.compile(r'@attribute\s+"([^"]+)"', re.IGNORECASE)


def features(sensor: Sensor) -> tuple[Feature, ...]:
    """The 91 features of a sensor with their public bounds.

    Follow from the definitions: shares of samples in a bin, cosines and correlations. From
    physics: the mean over 10 s lies within 2 g, or one turn a second; deviations from the mean
    and the length of the vector, from the range that Android's compatibility definition asks of a
    sensor (4 g, 1000 degrees/s). The documentation does not say in which units STANDDEV (it is no
    plain standard deviation), VAR and PEAK are, nor how the MFCC are scaled: their bounds 2, 1.5,
    1000 and 1.5 were set **after looking at the range of the data**, so they are not public in
    the strict sense.
    """
    if sensor.endswith("accel"):
        unit, mean, largest, rest = "m/s^2", 2 * STANDARD_GRAVITY, 4 * STANDARD_GRAVITY, STANDARD_GRAVITY
    else:
        unit, mean, largest, rest = "rad/s", math.tau, math.radians(1000), 0.0
    axes, pairs = "XYZ", ("XY", "XZ", "YZ")
    return (
        *(Feature(f"{axis}{k}", 0.0, 1.0, "", "signed_sqrt") for axis in axes for k in range(10)),
        *(Feature(f"{axis}AVG", -mean, mean, unit) for axis in axes),
        *(Feature(f"{axis}PEAK", 0.0, 1000.0, "", "signed_sqrt") for axis in axes),
        *(Feature(f"{axis}ABSOLDEV", 0.0, largest, unit, "signed_sqrt") for axis in axes),
        *(Feature(f"{axis}STANDDEV", 0.0, 2.0, "", "signed_sqrt") for axis in axes),
        *(Feature(f"{axis}VAR", 0.0, 1.5, "", "signed_sqrt") for axis in axes),
        *(Feature(f"{axis}MFCC{k}", -1.5, 1.5) for axis in axes for k in range(13)),
        *(Feature(f"{pair}COS", -1.0, 1.0) for pair in pairs),
        *(Feature(f"{pair}COR", -1.0, 1.0) for pair in pairs),
        Feature("RESULTANT", 0.0, math.sqrt(3) * largest, unit, "signed_sqrt", rest),
    )


@dataclass(frozen=True)
class WisdmSettings(SourceSettings):
    """Which sensor, and where its files are.

    Parameters
    ----------
    sensor
        Of the watch (50 subjects with the accelerometer) or of the phone. For ``phone_accel`` six subjects are left
        out, whose files are copies of another's.
    path
        Folder of ``arff_<sensor>.tar.xz`` archives or of the authors'
        ``data_SSSS_<accel|gyro>_<phone|watch>.arff`` files; folders in it are searched too. Null
        means ``$DPFOREST_DATA/wisdm``.

    Raises
    ------
    DataError
        A value is not allowed.
    """

    sensor: Sensor = "watch_accel"
    path: Text = None


class WisdmSource(DataSource):
    """Wearers of a phone and a watch; subjects ``1600`` to ``1650``, or those whose files are there."""

    name = "wisdm"
    Settings = WisdmSettings
    settings: WisdmSettings

    def schema(self) -> Schema:
        """The features, see `features`; about 360 windows a subject (18 activities of 3 minutes)."""
        return self._schema

    @property
    def record(self) -> str:
        """One window; windows share no samples."""
        return f"one window of {WINDOW} samples (10 s; {WINDOW // FASTEST} s where {FASTEST} were taken a second)"

    @property
    def records_an_hour(self) -> int:
        """Windows of the fastest sensor, with the one that begins before the hour."""
        return 3600 * FASTEST // WINDOW + 1

    @property
    def has_recordings(self) -> bool:
        """No: each activity was recorded once, so a held-out recording would be a held-out class."""
        return False

    def subjects(self) -> tuple[str, ...]:
        """The subjects whose files are there, without the faulty ones."""
        return self._subjects

    def files(self, subject: str) -> tuple[Path, ...]:
        """A subject's ARFF file, or the archive of all subjects."""
        return (self._found[subject],)

    def read(self, subject: str) -> tuple[Rows, Clipped]:
        """The windows of a subject, in the order of the file."""
        path, name = self._found[subject], self._file_name(subject)
        content = path.read_bytes() if path.name == name else _archive(path).get(name)
        if content is None:
            raise DataError(f"data set wisdm: {path.name} holds no {name}; copy it again")
        X, labels = _parse(name, content, subject, self._schema)
        X, clipped = bounded(X, self._schema, self.settings.out_of_bounds)
        return Rows(inside_bounds(X, self._schema), labels, np.zeros(len(labels), dtype=np.int64)), clipped

    @cached_property
    def _schema(self) -> Schema:
        return Schema(features(self.settings.sensor), "activity", tuple(ACTIVITIES.values()), rows=360)

    @cached_property
    def _subjects(self) -> tuple[str, ...]:
        faulty = FAULTY.get(self.settings.sensor, ())
        return tuple(subject for subject in sorted(self._found) if subject not in faulty)

    def _file_name(self, subject: str) -> str:
        device, sensor = self.settings.sensor.split("_")
        return f"data_{subject}_{sensor}_{device}.arff"

    @cached_property
    def _found(self) -> dict[str, Path]:
        folder = data_folder(self.name, self.settings.path)
        archive, pattern = f"arff_{self.settings.sensor}.tar.xz", self._file_name("*")
        found = {subject: path for path in folder.rglob(archive) for subject in SUBJECTS}
        found |= {path.name.split("_")[1]: path for path in folder.rglob(pattern)}
        if not found:
            raise DataError(f"data set wisdm: {folder.absolute()} holds neither {archive} nor {pattern} files")
        return found


def _archive(path: Path) -> dict[str, bytes]:
    return archives.get(repr(state_of(path)), lambda: dict(tar_members(WisdmSource.name, path)))


archives: Recent[dict[str, bytes]] = Recent(1)  # an archive of all subjects is unpacked once a process


def _parse(name: str, content: bytes, subject: str, schema: Schema) -> tuple[np.ndarray, np.ndarray]:
    import pandas as pd  # only needed where no cache is

    head, mark, data = content.partition(b"@data")
    # the attribute called "class" is the subject
    expected = ["ACTIVITY", *schema.feature_names, "class"]
    found = ATTRIBUTE.findall(head.decode("ascii", "replace"))
    if not mark or found != expected:
        missing = [column for column in expected if column not in found]
        problem = f"no attribute {missing[0]!r}" if missing else "other attributes, or another order, than WISDM 2019"
        raise DataError(f"data set wisdm: {name} has {problem}" if mark else f"data set wisdm: {name} has no @data")
    try:
        table = pd.read_csv(io.BytesIO(data), header=None, names=expected, dtype={"ACTIVITY": str, "class": str})
        X = table[schema.feature_names].to_numpy(dtype=np.float64)
    except ValueError as error:
        raise DataError(f"data set wisdm: {name} holds cells that are no numbers ({error})") from error
    if other := sorted(set(table["class"]) - {subject}, key=str):
        raise DataError(
            f"data set wisdm: {name} holds rows of subject {other[0]}, so it is a copy of another file: remove it"
        )
    activities = table["ACTIVITY"].map(ACTIVITIES)
    if activities.isna().any():
        wrong = table["ACTIVITY"][activities.isna()].iloc[0]
        raise DataError(f"data set wisdm: {name} has activity {wrong!r}; there are {', '.join(ACTIVITIES)}")
    return X, schema.encode_classes(activities.to_numpy())
