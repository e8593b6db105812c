"""``python -m fl_app.compare FOLDER...``: the tables and the answer of many runs, and all their figures if asked."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from dpforest.errors import DPForestError
from fl_app.report.answer import Answer, answer, in_words
from fl_app.report.comparison import comparison_table
from fl_app.report.figures.catalogue import TABLES, write_all
from fl_app.report.figures.rounds import stability_table
from fl_app.report.gather import Gathered, gather
from fl_app.report.sections import Section
from fl_app.screen import run_command, screen_width


def section_tables(section: Section) -> str:
    """The tables of runs that may be compared: settings, and what their methods have besides."""
    tables = [comparison_table(section.runs, screen_width())] if section.has_scores else []
    tables += [stability_table(section), *(table(section) for table in TABLES.values())]
    return "\n\n".join(filter(None, [section.title, *tables, section.note]))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; exit code 1 if there is nothing to compare."""
    parser = argparse.ArgumentParser(prog="python -m fl_app.compare", description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path, help="run folders, sweep folders, or folders of them")
    parser.add_argument("--figures", type=Path, help="where to write all figures of all runs (default: none are drawn)")
    options = parser.parse_args(arguments)
    try:
        gathered = gather(options.folders)
        for left_out in gathered.left_out:
            print(left_out, file=sys.stderr)
        if not gathered.sections:
            print(f"error: no finished run in {', '.join(map(str, options.folders))}", file=sys.stderr)
            return 1
        for section in gathered.sections:
            print(f"{section_tables(section)}\n")
        answers = [answer(section) for section in gathered.sections]
        print(in_words(answers))
        if options.figures:
            written = _draw(gathered, answers, options.figures)
            print("\nfigures: " + ", ".join(str(path) for path in written if path.suffix == ".png"))
    except (DPForestError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _draw(gathered: Gathered, answers: Sequence[Answer], target: Path) -> list[Path]:
    """All figures of all settings, where a report shows the best of many; of each section in a folder of its own."""
    written = [path for family in gathered.families for path in write_all(family, target)]
    for own in answers:
        folder = target if len(answers) == 1 else target / own.section.slug
        written += write_all(own, folder) + write_all(own.section, folder)
    return written


if __name__ == "__main__":
    run_command(main)
