"""Go on with a sweep that was interrupted, or run what failed again; finished runs stay.

Options that are given take the place of the sweep's own: more seeds, another engine.
"""

from __future__ import annotations

import argparse

from fl_app.commands import run

EXAMPLES = """\
dpforest resume runs/sweep-2026-01-31_12-00-00
dpforest resume runs/sweep-2026-01-31_12-00-00 'seed=range(10)'"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The sweep, and what a sweep takes."""
    parser.add_argument("folder", metavar="FOLDER", help="of the sweep")
    run.add_sweep_arguments(parser)


def execute(options: argparse.Namespace) -> int:
    """Run what is missing; exit code 1 if any run failed."""
    options.multirun = True
    options.overrides.append(f"+resume={options.folder}")
    return run.execute(options)
