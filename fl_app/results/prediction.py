"""Models on new rows, as ``dpforest predict`` writes them.

The columns of the table are found by their names, in any order; others are not looked at. From Python the same is::

    forest = dpforest.forest.load("forest.json")
    forest.predict_proba(forest.schema.matrix(table))  # a DataFrame, or lists by column name

A forest whose trees ask rows on a person's own scale takes a file a person; from Python::

    forest.predict_proba(forest.of_person(forest.own.schema.matrix(table)))
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dpforest.cells import Reading, Table, read_target
from dpforest.errors import printable
from dpforest.explain import explain_prediction
from dpforest.own_rows import ENOUGH_ROWS
from dpforest.schema import Schema
from fl_app.data.reading.table_file import TableFile, read_table
from fl_app.data.source import DataError, bounded, describe_clipped, is_large
from fl_app.results.model_file import Model, require_forest, rows_of_person, rows_schema
from strategies.metrics import METRICS, classification_sums, regression_sums, summarize

_NAMED = 5  # rows that are named when they cannot be predicted
_SCORES = ("accuracy", "balanced_accuracy", "roc_auc", "r2", "mae")


def predict_file(model: Model, path: Path, explain: bool = False) -> tuple[pd.DataFrame, list[str]]:
    """Predictions for the rows of a CSV or Parquet file.

    Parameters
    ----------
    model : Model
    path : Path
        With a column for each of the model's; see `fl_app.data.reading.table_file` for what is understood.
    explain : bool
        Add the path through every tree of a forest in words.

    Returns
    -------
    predictions : DataFrame
        For each row its ``line`` in the file, ``prediction``, for classes ``probability_CLASS`` each, and with
        ``explain`` its ``path``. A row with a missing value has no prediction, unless the schema has a branch for it.
    notes : list of str
        What was left out or not looked at, with its remedy; where the target is among the columns, the score.

    Raises
    ------
    DPForestError
        A column is missing, or there is no row that can be predicted.
    """
    forest = require_forest(model, "--explain") if explain else None
    schema = rows_schema(model)
    file = read_table(path, schema.columns, optional=[schema.target])
    if not len(file):
        raise DataError(f"{path.name}, line 2: no rows below the header; record some first")
    X, good, notes = _matrix(schema, file, file.read(schema))
    if not good.any():
        raise DataError(f"no row can be predicted: {notes[0].removeprefix('warning: ')}")
    if (asked := rows_of_person(model, X)) is not X:
        notes.append(_own_scale_note(path.name, len(X)))
        X = asked
    if file.others:
        notes.append(f"note: {path.name}: columns that the model does not know are left out: {', '.join(file.others)}")
    found: dict[str, Any] = {"line": file.lines}
    if schema.is_classification:
        probability = np.full((len(good), schema.n_outputs), np.nan)
        probability[good] = outcome = model.predict_proba(X)
        names = np.array(["", *schema.classes], dtype=object)
        found["prediction"] = names[np.where(good, np.argmax(np.nan_to_num(probability), axis=1) + 1, 0)]
        found |= {f"probability_{printable(name)}": probability[:, c] for c, name in enumerate(schema.classes)}
    else:
        target = np.full(len(good), np.nan)
        target[good] = outcome = model.predict(X)
        found["prediction"] = target
    if schema.target in file.columns:
        notes.append(_score(schema, file, good, outcome))
    if explain and forest:
        words = np.full(len(good), "", dtype=object)
        words[good] = [" | ".join(f"tree {p.tree + 1}: {p}" for p in explain_prediction(forest, row)) for row in X]
        found["path"] = words
    return pd.DataFrame(found), notes


def _own_scale_note(name: str, rows: int) -> str:
    few = f", of which {ENOUGH_ROWS} or more are needed for a sound one" if rows < ENOUGH_ROWS else ""
    return (
        f"{'warning' if few else 'note'}: {name}: all {rows} rows are taken to be of one person, on whose own scale "
        f"they are put{few}"
    )


def _matrix(schema: Schema, file: TableFile, table: Table) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """The rows that can be predicted, which ones they are, and what is wrong with the others."""
    good = file.readable & table.fits
    wrong = {
        row: f"{problem.what}; {problem.remedy}, or there is no prediction"
        for row, problem in list(file.unreadable.items())[:_NAMED]
    }
    for reading in table.readings:
        for row in np.flatnonzero(~reading.fits)[:_NAMED]:
            cell = file.columns[reading.name].take(np.array([row])).text()[0]
            wrong.setdefault(int(row), _without_prediction(reading, row, cell))
    notes = [f"warning: {file.place(row)}: {wrong[row]}" for row in sorted(wrong)[:_NAMED]]
    if (more := int((~good).sum()) - len(notes)) > 0:
        notes.append(f"warning: {file.path.name}: {more} more rows have no prediction")
    X, clipped = bounded(table.matrix(good), schema, "clip")
    if is_large(clipped):
        notes.append(f"warning: {file.path.name}: {describe_clipped(clipped)}")
    return X, good, notes


def _without_prediction(reading: Reading, row: int, cell: str) -> str:
    if reading.missing[row] and reading.rule == "drop":
        return f"{reading.fault(row, cell)}, and the model's schema leaves such rows out: there is no prediction"
    remedy = "fill" if reading.missing[row] else "correct"
    return f"{reading.fault(row, cell)}; {remedy} it, or there is no prediction"


def _score(schema: Schema, file: TableFile, good: np.ndarray, outcome: np.ndarray) -> str:
    """How well the predictions fit the target of the rows that have one; nothing where no row has."""
    with file.named():
        target = read_target(schema, file.columns[schema.target])
    known = target.fits[good]
    y = target.values[good][known]
    if not len(y):
        return f"note: {file.path.name}: the model knows the {schema.target} of no row, so nothing is scored"
    sums = classification_sums(y, outcome[known]) if schema.is_classification else regression_sums(y, outcome[known])
    found = summarize(sums)
    said = ", ".join(f"{m.label} {found[m.name]:.4g}" for m in METRICS if m.name in _SCORES and m.name in found)
    return f"score of {len(y)} rows whose {schema.target} is known: {said}"
