"""``python -m fl_app.compare FOLDER...``: the tables and the answer of many runs, and all their figures if asked."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import pandas as pd

from dpforest.ledger import rounded_up
from fl_app.figures.base import short_trust, short_unit
from fl_app.figures.ldp import ldp_tables
from fl_app.figures.rounds import stability_table
from fl_app.figures.users import user_table
from fl_app.report.gather import Section
from fl_app.results import telling_columns
from fl_app.screen import screen_width
from fl_app.tables import columns, decimals, human_bytes


def comparison_table(rows: Sequence[dict[str, Any]]) -> str:
    """`comparison` for the terminal, no wider than it."""
    return columns(*comparison(rows), width=screen_width())


def comparison(rows: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Mean and range over seeds, folds and other draws, one line for each setting that differs, with its guarantee.

    Runs of different privacy units, trust models, deltas or kinds of guarantee never share a line.

    Returns
    -------
    header : list of str
    lines : list of list of str
    """
    frame = pd.DataFrame(rows)
    keys = ["dataset", "split", "strategy", *telling_columns(rows)]
    promise = ["epsilon", "delta", "holds", "unit", "trust"]
    primary = "accuracy" if "accuracy" in frame else "r2"
    frame["holds"] = ["none" if str(text).startswith("guarantee: none") else "holds" for text in frame["guarantee"]]
    frame["unit"] = frame["unit"].map(short_unit)
    frame["trust"] = frame["trust"].map(short_trust)
    for name in keys:
        frame[name] = ["" if row.get(name) is None else str(row[name]) for row in rows]
    lines = []
    for key, group in frame.groupby([*keys, *promise], sort=True, dropna=False):
        *setting, spent, delta, holds, unit, trust = key
        epsilon = float(str(spent))
        # A sweep over epsilon repeats what pays no heed to it.
        group = group.drop_duplicates(["pair", primary])
        scores = group[primary].dropna()
        cells = [*map(str, setting), rounded_up(epsilon), rounded_up(delta) if math.isfinite(epsilon) else "-"]
        cells += [str(holds), str(unit), str(trust)]
        cells += [str(len(group)), f"{decimals(scores.mean())} [{decimals(scores.min())} to {decimals(scores.max())}]"]
        if "balanced_accuracy" in frame:
            cells.append(f"{group['balanced_accuracy'].mean():.3f}")
        cells += [human_bytes(group["bytes_down"].mean()), human_bytes(group["bytes_up"].mean())]
        if "bytes_of_rows" in frame:
            cells.append(human_bytes(group["bytes_of_rows"].mean()))
        lines.append([*cells, f"{group['seconds'].mean():.1f}"])
    header = [key.removeprefix("strategy.").removeprefix("dataset.") for key in keys]
    header += ["epsilon", "delta", "guarantee", "unit", "trust", "runs", primary]
    header += ["balanced"] if "balanced_accuracy" in frame else []
    header += ["bytes down", "bytes up"] + (["raw rows instead"] if "bytes_of_rows" in frame else [])
    return [*header, "seconds"], lines


def section_tables(section: Section) -> str:
    """The tables of runs that may be compared: settings, and what their methods have besides."""
    tables = [comparison_table(section.rows)] if section.metric in section.frame else []
    tables += [stability_table(section.runs, section.rows), ldp_tables(section.runs, section.rows)]
    tables.append(user_table(section.runs, section.rows))
    return "\n\n".join(filter(None, [section.title, *tables, section.note]))


if __name__ == "__main__":
    from fl_app.commands.cli import run_module

    sys.exit(run_module("compare", "fl_app.compare"))
