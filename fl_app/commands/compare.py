"""Print the tables of many runs and which method is best, in words; draw all figures of all runs if asked.

Only runs that may be compared share a table: the same rows, the same privacy unit, the same kind of guarantee.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fl_app.report.answer import Answer
    from fl_app.report.gather import Gathered
    from fl_app.report.wanted import Wanted

EXAMPLES = """\
dpforest compare runs/sweep-2026-01-31_12-00-00
dpforest compare runs --figures figures
dpforest compare runs report.target=95%"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which runs, and where figures go."""
    add_folders(parser)
    parser.add_argument("--figures", type=Path, help="where to write all figures of all runs (default: none are drawn)")


def add_folders(parser: argparse.ArgumentParser) -> None:
    """Which runs, and the score that is wanted of them."""
    parser.add_argument(
        "folders", nargs="+", type=Path, metavar="FOLDER",
        help="run folders, sweep folders, or folders of them; with report.target=0.9 (or 95%% of the best without "
        "privacy) among them, which epsilon takes a method there, and what that costs",
    )  # fmt: skip


def named_runs(options: argparse.Namespace) -> tuple[list[Path], Wanted | None, Gathered]:
    """Folders and wanted score of a command line, and the runs there; says which are left out."""
    from fl_app.report.gather import gather
    from fl_app.report.wanted import split_wanted

    folders, wanted = split_wanted(options.folders)
    gathered = gather(folders)
    for left_out in gathered.left_out:
        print(left_out, file=sys.stderr)
    return folders, wanted, gathered


def print_answers(answers: Sequence[Answer]) -> None:
    """What was found, and which epsilon a wanted score takes."""
    from fl_app.report.answer import in_words
    from fl_app.report.wanted import sought_in_words
    from fl_app.terminal.screen import screen_width

    print("\n\n".join(filter(None, [in_words(answers), sought_in_words(answers, screen_width())])))


def execute(options: argparse.Namespace) -> int:
    """Print the table; exit code 1 if there is nothing to compare."""
    from fl_app.report.answer import answer
    from fl_app.report.tables import section_tables

    folders, wanted, gathered = named_runs(options)
    if gathered.repeats:
        print(
            f"note: {gathered.repeats} run(s) with the configuration and seed of another one and other numbers: "
            "other code, or noise that no seed gives; each seed counts once, with the mean of its runs",
            file=sys.stderr,
        )
    if not gathered.sections:
        print(f"error: no finished run in {', '.join(map(str, folders))}", file=sys.stderr)
        return 1
    for section in gathered.sections:
        print(f"{section_tables(section)}\n")
    answers = [answer(section, wanted) for section in gathered.sections]
    print_answers(answers)
    if options.figures:
        written = _draw(gathered, answers, options.figures)
        print("\nfigures: " + ", ".join(str(path) for path in written if path.suffix == ".png"))
    return 0


def _draw(gathered: Gathered, answers: Sequence[Answer], target: Path) -> list[Path]:
    """All figures of all settings, where a report shows the best of many; of each section in a folder of its own."""
    from fl_app.report.figures.catalogue import write_all

    written = [path for family in gathered.families for path in write_all(family, target)]
    for own in answers:
        folder = target if len(answers) == 1 else target / own.section.slug
        written += write_all(own, folder) + write_all(own.section, folder)
    return written
