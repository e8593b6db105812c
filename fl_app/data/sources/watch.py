"""``watch``: shoulder exercises recorded by a smartwatch, from the package seglearn 1.2.5 (BSD).

Burns D. et al. (2018) Shoulder physiotherapy exercise recognition: machine learning the inertial
signals from a smartwatch. Physiological Measurement 39. 10 subjects, 140 recordings (7 exercises,
both sides), accelerometer and gyroscope at 50 Hz.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import io
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from dpforest.schema import Feature
from dpforest.settings import Says
from fl_app.data.reading.signals import Recording, SignalSource
from fl_app.data.reading.windows import Features, Groups, Length, WindowSettings
from fl_app.data.source import DataError

PACKAGE = "seglearn"
FILE = "watch_dataset.npy"
SHA256 = "eb122f23cdf06ef6bd6c6c5312958ec5cf9d038e2e6d457b8081662c75a42537"
GYROSCOPE_RANGE = math.radians(2000)  # rad/s


@dataclass(frozen=True)
class WatchSettings(WindowSettings):
    """Settings of the data set; see `WindowSettings`. Windows of 1 s by default.

    Parameters
    ----------
    classes
        The exercises, or only whether an exercise is done against a band or with a dumbbell (IR, ER, TRAP, ROW).
    """

    features: Features = "standard"
    length: Length = 50
    classes: Annotated[Literal[7, 2], Says("be 7, or 2 for free and resisted exercises")] = 7


EXERCISES = ("PEN", "ABD", "FEL", "IR", "ER", "TRAP", "ROW")
_RESISTED = ("IR", "ER", "TRAP", "ROW")


class WatchSource(SignalSource):
    """Smartwatch wearers; subjects ``01`` to ``10``."""

    name = "watch"
    Settings = WatchSettings
    channels = (
        *(Feature(axis, -8.0, 8.0, "g", "signed_sqrt") for axis in ("ax", "ay", "az")),
        *(Feature(axis, -GYROSCOPE_RANGE, GYROSCOPE_RANGE, "rad/s", "signed_sqrt") for axis in ("wx", "wy", "wz")),
    )
    groups: ClassVar[Groups] = {"accelerometer": (0, 1, 2), "gyroscope": (3, 4, 5)}
    target = "exercise"
    rate = 50
    samples = 20_000

    def __init__(self, settings: WatchSettings) -> None:
        super().__init__(settings)
        self.classes = EXERCISES if settings.classes == 7 else ("free", "resisted")

    def subjects(self) -> tuple[str, ...]:
        """The ten wearers."""
        return tuple(f"{number:02d}" for number in range(1, 11))

    def files(self, subject: str) -> tuple[Path, ...]:
        """The one file of the package."""
        return (dataset_file(),)

    def recordings(self, subject: str) -> Iterator[Recording]:
        """The fourteen recordings of a wearer."""
        content = read_content(dataset_file())
        for number, position in enumerate(np.flatnonzero(content["subject"] == int(subject))):
            signal = np.asarray(content["X"][position], dtype=np.float64)
            label = int(content["y"][position])
            if len(self.classes) == 2:
                label = int(EXERCISES[label] in _RESISTED)
            yield Recording(number, signal, np.full(len(signal), label, dtype=np.int64))


@lru_cache(maxsize=1)
def dataset_file() -> Path:
    """Where the installed package keeps the data; the package is not imported.

    Raises
    ------
    DataError
        The package or its file is missing.
    """
    try:
        files = importlib.metadata.files(PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        raise DataError("data set watch: the package seglearn is not installed; pip install seglearn==1.2.5") from None
    for file in files:
        if file.name == FILE and Path(str(file.locate())).is_file():
            return Path(str(file.locate()))
    raise DataError(f"data set watch: seglearn has no {FILE}; reinstall it: pip install seglearn==1.2.5")


@lru_cache(maxsize=1)
def read_content(path: Path) -> dict[str, Any]:
    """All that the file holds, once a process; raises `DataError` where it is another file."""
    stored = path.read_bytes()
    # the file is a pickle, which may run code: only the known bytes are opened
    if (found := hashlib.sha256(stored).hexdigest()) != SHA256:
        raise DataError(
            f"data set watch: {path} has sha256 {found[:12]}..., expected {SHA256[:12]}...; "
            "reinstall it: pip install seglearn==1.2.5"
        )
    content: dict[str, Any] = np.load(io.BytesIO(stored), allow_pickle=True).item()
    return content
