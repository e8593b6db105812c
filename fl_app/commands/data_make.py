"""Make up recordings of a wearable and write them as CSV files for dataset=exercise, one a subject."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

EXAMPLES = """\
dpforest data make --to made-up
dpforest data make --to made-up --subjects 5 --minutes 10 --seed 3"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """How many, how long, and where they go."""
    parser.add_argument("--to", type=Path, required=True, help="folder")
    parser.add_argument("--subjects", type=int, default=20, help="how many (default: 20)")
    parser.add_argument("--minutes", type=float, default=50.0, help="of each recording (default: 50)")
    parser.add_argument("--seed", type=int, default=0, help="of all that is random (default: 0)")


def execute(options: argparse.Namespace) -> int:
    """Write one CSV file a made-up subject."""
    from fl_app.data.sources.exercise import LONGEST_MINUTES
    from fl_app.data.sources.synthetic import make_recordings, write_csv

    if options.subjects < 1 or not 1 <= options.minutes <= LONGEST_MINUTES or options.seed < 0:
        options.parser.error(
            f"--subjects must be at least 1, --minutes from 1 to {LONGEST_MINUTES}, --seed not below 0"
        )
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
