"""``appliances``: what the appliances of one low-energy house use, every ten minutes for 137 days.

Candanedo L.M., Feldheim V., Deramaix D. (2017) Data driven prediction models of energy use of
appliances in a low-energy house. Energy and Buildings 140. A regression on all sensor, weather and
light columns; the two random columns are left out, and the date becomes hour, weekday and month.
"""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated

import numpy as np

from dpforest.errors import SchemaError
from dpforest.schema import Feature, Schema
from dpforest.settings import Positive, Says
from fl_app.data.cache import Clipped
from fl_app.data.reading.files import data_folder
from fl_app.data.source import DataError, DataSource, Rows, SourceSettings, Text, bounded, inside_bounds

FILE = "energydata_complete.csv"
TARGET = "Appliances"
PUBLISHED_MAXIMUM = 1080.0  # Wh in ten minutes

INDOORS = ("T1", "T2", "T3", "T4", "T5", "T7", "T8", "T9")
MEASURED = (
    Feature("lights", 0.0, 100.0, "Wh", "signed_sqrt"),
    *(
        feature
        for room in range(1, 10)
        for feature in (
            Feature(f"T{room}", 0.0, 40.0, "C") if f"T{room}" in INDOORS else Feature(f"T{room}", -30.0, 40.0, "C"),
            Feature(f"RH_{room}", 0.0, 100.0, "%"),
        )
    ),
    Feature("T_out", -30.0, 40.0, "C"),
    Feature("Press_mm_hg", 700.0, 800.0, "mm Hg"),
    Feature("RH_out", 0.0, 100.0, "%"),
    Feature("Windspeed", 0.0, 40.0, "m/s", "signed_sqrt"),
    Feature("Visibility", 0.0, 70.0, "km"),
    Feature("Tdewpoint", -30.0, 30.0, "C"),
)
CALENDAR = (Feature("hour", 0.0, 24.0, "h"), Feature("weekday", 0.0, 6.0), Feature("month", 1.0, 12.0))


@dataclass(frozen=True)
class AppliancesSettings(SourceSettings):
    """Where the table is, and the public range of the target.

    Parameters
    ----------
    path
        Folder of ``energydata_complete.csv`` or of ``energydata_complete.csv.zip``, which may lie
        in a folder of it; null means ``$DPFOREST_DATA/appliances``.
    target_high
        Largest target in Wh, the smallest being 0; more is clipped. 1080 is the largest value
        that the authors publish: public, though it came from the data. A lower one costs the few
        large values and needs less noise.

    Raises
    ------
    DataError
        A value is not allowed.
    """

    path: Text = None
    target_high: Annotated[Positive, Says("be a number of Wh above 0")] = PUBLISHED_MAXIMUM


class AppliancesSource(DataSource):
    """One house: the only subject is ``house``, and a partition makes clients of it.

    The recordings are its days.
    """

    name = "appliances"
    Settings = AppliancesSettings
    settings: AppliancesSettings

    def schema(self) -> Schema:
        """Columns with bounds from physics: what rooms, sensors and the Belgian climate allow.

        Not from the data: 0 to 40 degrees indoors and -30 to 40 outdoors (T6 is outdoors), 0 to
        100 per cent humidity, 700 to 800 mm Hg, wind up to 40 m/s, visibility up to 70 km (the
        most that a weather report can state), lights up to 600 W for ten minutes.
        """
        return self._schema

    @property
    def record(self) -> str:
        """One row of the table."""
        return "one row (10 minutes of the house)"

    @property
    def records_an_hour(self) -> int:
        """Rows, with the one that begins before the hour."""
        return 7

    def subjects(self) -> tuple[str, ...]:
        """The one house."""
        return ("house",)

    def files(self, subject: str) -> tuple[Path, ...]:
        """The table, or the archive that holds it."""
        folder = data_folder(self.name, self.settings.path)
        found = sorted(folder.rglob(FILE)) + sorted(folder.rglob(FILE + ".zip"))
        if not found:
            raise DataError(f"data set appliances: {folder.absolute()} holds neither {FILE} nor {FILE}.zip")
        return (found[0],)

    def read(self, subject: str) -> tuple[Rows, Clipped]:
        """All rows in the order of time."""
        (path,) = self.files(subject)
        days, X, y = _parse(_content(path))
        X, clipped = bounded(X, self._schema, self.settings.out_of_bounds)
        target = np.clip(y, 0.0, self.settings.target_high)
        outside = target != y
        if outside.any() and self.settings.out_of_bounds == "refuse":
            raise SchemaError(
                f"target {TARGET!r} is {y[outside][0]:g}, outside [0, {self.settings.target_high:g}]: "
                "raise dataset.target_high or set out_of_bounds=clip"
            )
        return Rows(inside_bounds(X, self._schema), target, days), {**clipped, TARGET: (int(outside.sum()), len(y))}

    @cached_property
    def _schema(self) -> Schema:
        target_range = (0.0, float(self.settings.target_high))
        return Schema(MEASURED + CALENDAR, TARGET, target_range=target_range, target_unit="Wh", rows=20_000)


def _content(path: Path) -> bytes:
    if path.suffix != ".zip":
        return path.read_bytes()
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.read(FILE)
    except (zipfile.BadZipFile, KeyError, OSError) as error:
        raise DataError(f"data set appliances: {path.name} gives no {FILE} ({error}); copy it again") from error


def _parse(content: bytes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Day (counted from 0), features and target of each row, in the order of time."""
    import pandas as pd  # only needed where no cache is

    names = [feature.name for feature in MEASURED]
    try:
        table = pd.read_csv(io.BytesIO(content), usecols=["date", TARGET, *names])
        date = pd.to_datetime(table["date"], format="%Y-%m-%d %H:%M:%S")
        # cells are padded with blanks inside their quotes
        numbers = table[[TARGET, *names]].to_numpy(dtype=np.float64)
    except ValueError as error:
        raise DataError(f"data set appliances: {FILE} cannot be read ({' '.join(str(error).split())})") from error
    if not np.isfinite(numbers).all():
        row, column = np.argwhere(~np.isfinite(numbers))[0]
        raise SchemaError(f"column {[TARGET, *names][column]!r} row {row} is no finite number: copy the file again")
    order = np.argsort(date.to_numpy(), kind="stable")
    numbers, date = numbers[order], date.iloc[order]
    hour = date.dt.hour + date.dt.minute / 60
    X = np.column_stack([numbers[:, 1:], hour, date.dt.day_of_week, date.dt.month])
    days = np.unique(date.dt.normalize().to_numpy(), return_inverse=True)[1].astype(np.int64)
    return days, X, numbers[:, 0]
