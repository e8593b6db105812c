"""Write a forest for other programs.

onnx runs on phones and watches with any ONNX runtime (needs the extra onnx); nested is the JSON of nested nodes of the
LDP document.
"""

from __future__ import annotations

import argparse
from pathlib import Path

EXAMPLES = """\
dpforest export --model RUN/model/forest.json --to onnx --out forest.onnx
dpforest export --model RUN/model/forest.json --to nested --out nested.json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The forest, the format and the file to write."""
    parser.add_argument("--model", type=Path, required=True, help="forest.json of a run, or a saved estimator")
    parser.add_argument("--to", choices=("onnx", "nested"), required=True, help="the format")
    parser.add_argument("--out", type=Path, required=True, help="file to write")


def execute(options: argparse.Namespace) -> int:
    """Write the file; exit code 1 if it cannot be made."""
    from dpforest.forest import save_onnx, to_nested
    from dpforest.forest.json_format import write_json
    from fl_app.results.model_file import load_model, require_forest

    forest = require_forest(load_model(options.model), "this export")
    if options.to == "onnx":
        save_onnx(forest, options.out)
    else:
        write_json(to_nested(forest), options.out)
    print(f"{forest.n_trees} trees in {options.out}")
    return 0
