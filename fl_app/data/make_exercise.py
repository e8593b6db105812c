"""``python -m fl_app.data.make_exercise --to FOLDER``: synthetic recordings as CSV files for ``dataset=exercise``."""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Sequence
from pathlib import Path

from fl_app.data.quality import LABEL, SENSORS, TIME
from fl_app.data.synthetic import Recordings, make_recordings


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
    if options.subjects < 1 or not options.minutes > 0 or options.seed < 0:
        parser.error("--subjects and --minutes must be above 0, --seed not below")
    options.to.mkdir(parents=True, exist_ok=True)
    for subject in range(options.subjects):
        write_csv(
            make_recordings(subject, options.minutes, options.seed), options.to / f"synthetic-{subject + 1:02d}.csv"
        )
    print(f"{options.subjects} synthetic recordings in {options.to}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
