"""``python -m fl_app.data.make_exercise --to FOLDER``: synthetic recordings as CSV files for ``dataset=exercise``."""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Sequence
from pathlib import Path

from fl_app.data.exercise import LONGEST_MINUTES
from fl_app.data.quality import LABEL, SENSORS, TIME
from fl_app.data.synthetic import Recordings, make_recordings
from fl_app.screen import run_command


def write_csv(made: Recordings, path: Path) -> None:
    """Write recordings in the form that ``dataset=exercise`` reads."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([TIME, *SENSORS, LABEL])
        for time, row, label in zip(made.time.tolist(), made.X.tolist(), made.y.tolist(), strict=True):
            writer.writerow([f"{time:.10g}" if time % 1 else int(time), *(f"{x:g}" for x in row), label])


def main(arguments: Sequence[str] | None = None) -> int:
    """Write one CSV file a made-up subject."""
    parser = argparse.ArgumentParser(prog="python -m fl_app.data.make_exercise", description=__doc__)
    parser.add_argument("--to", type=Path, required=True, help="folder")
    parser.add_argument("--subjects", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=50.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    if options.subjects < 1 or not 1 <= options.minutes <= LONGEST_MINUTES or options.seed < 0:
        parser.error(f"--subjects must be at least 1, --minutes from 1 to {LONGEST_MINUTES}, --seed not below 0")
    try:
        options.to.mkdir(parents=True, exist_ok=True)
        for subject in range(options.subjects):
            made = make_recordings(subject, options.minutes, options.seed)
            write_csv(made, options.to / f"synthetic-{subject + 1:02d}.csv")
    except OSError as error:
        print(f"error: {options.to} cannot be written ({error.strerror}): choose another folder", file=sys.stderr)
        return 1
    print(f"{options.subjects} synthetic recordings in {options.to}")
    return 0


if __name__ == "__main__":
    run_command(main)
