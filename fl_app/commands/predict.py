"""Predict the rows of a CSV or Parquet file with a finished model: a forest, a network, or one of a package of yours.

The columns are found by their names, in any order; others are not looked at. From Python the same is:
forest = dpforest.forest.load("forest.json"); forest.predict_proba(forest.schema.matrix(table)).
"""

from __future__ import annotations

import argparse
from pathlib import Path

from dpforest.errors import printable

EXAMPLES = """\
dpforest predict --model RUN/model/forest.json --data new.csv --out predictions.csv
dpforest predict --model RUN/model/forest.json --data new.csv --out predictions.csv --explain
dpforest predict --model RUN/model/network.json --data new.csv --out predictions.csv"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model, the rows and the file to write."""
    parser.add_argument(
        "--model", type=Path, required=True, help="forest.json or network.json of a run, or a saved estimator"
    )
    parser.add_argument("--data", type=Path, required=True, help="CSV or Parquet file")
    parser.add_argument("--out", type=Path, required=True, help="CSV file to write")
    parser.add_argument("--explain", action="store_true", help="add the path of each prediction through the trees")


def execute(options: argparse.Namespace) -> int:
    """Write the predictions; exit code 1 if there are none."""
    from dpforest.files import written_whole
    from dpforest.texts import harmless_cell
    from fl_app.results.model_file import load_model
    from fl_app.results.prediction import predict_file

    model = load_model(options.model)
    predictions, notes = predict_file(model, options.data, options.explain)
    if model.schema.is_classification:
        predictions["prediction"] = predictions["prediction"].map(harmless_cell)
        if marked := [name for name in model.schema.classes if harmless_cell(name) != name]:
            notes.append(f"note: class names that a spreadsheet would calculate are written with ': {marked}")
    # Line ends of two characters, as in RFC 4180: then a name that holds one of them is quoted, and breaks no line.
    with written_whole(options.out) as place:
        predictions.to_csv(place, index=False, float_format="%.9g", lineterminator="\r\n")
    for note in notes:
        print(printable(note))
    print(f"{len(predictions)} rows in {options.out}")
    return 0
