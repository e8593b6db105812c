"""Print the tables of many runs and which method is best, in words; draw all figures of all runs if asked.

Only runs that may be compared share a table: the same rows, the same privacy unit, the same kind of guarantee.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fl_app.report.gather import Gathered

EXAMPLES = """\
dpforest compare runs/sweep-2026-01-31_12-00-00
dpforest compare runs --figures figures"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which runs, and where figures go."""
    parser.add_argument("folders", nargs="+", type=Path, help="run folders, sweep folders, or folders of them")
    parser.add_argument("--figures", type=Path, help="where to write all figures of all runs (default: none are drawn)")


def execute(options: argparse.Namespace) -> int:
    """Print the table; exit code 1 if there is nothing to compare."""
    from dpforest.errors import DPForestError
    from fl_app.compare import section_tables
    from fl_app.report.answer import answer, in_words
    from fl_app.report.gather import gather

    try:
        gathered = gather(options.folders)
        for trouble in gathered.troubles:
            print(trouble, file=sys.stderr)
        if not gathered.sections:
            print(f"error: no finished run in {', '.join(map(str, options.folders))}", file=sys.stderr)
            return 1
        for section in gathered.sections:
            print(f"{section_tables(section)}\n")
        print(in_words([answer(section) for section in gathered.sections]))
        if options.figures:
            written = _draw(gathered, options.figures)
            print("\nfigures: " + ", ".join(str(path) for path in written if path.suffix == ".png"))
    except BrokenPipeError:
        raise
    except (DPForestError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _draw(gathered: Gathered, target: Path) -> list[Path]:
    """All figures of all settings, where a report shows the best of many."""
    from fl_app.figures.epsilon import write_figures
    from fl_app.figures.federation import write_federation_figures
    from fl_app.figures.ldp import write_ldp_figures
    from fl_app.figures.rounds import write_round_figures
    from fl_app.figures.settings import write_setting_figures
    from fl_app.figures.users import write_user_figures

    rows = gathered.rows
    runs = [run for section in gathered.sections for run in section.runs]
    written = write_figures(runs, rows, target) + write_round_figures(runs, rows, target)
    written += write_federation_figures(runs, rows, target)
    for family in gathered.families:
        written += write_setting_figures(family.title, family.rows, target)
    for section in gathered.sections:
        own = target if len(gathered.sections) == 1 else target / section.slug
        written += write_ldp_figures(section.runs, section.rows, own)
        written += write_user_figures(section.runs, section.rows, own)
    return written
