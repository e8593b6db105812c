"""Write a model for other programs: a forest, a network, or one of a package of yours.

onnx runs on phones and watches with any ONNX runtime (needs the extra onnx), with the preparation of the rows in it;
nested is the JSON of nested nodes of the LDP document, of forests only.
"""

from __future__ import annotations

import argparse
from pathlib import Path

EXAMPLES = """\
dpforest export --model RUN/model/forest.json --to onnx --out forest.onnx
dpforest export --model RUN/model/network.json --to onnx --out network.onnx
dpforest export --model RUN/model/forest.json --to nested --out nested.json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model, the format and the file to write."""
    parser.add_argument(
        "--model", type=Path, required=True, help="forest.json or network.json of a run, or a saved estimator"
    )
    parser.add_argument("--to", choices=("onnx", "nested"), required=True, help="the format")
    parser.add_argument("--out", type=Path, required=True, help="file to write")


def execute(options: argparse.Namespace) -> int:
    """Write the file; exit code 1 if it cannot be made."""
    from dpforest.forest import to_nested
    from dpforest.forest.json_format import write_json
    from dpforest.forest.onnx_graph import write_onnx
    from fl_app.results.model_file import load_model, onnx_of, require_forest

    model = load_model(options.model)
    if options.to == "onnx":
        write_onnx(onnx_of(model), options.out)
    else:
        write_json(to_nested(require_forest(model, "--to nested")), options.out)
    trees = getattr(model, "n_trees", None)
    print(f"{'a ' + type(model).__name__ if trees is None else f'{trees} trees'} in {options.out}")
    return 0
