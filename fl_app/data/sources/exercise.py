"""``exercise``: is a wearer exercising? One CSV a device, or recordings that are made up.

The columns are those of the LDP document: ``timestamps,hr,spo2,green,red,ecg,acc_x,acc_y,acc_z,is_exercise``, in any
order. `fl_app.data.reading.quality` looks at every file before anything learns from it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated

from dpforest.schema import Feature, Schema
from dpforest.settings import OneOf, Positive, Range, Says, Seed, Whole, quoted
from fl_app.data.cache import Clipped, Recent, state_of
from fl_app.data.reading import quality
from fl_app.data.reading.files import files_by_name
from fl_app.data.reading.quality import LABEL, SENSORS
from fl_app.data.reading.table_file import SUFFIXES
from fl_app.data.source import DataError, DataSource, Rows, SourceSettings, Text, bounded, inside_bounds
from fl_app.data.sources.synthetic import make_recordings

log = logging.getLogger(__name__)
checks: Recent[quality.Checked] = Recent(1)  # the report and the rows come from one reading

CLASSES = ("rest", "exercise")
LONGEST_MINUTES = 10_080  # that are made up a person
_BOUNDS = {
    "hr": (30.0, 220.0),
    "spo2": (70.0, 100.0),
    "green": (0.0, 4095.0),
    "red": (0.0, 4095.0),
    "ecg": (-5.0, 5.0),
    "acc_x": (-40.0, 40.0),
    "acc_y": (-40.0, 40.0),
    "acc_z": (-40.0, 40.0),
}
_UNITS = {"hr": "1/min", "spo2": "%", "ecg": "mV", "acc_x": "m/s^2", "acc_y": "m/s^2", "acc_z": "m/s^2"}


Length = Annotated[Positive, Says("be a number above 0")]
Ends = Annotated[tuple[float, float], Says("be two numbers, low and high")]


@dataclass(frozen=True)
class ExerciseSettings(SourceSettings):
    """Where the recordings are, or how they are made up.

    Parameters
    ----------
    path
        A folder with one CSV a device, or one file. Null: every node has files of its own, named by ``data-path`` in
        its node configuration.
    synthetic
        Make recordings up for so many people instead; see `fl_app.data.sources.synthetic`.
    synthetic_minutes
        Length of a person's recordings together.
    synthetic_seed
        Of the recordings that are made up.
    rows
        Public order of magnitude of the rows of a device.
    min_rows
        Fewest good rows of a file; the LDP document asks for 100.
    gap
        Seconds; a longer pause, or a step back in time, starts a new recording.
    bounds
        Public ranges of the sensors, never read off the data; those not named keep the usual one.

    Raises
    ------
    DataError
        A value is not allowed.
    """

    path: Text = None
    synthetic: Annotated[int, Range(1, 10_000)] | None = None
    synthetic_minutes: Length = 50
    synthetic_seed: Seed = 0
    rows: Whole = 3000
    min_rows: Whole = 100
    gap: Length = 60
    bounds: Mapping[Annotated[str, OneOf(SENSORS)], Ends] = field(default_factory=lambda: dict(_BOUNDS))

    def __post_init__(self) -> None:
        if not isinstance(self.bounds, Mapping):
            raise DataError(f"dataset.bounds {quoted(self.bounds)} must name a range [low, high] for each sensor")
        super().__post_init__()
        if self.synthetic is not None and self.path is not None:
            raise DataError("dataset.path and dataset.synthetic exclude each other: read files, or make rows up")
        if self.synthetic_minutes > LONGEST_MINUTES:
            raise DataError(
                f"dataset.synthetic_minutes {self.synthetic_minutes!r} must be at most {LONGEST_MINUTES}, a week"
            )
        given = {name: (float(low), float(high)) for name, (low, high) in self.bounds.items()}
        object.__setattr__(self, "bounds", {**_BOUNDS, **given})


class ExerciseSource(DataSource):
    """Wearers of a device; a subject is the name of a file, or ``synthetic-01`` and so on."""

    name = "exercise"
    Settings = ExerciseSettings
    settings: ExerciseSettings
    _of_one_client = False

    @property
    def on_nodes(self) -> bool:
        """Whether only the nodes have rows."""
        return self.settings.path is None and self.settings.synthetic is None

    @property
    def is_made_up(self) -> bool:
        """Whether the people are synthetic."""
        return self.settings.synthetic is not None

    def at(self, path: str) -> ExerciseSource:
        """The rows of one node, all of one client."""
        own = ExerciseSource(replace(self.settings, path=path, synthetic=None, out_of_bounds="clip"))
        own._of_one_client = True
        return own

    def schema(self) -> Schema:
        """The eight sensors with their public ranges."""
        return self._schema

    @property
    def record(self) -> str:
        """One sample; says whether it is made up."""
        return "one sample" if self.settings.synthetic is None else "one sample of a synthetic recording (1 s)"

    @property
    def records_an_hour(self) -> int | None:
        """Samples of a synthetic recording; devices of others have rates of their own."""
        return None if self.settings.synthetic is None else 3600

    @property
    def keeps_time_order(self) -> bool:
        """Neighbouring samples are all but equal, so that random rows would flatter every model."""
        return True

    def subjects(self) -> tuple[str, ...]:
        """Names of the devices."""
        if self.settings.synthetic is not None:
            return tuple(f"synthetic-{number + 1:02d}" for number in range(self.settings.synthetic))
        return tuple(self._files)

    def files(self, subject: str) -> tuple[Path, ...]:
        """The device's file; none where rows are made up."""
        return () if self.settings.synthetic is not None else (self._files[subject],)

    def node_rows(self, subject: str) -> tuple[Rows, list[bytes]]:
        """The good rows of a device; their origins are the records of the file, with every column in it."""
        if self.settings.synthetic is not None:
            return super().node_rows(subject)
        self._report(self._checked(subject))
        return super().node_rows(subject)[0], list(self._checked(subject).digests)

    def fingerprint(self, subjects: Sequence[str]) -> str:
        """As of any source; a node keeps rows of a file that a simulation leaves out."""
        return super().fingerprint(subjects) + ("-node" if self._of_one_client else "")

    def read(self, subject: str) -> tuple[Rows, Clipped]:
        """The good rows of a device."""
        if self.settings.synthetic is not None:
            number = self.subjects().index(subject)
            made = make_recordings(number, self.settings.synthetic_minutes, self.settings.synthetic_seed)
            X, y, recording = made.X, made.y, made.recording
        else:
            checked = self._checked(subject)
            X, y, recording = checked.X, checked.y, checked.recording
        X, clipped = bounded(X.reshape(-1, len(SENSORS)), self._schema, self.settings.out_of_bounds)
        return Rows(inside_bounds(X, self._schema), y, recording), clipped

    def _load(self, subject: str, key: str) -> Rows:
        if self.settings.synthetic is None:
            # Also where the rows come from the cache: whoever trains on a file learns what is wrong with it.
            self._report(self._checked(subject))
        return super()._load(subject, key)

    def _report(self, checked: quality.Checked) -> None:
        """Log the findings here, on the client; refuse what cannot be used.

        On a node nothing is refused: the refusal would tell the server about the rows.
        """
        for finding in checked.findings:
            if finding.severity == "warning" or self._of_one_client:
                log.warning("%s (this report stays local)", finding)
        if checked.errors and not self._of_one_client:
            raise DataError("; ".join(str(error).removeprefix("error: ") for error in checked.errors))

    def _checked(self, subject: str) -> quality.Checked:
        path, own, settings = self._files[subject], self._of_one_client, self.settings
        key = repr((state_of(path), settings.min_rows, settings.gap, own))
        return checks.get(key, lambda: quality.check_file(path, settings.min_rows, settings.gap, by_itself=own))

    @cached_property
    def _files(self) -> Mapping[str, Path]:
        if self.settings.path is None:
            raise DataError(
                "dataset.path is missing: give the folder with one CSV a device, or dataset.synthetic=20 for synthetic "
                "recordings of 20 made-up people (only nodes with a data-path of their own need neither)"
            )
        return files_by_name(Path(self.settings.path).expanduser(), SUFFIXES, "device")

    @cached_property
    def _schema(self) -> Schema:
        features = tuple(
            Feature(
                name,
                *self.settings.bounds[name],
                unit=_UNITS.get(name, ""),
                scale="linear" if name in ("hr", "spo2", "green", "red") else "signed_sqrt",
            )
            for name in SENSORS
        )
        return Schema(features, LABEL, CLASSES, rows=self.settings.rows)
