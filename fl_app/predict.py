"""``python -m fl_app.predict --model RUN/model/forest.json --data new.csv --out predictions.csv``: forests on new rows.

The columns of the table are found by their names, in any order; others are not looked at. From Python the same is::

    forest = dpforest.forest.load("forest.json")
    forest.predict_proba(forest.schema.matrix(table))  # a DataFrame, or lists by column name
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dpforest.explain import explain_prediction
from dpforest.forest import Forest
from fl_app.data.source import DataError, describe_clipped, is_large
from fl_app.data.table_file import TableFile, read_table

_NAMED = 5  # rows that are named when they cannot be predicted


def predict_file(forest: Forest, path: Path, explain: bool = False) -> tuple[pd.DataFrame, list[str]]:
    """Predictions for the rows of a CSV or Parquet file.

    Parameters
    ----------
    forest : Forest
    path : Path
        With a column for each of the forest's; see `fl_app.data.table_file` for what is understood.
    explain : bool
        Add the path through every tree in words.

    Returns
    -------
    predictions : DataFrame
        For each row its ``line`` in the file, ``prediction``, for classes ``probability_CLASS`` each, and with
        ``explain`` its ``path``. A row with a missing value has no prediction.
    notes : list of str
        What was left out or not looked at, with its remedy.

    Raises
    ------
    DPForestError
        A column is missing, or there is no row that can be predicted.
    """
    schema = forest.schema
    file = read_table(path, schema.columns)
    if not len(file):
        raise DataError(f"{path.name}, line 2: no rows below the header; record some first")
    X, good, notes = _matrix(forest, file)
    if not good.any():
        raise DataError(f"no row can be predicted: {notes[0].removeprefix('warning: ')}")
    if file.others:
        notes.append(f"note: {path.name}: columns that the model does not know are left out: {', '.join(file.others)}")
    found: dict[str, Any] = {"line": file.lines}
    if schema.is_classification:
        probability = np.full((len(good), schema.n_outputs), np.nan)
        probability[good] = forest.predict_proba(X)
        names = np.array(["", *schema.classes], dtype=object)
        found["prediction"] = names[np.where(good, np.argmax(np.nan_to_num(probability), axis=1) + 1, 0)]
        found |= {f"probability_{name}": probability[:, c] for c, name in enumerate(schema.classes)}
    else:
        target = np.full(len(good), np.nan)
        target[good] = forest.predict(X)
        found["prediction"] = target
    if explain:
        words = np.full(len(good), "", dtype=object)
        words[good] = [" | ".join(f"tree {p.tree + 1}: {p}" for p in explain_prediction(forest, row)) for row in X]
        found["path"] = words
    return pd.DataFrame(found), notes


def _matrix(forest: Forest, file: TableFile) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """The rows that can be predicted, which ones they are, and what is wrong with the others."""
    schema = forest.schema
    table: dict[str, np.ndarray] = {}
    good = file.readable
    clipped: dict[str, tuple[int, int]] = {}
    bounds = {feature.name: (feature.low, feature.high) for feature in schema.features}
    lacking = "is missing or not understood; fill it, or there is no prediction"
    wrong = {
        row: f"{problem.what}; {problem.remedy}, or there is no prediction"
        for row, problem in list(file.unreadable.items())[:_NAMED]
    }
    for name in schema.columns:
        if name in schema.categories:
            table[name] = np.array(file.text(name), dtype=object)
            fits = np.isin(table[name], schema.categories[name])
        else:
            table[name] = file.numbers(name)
            fits = np.isfinite(table[name])
            low, high = bounds[name]
            clipped[name] = (int(((table[name] < low) | (table[name] > high))[fits].sum()), int(fits.sum()))
        for row in np.flatnonzero(~fits)[:_NAMED]:
            wrong.setdefault(int(row), f"{name} {lacking}")
        good &= fits
    notes = [f"warning: {file.place(row)}: {wrong[row]}" for row in sorted(wrong)[:_NAMED]]
    if (more := int((~good).sum()) - len(notes)) > 0:
        notes.append(f"warning: {file.path.name}: {more} more rows have no prediction")
    if is_large(clipped):
        notes.append(f"warning: {file.path.name}: {describe_clipped(clipped)}")
    return schema.matrix({name: cells[good] for name, cells in table.items()}), good, notes


if __name__ == "__main__":
    from fl_app.commands.cli import run_module

    sys.exit(run_module("predict", "fl_app.predict"))
