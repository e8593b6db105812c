"""``python -m fl_app.data.make_exercise --to FOLDER``: synthetic recordings as CSV files for ``dataset=exercise``."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from fl_app.data.quality import LABEL, SENSORS, TIME
from fl_app.data.synthetic import Recordings


def write_csv(made: Recordings, path: Path) -> None:
    """Write recordings in the form that ``dataset=exercise`` reads."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([TIME, *SENSORS, LABEL])
        for time, row, label in zip(made.time.tolist(), made.X.tolist(), made.y.tolist(), strict=True):
            writer.writerow([f"{time:.10g}" if time % 1 else int(time), *(f"{x:g}" for x in row), label])


if __name__ == "__main__":
    from fl_app.commands.cli import run_module

    sys.exit(run_module("data make", "fl_app.data.make_exercise"))
