"""``python -m fl_app.predict --model RUN/model/forest.json --data new.csv --out predictions.csv``: forests on new rows.

The columns of the CSV are found by their names, in any order; others are not looked at. From Python the same is::

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
from fl_app.data.csv_file import TOO_LONG_REMEDY, CsvFile, read_csv
from fl_app.data.source import DataError

_NAMED = 5  # rows that are named when they cannot be predicted


def predict_file(forest: Forest, path: Path, explain: bool = False) -> tuple[pd.DataFrame, list[str]]:
    """Predictions for the rows of a CSV file.

    Parameters
    ----------
    forest : Forest
    path : Path
        With a column for each of the forest's; see `fl_app.data.csv_file` for what is understood.
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
    file = read_csv(path, schema.columns, tuple(schema.categories))
    if not len(file.lines):
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


def _matrix(forest: Forest, file: CsvFile) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """The rows that can be predicted, which ones they are, and what is wrong with the others."""
    schema = forest.schema
    table: dict[str, np.ndarray] = {}
    good = ~file.too_long
    lacking = "is missing or not understood; fill it, or there is no prediction"
    wrong = {
        int(row): f"more cells than the header has columns; {TOO_LONG_REMEDY}, or there is no prediction"
        for row in np.flatnonzero(file.too_long)[:_NAMED]
    }
    for name in schema.columns:
        if name in schema.categories:
            table[name] = file.text(name)
            fits = np.isin(table[name], schema.categories[name])
        else:
            table[name] = file.numbers(name)
            fits = np.isfinite(table[name])
        for row in np.flatnonzero(~fits)[:_NAMED]:
            wrong.setdefault(int(row), f"{name} {lacking}")
        good &= fits
    notes = [f"warning: {file.path.name}, line {file.lines[row]}: {wrong[row]}" for row in sorted(wrong)[:_NAMED]]
    if (more := int((~good).sum()) - len(notes)) > 0:
        notes.append(f"warning: {file.path.name}: {more} more rows have no prediction")
    return schema.matrix({name: cells[good] for name, cells in table.items()}), good, notes


if __name__ == "__main__":
    from fl_app.commands.cli import run_module

    sys.exit(run_module("predict", "fl_app.predict"))
