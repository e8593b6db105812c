"""The tables of a section for the terminal."""

from __future__ import annotations

from fl_app.report.comparison import comparison_table
from fl_app.report.figures.catalogue import TABLES
from fl_app.report.figures.rounds import stability_table
from fl_app.report.papers.compared import HEADER, compared
from fl_app.report.sections import Section
from fl_app.terminal.screen import screen_width
from fl_app.terminal.tables import columns


def section_tables(section: Section) -> str:
    """The tables of runs that may be compared: settings, and what their methods add."""
    tables = [comparison_table(section.runs, screen_width())] if section.has_scores else []
    tables += [stability_table(section), *(table(section, screen_width()) for table in TABLES.values())]
    return "\n\n".join(filter(None, [section.title, *tables, _papers(section), section.note]))


def _papers(section: Section) -> str:
    """Published values against ours; empty where nothing is reproduced."""
    lines, words = compared(section)
    table = columns(HEADER, lines, screen_width()) if lines else ""
    return "\n".join(filter(None, [table, *words]))
