"""The table of a section: a line for each setting that differs, with its guarantee."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from dpforest.ledger import rounded_up
from fl_app.results.finished import PRIVATE, UNPROVEN, FinishedRun
from fl_app.results.rows import distinct_columns
from fl_app.results.text import decimals, human_bytes
from fl_app.terminal.tables import columns
from strategies.metrics import metrics_of, primary_metric


def comparison_table(runs: Sequence[FinishedRun], width: int | None = None) -> str:
    """`comparison` as text, no wider than ``width``."""
    return columns(*comparison(runs), width=width)


def comparison(runs: Sequence[FinishedRun]) -> tuple[list[str], list[list[str]]]:
    """Mean and range over seeds, folds and other draws, one line for each setting that differs, with its guarantee.

    Runs of different privacy units, trust models, deltas or kinds of guarantee never share a line.

    Returns
    -------
    header : list of str
    lines : list of list of str
    """
    rows = [run.row for run in runs]
    # Units and trust models have columns of their own.
    distinct = [name for name in distinct_columns(rows) if not name.startswith("privacy.")]
    keys = ["dataset", "split", "strategy", *distinct]
    frame = pd.DataFrame(rows)
    frame["holds"] = [PRIVATE if run.guarantee.holds else UNPROVEN for run in runs]
    frame["unit"] = [run.guarantee.unit.name for run in runs]
    frame["trust"] = [run.guarantee.trust.model for run in runs]
    frame["draw"] = [run.draw for run in runs]
    for name in keys:
        frame[name] = ["" if row.get(name) is None else str(row[name]) for row in rows]
    primary = primary_metric(frame).name
    others = [each for each in metrics_of() if each.heading and each.name in frame and each.name != primary]
    raw_rows = ["bytes_of_rows"] if "bytes_of_rows" in frame else []
    lines = []
    for key, group in frame.groupby([*keys, "epsilon", "delta", "holds", "unit", "trust"], sort=True, dropna=False):
        *setting, spent, delta, holds, unit, trust = key
        epsilon = float(str(spent))
        # A sweep over epsilon repeats what ignores it.
        group = group.drop_duplicates(["draw", primary])
        scores = group[primary].dropna()
        cells = [*map(str, setting), rounded_up(epsilon), rounded_up(delta) if math.isfinite(epsilon) else "-"]
        cells += [str(holds), str(unit), str(trust)]
        cells += [str(len(group)), _with_range(scores)]
        cells += [f"{group[each.name].mean():.3f}" for each in others]
        cells += [human_bytes(group[name].mean()) for name in ("bytes_down", "bytes_up", *raw_rows)]
        lines.append([*cells, f"{group['seconds'].mean():.1f}"])
    header = [key.removeprefix("strategy.").removeprefix("dataset.") for key in keys]
    header += ["epsilon", "delta", "guarantee", "unit", "trust", "runs", primary]
    header += [*(each.heading for each in others), "bytes down", "bytes up", *("raw rows instead" for _ in raw_rows)]
    return [*header, "seconds"], lines


def _with_range(scores: pd.Series) -> str:
    """A mean with its range over runs; one run has none."""
    mean = decimals(scores.mean())
    return f"{mean} [{decimals(scores.min())} to {decimals(scores.max())}]" if len(scores) > 1 else mean
